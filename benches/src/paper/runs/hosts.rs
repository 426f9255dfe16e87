//! Runs on hosts that are joined by shaped links: `cargo xtask bench hosts` makes them, and is asked for each layout.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use sylvie::gnn::ModelKind;
use sylvie::pipeline::ExchangePolicy;

use super::{Cell, Missing, Results, Runner, Why, percent};
use crate::paper::BENCHES;
use crate::paper::definition::{Item, Layout, Network, Set};
use crate::paper::graphs::Use;
use crate::paper::stored::lines;

/// The file of a record's runs on shaped hosts.
pub(crate) const FILE: &str = "hosts.csv";

/// A policy on shaped hosts, beside threads over a modelled link of the same rate. Times are of an epoch.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(crate) struct Shaped {
    pub(crate) data: String,
    #[serde(deserialize_with = "kind")]
    pub(crate) model: ModelKind,
    pub(crate) layout: String,
    pub(crate) policy: String,
    /// Of each host's link, each way.
    pub(crate) rate_mbit: u64,
    pub(crate) measured_ms: f64,
    /// What rate and bytes imply.
    pub(crate) predicted_ms: f64,
    pub(crate) modelled_ms: f64,
    /// Without any link.
    pub(crate) linkless_ms: f64,
    /// Payload counted on the interfaces over what the program counts.
    pub(crate) wire: f64,
}

fn kind<'de, D: Deserializer<'de>>(from: D) -> Result<ModelKind, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

/// A line of the command's figures.
#[derive(Debug, Deserialize)]
struct Line {
    policy: String,
    measured: f64,
    predicted: f64,
    modelled: f64,
    linkless: f64,
    wire: f64,
}

impl Shaped {
    /// The runs of a record; none where it has no such file.
    ///
    /// # Errors
    /// A file that is not of runs, with the line.
    pub(crate) fn stored(record: &Path) -> Result<Vec<Self>> {
        let path = record.join(FILE);
        if path.exists() { lines(&path) } else { Ok(Vec::new()) }
    }
}

impl Results {
    /// The run of a policy on a layout's hosts.
    pub(crate) fn shaped(&self, cell: Cell<'_>, layout: &str, policy: &str) -> Option<&Shaped> {
        self.shaped.iter().find(|run| {
            (run.data.as_str(), run.model) == cell && run.layout == layout && run.policy == policy
        })
    }

    /// A line a run on shaped hosts.
    pub(crate) fn shaped_csv(&self) -> String {
        let mut text = String::from(
            "data,model,layout,policy,rate_mbit,measured_ms,predicted_ms,modelled_ms,linkless_ms,wire\n",
        );
        for run in &self.shaped {
            let place = format!("{},{},\"{}\",{}", run.data, run.model, run.layout, run.policy);
            let Shaped { rate_mbit, measured_ms, predicted_ms, modelled_ms, .. } = run;
            let times = format!("{measured_ms},{predicted_ms},{modelled_ms},{}", run.linkless_ms);
            writeln!(text, "{place},{rate_mbit},{times},{}", run.wire).expect("text takes text");
        }
        text
    }
}

/// The command that measures on shaped hosts.
#[derive(Debug)]
pub(crate) struct HostsCommand {
    words: Vec<OsString>,
    /// Why there can be no hosts here, once that was tried.
    tried: Option<Result<(), String>>,
}

impl Default for HostsCommand {
    fn default() -> Self {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let words = ["xtask", "bench", "hosts"].map(OsString::from);
        Self { words: std::iter::once(cargo).chain(words).collect(), tried: None }
    }
}

impl HostsCommand {
    /// Another program, which takes the same arguments.
    pub(crate) fn of(program: &Path) -> Self {
        Self { words: vec![program.into()], tried: None }
    }

    /// Tries once whether hosts can be made, and has built what they need.
    fn check(&mut self) -> Result<(), String> {
        let words = &self.words;
        let tried = self.tried.get_or_insert_with(|| {
            println!(
                "hosts: trying whether they can be made here, and building the program with MPI"
            );
            run(words, &["--check".to_owned()]).map_err(|error| format!("{error:#}"))
        });
        tried.clone()
    }

    /// Measures, and gives the lines of figures.
    fn measure(&self, mut arguments: Vec<String>) -> Result<Vec<Line>> {
        let folder = tempfile::tempdir()?;
        let csv = folder.path().join(FILE);
        arguments.extend(["--csv".to_owned(), csv.display().to_string()]);
        run(&self.words, &arguments)?;
        lines(&csv)
    }
}

/// Runs the command in the repository's root; its own messages pass, and the last of its errors is the reason.
fn run(words: &[OsString], arguments: &[String]) -> Result<()> {
    let (program, first) = words.split_first().context("no command for hosts")?;
    let mut command = Command::new(program);
    command.args(first).args(arguments).current_dir(Path::new(BENCHES).join(".."));
    let streams = command.stdin(Stdio::null()).stdout(Stdio::inherit()).stderr(Stdio::piped());
    let output = streams.output().with_context(|| program.display().to_string())?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", reason(&errors).unwrap_or("it says nothing"));
    Ok(())
}

/// The last line that says anything.
fn reason(errors: &str) -> Option<&str> {
    let line = errors.lines().rfind(|line| !line.trim().is_empty())?.trim();
    Some(line.strip_prefix("bench: failed: ").unwrap_or(line))
}

impl Item {
    /// Checks what runs on shaped hosts cannot be otherwise.
    ///
    /// # Errors
    /// The first thing that is.
    pub(in crate::paper) fn check_hosts(&self, sets: &BTreeMap<String, Set>) -> Result<()> {
        for layout in &self.layouts {
            let is_one_each = layout.ranks_per_host == 1 && layout.parts > 1;
            ensure!(is_one_each, "layout '{}': a rank a host, and two hosts at least", layout.name);
        }
        for policy in &self.policies {
            let halo = policy.exchange().halo;
            let is_preset = policy.exchange() == ExchangePolicy { halo, ..policy.preset.policy() };
            ensure!(is_preset, "policy '{}' is no preset as it is", policy.name);
        }
        ensure!(self.real.is_empty(), "shaped hosts take generated data sets");
        for name in &self.data {
            let is_plain = sets.get(name).is_some_and(|set| !set.inductive && !set.standardize);
            ensure!(is_plain, "data set '{name}' is inductive or standardised");
        }
        for (name, effort) in [("quick", &self.quick), ("full", &self.full)] {
            let is_counted = effort.warm_epochs > 1 && effort.epochs as usize > effort.warm_epochs;
            ensure!(is_counted, "{name}: `warm_epochs` above 1, and more `epochs`");
        }
        Ok(())
    }
}

impl<'a> Runner<'a> {
    /// Makes the runs of an item on shaped hosts, where there can be such; what building takes is not the item's time.
    ///
    /// # Errors
    /// A record that cannot be written.
    pub(super) fn on_hosts(&mut self, item: &'a Item) -> Result<()> {
        let cells = self.cells(item);
        let places = cells.iter().flat_map(|&cell| item.layouts.iter().map(move |l| (cell, l)));
        let is_new = |&(cell, layout): &(Cell<'a>, &'a Layout)| {
            self.results.shaped(cell, &layout.name, item.baseline()).is_none()
        };
        let places: Vec<(Cell<'a>, &'a Layout)> = places.filter(is_new).collect();
        if places.is_empty() {
            return Ok(());
        }
        let tried = self.hosts.check();
        let budget = Duration::from_secs_f64(self.effort(item).budget_s.max(0.0));
        let deadline = Instant::now() + budget;
        for (cell, layout) in places {
            let what = format!("{}, {}, {}", cell.0, cell.1, layout.name);
            if let Err(reason) = &tried {
                println!("{}: {what}: not measured here: {reason}", item.id);
                let (item, why) = (item.id.clone(), Why::NotHere(reason.clone()));
                self.results.missing.push(Missing { item, what, why });
                continue;
            }
            self.describe(item, cell);
            self.attempt(item, deadline, &what, |runner| runner.shape(item, cell, layout))?;
        }
        Ok(())
    }

    /// Measures all policies on a layout's hosts. The rate is chosen on the first layout, as a link is.
    fn shape(&mut self, item: &'a Item, cell: Cell<'a>, layout: &Layout) -> Result<String> {
        let (data, kind) = cell;
        let set = &self.definitions.sets[data];
        let first = &item.layouts[0];
        let link = self.link(item, cell, first, percent(set, first, data)?)?;
        let rate_mbit = (link.bits_per_second / 1e6).round().max(1.0) as u64;
        let arguments = self.arguments(item, cell, layout, rate_mbit)?;
        let lines = self.hosts.measure(arguments)?;
        let mut found = Vec::new();
        for policy in &item.policies {
            let preset = policy.preset.to_string();
            let line = lines.iter().find(|line| line.policy == preset);
            let line = line.with_context(|| format!("no figures of {preset}"))?;
            found.push(Shaped {
                data: data.to_owned(),
                model: kind,
                layout: layout.name.clone(),
                policy: policy.name.clone(),
                rate_mbit,
                measured_ms: line.measured,
                predicted_ms: line.predicted,
                modelled_ms: line.modelled,
                linkless_ms: line.linkless,
                wire: line.wire,
            });
        }
        self.results.shaped.extend(found);
        Ok(format!("{} policies at {rate_mbit} Mbit/s a host", item.policies.len()))
    }

    /// What the command is told.
    fn arguments(
        &self,
        item: &'a Item,
        (data, kind): Cell<'_>,
        layout: &Layout,
        rate_mbit: u64,
    ) -> Result<Vec<String>> {
        let (set, effort) = (&self.definitions.sets[data], self.effort(item));
        let network = set.networks.get(&kind.to_string());
        let Network { layers, linear, hidden, dropout } = *network.context("no such network")?;
        let presets: Vec<String> =
            item.policies.iter().map(|policy| policy.preset.to_string()).collect();
        let flags = [
            ("--hosts", layout.parts.to_string()),
            ("--rate", format!("{rate_mbit}mbit")),
            ("--data", self.graphs.source(set)?),
            ("--partitioner", set.method().to_string()),
            ("--hidden", self.graphs.hidden(hidden, Use::Timed).to_string()),
            ("--policies", presets.join(",")),
            ("--epochs", effort.epochs.to_string()),
            ("--warm", effort.warm_epochs.to_string()),
            (
                "--train",
                format!(
                    "--model {kind} --layers {layers} --linear-layers {linear} --dropout {dropout}"
                ),
            ),
        ];
        Ok(flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn the_reason_is_the_last_thing_said() {
        let errors = "   Compiling sylvie\nwarning: x\n\nbench: failed: only root may\n\n";
        assert_eq!(reason(errors), Some("only root may"));
        assert_eq!(reason("error: no such command\n"), Some("error: no such command"));
        assert_eq!(reason("\n \n"), None);
    }
}
