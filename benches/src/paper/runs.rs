//! Runs of items, each made once and shared by all items that name it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use sylvie::comm::LinkModel;
use sylvie::gnn::ModelKind;

use super::definition::{Definitions, Effort, Item, Kind, Layout, Policy, Set};
use super::graphs::{Graphs, Mode, Use};
use super::record::Record;
use super::training::{Curve, Length, curve};
use crate::policies::report::Row;
use crate::policies::{Bench, Effort as TimeEffort, Layout as Ranks};

mod hosts;

pub(crate) use hosts::{FILE as HOSTS_FILE, HostsCommand, Shaped};

/// A run over a link.
#[derive(Debug)]
pub(crate) struct Timed {
    pub(crate) data: String,
    pub(crate) model: ModelKind,
    pub(crate) layout: String,
    pub(crate) n_parts: u32,
    pub(crate) row: Row,
}

/// A training to the end.
#[derive(Debug)]
pub(crate) struct Trained {
    pub(crate) data: String,
    pub(crate) model: ModelKind,
    pub(crate) policy: String,
    pub(crate) seed: u32,
    pub(crate) n_parts: u32,
    pub(crate) epochs: u32,
    pub(crate) eval_every: u32,
    pub(crate) curve: Curve,
}

/// Something that was to be run, and why there is nothing of it.
#[derive(Clone, Debug)]
pub(crate) struct Missing {
    pub(crate) item: String,
    pub(crate) what: String,
    pub(crate) why: Why,
}

/// Why a run is missing.
#[derive(Clone, Debug)]
pub(crate) enum Why {
    /// The item's time was used up.
    Time,
    /// It failed.
    Failed(String),
    /// It cannot be made here.
    NotHere(String),
}

/// All runs so far.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) timed: Vec<Timed>,
    pub(crate) shaped: Vec<Shaped>,
    pub(crate) trained: Vec<Trained>,
    pub(crate) missing: Vec<Missing>,
    /// Graphs by data set, in words.
    pub(crate) graphs: BTreeMap<String, String>,
}

impl Results {
    /// The run of a policy over a layout's link.
    pub(crate) fn row(&self, cell: Cell<'_>, layout: &str, policy: &str) -> Option<&Row> {
        let is_meant = |timed: &&Timed| {
            (timed.data.as_str(), timed.model) == cell
                && timed.layout == layout
                && timed.row.policy == policy
        };
        self.timed.iter().find(is_meant).map(|timed| &timed.row)
    }

    /// Epochs a second over those of `baseline`.
    pub(crate) fn throughput(
        &self,
        cell: Cell<'_>,
        layout: &str,
        (policy, baseline): (&str, &str),
    ) -> Option<f64> {
        let baseline_s = self.row(cell, layout, baseline)?.measured_s;
        Some(baseline_s / self.row(cell, layout, policy)?.measured_s)
    }

    /// The trainings of a policy, in the order of their seeds.
    pub(crate) fn curves(
        &self,
        cell: Cell<'_>,
        policy: &str,
        effort: &Effort,
        n_parts: u32,
    ) -> Vec<&Curve> {
        let is_meant = |run: &&Trained| {
            (run.data.as_str(), run.model) == cell
                && run.policy == policy
                && (run.epochs, run.eval_every, run.n_parts)
                    == (effort.epochs_on(cell.0), effort.eval_every, n_parts)
                && run.seed <= effort.seeds
        };
        let mut runs: Vec<&Trained> = self.trained.iter().filter(is_meant).collect();
        runs.sort_by_key(|run| run.seed);
        runs.into_iter().map(|run| &run.curve).collect()
    }
}

/// A data set and a kind of model.
pub(crate) type Cell<'a> = (&'a str, ModelKind);

/// What makes the runs.
pub(crate) struct Runner<'a> {
    definitions: &'a Definitions,
    graphs: Graphs,
    record: &'a Record,
    begin: Instant,
    /// By data set, model and layout.
    links: BTreeMap<(String, String, String), LinkModel>,
    pub(crate) hosts: HostsCommand,
    pub(crate) results: Results,
}

impl<'a> Runner<'a> {
    /// With the runs that are in the record already.
    pub(crate) fn new(
        definitions: &'a Definitions,
        graphs: Graphs,
        (record, results): (&'a Record, Results),
    ) -> Self {
        let (links, hosts) = Default::default();
        Self { definitions, graphs, record, begin: Instant::now(), links, hosts, results }
    }

    pub(crate) fn effort(&self, item: &'a Item) -> &'a Effort {
        match self.graphs.mode {
            Mode::Quick => &item.quick,
            Mode::Full => &item.full,
        }
    }

    /// The data sets and models of an item: real sets only where they are.
    pub(crate) fn cells(&self, item: &'a Item) -> Vec<Cell<'a>> {
        let names = item.data.iter().chain(&item.real);
        let all = names.flat_map(|name| item.models.iter().map(|&kind| (name.as_str(), kind)));
        let chosen = &self.effort(item).cells;
        let mut cells: Vec<Cell<'a>> = match chosen.is_empty() {
            true => all.collect(),
            false => {
                let kind = |word: &str| word.parse().ok();
                chosen
                    .iter()
                    .filter_map(|(data, word)| Some((data.as_str(), kind(word)?)))
                    .collect()
            }
        };
        cells.retain(|(name, _)| self.graphs.has(&self.definitions.sets[*name]));
        cells
    }

    /// Makes all runs of an item that there are none of yet, as long as its time lasts, and puts each into the record.
    ///
    /// # Errors
    /// A record that cannot be written. A run that fails is noted, and the others go on.
    pub(crate) fn run(&mut self, item: &'a Item) -> Result<()> {
        if item.kind == Kind::Hosts {
            return self.on_hosts(item);
        }
        let budget = Duration::from_secs_f64(self.effort(item).budget_s.max(0.0));
        let deadline = Instant::now() + budget;
        for cell in self.cells(item) {
            self.describe(item, cell);
            let is_generated = self.definitions.sets[cell.0].path.is_none();
            for layout in item.layouts.iter().filter(|_| item.kind.is_timed() && is_generated) {
                for policy in &item.policies {
                    let row = self.results.row(cell, &layout.name, &policy.name);
                    // A run of an earlier record's has no steps to draw.
                    let has_all =
                        |row: &Row| item.kind != Kind::Traces || !row.last_epoch.is_empty();
                    if row.is_some_and(has_all) {
                        continue;
                    }
                    self.attempt(item, deadline, &timed_name(cell, layout, policy), |runner| {
                        runner.time(item, cell, layout, policy)
                    })?;
                }
            }
            for policy in item.policies.iter().filter(|_| item.kind.is_trained()) {
                let n_seeds = self.effort(item).seeds;
                for seed in 1..=policy.seeds.unwrap_or(n_seeds).min(n_seeds) {
                    if self.is_trained(item, cell, policy, seed) {
                        continue;
                    }
                    self.attempt(item, deadline, &trained_name(cell, policy, seed), |runner| {
                        runner.train(item, cell, policy, seed)
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Makes a run and puts it into the record; one that fails or comes too late is noted, and the others go on.
    ///
    /// # Errors
    /// A record that cannot be written.
    fn attempt(
        &mut self,
        item: &Item,
        deadline: Instant,
        what: &str,
        run: impl FnOnce(&mut Self) -> Result<String>,
    ) -> Result<()> {
        let at_s = self.begin.elapsed().as_secs();
        let is_late = Instant::now() > deadline;
        let outcome = catch_unwind(AssertUnwindSafe(|| match is_late {
            true => Err(Why::Time),
            false => run(self).map_err(|error| Why::Failed(format!("{error:#}"))),
        }));
        let outcome = outcome.unwrap_or_else(|_| Err(Why::Failed("it panicked".to_owned())));
        let why = match outcome {
            Ok(text) => {
                // An item before may have had no time for it.
                self.results.missing.retain(|missing| missing.what != what);
                println!("[{at_s:4} s] {}: {what}: {text}", item.id);
                return self.record.write_runs(&self.results);
            }
            Err(why) => why,
        };
        match &why {
            Why::Time => {
                println!("[{at_s:4} s] {}: {what}: left out, the item's time is over", item.id)
            }
            Why::Failed(error) | Why::NotHere(error) => {
                println!("[{at_s:4} s] {}: {what}: failed: {error}", item.id)
            }
        }
        let (item, what) = (item.id.clone(), what.to_owned());
        self.results.missing.push(Missing { item, what, why });
        Ok(())
    }

    /// Notes what a data set is, once.
    fn describe(&mut self, item: &Item, (name, _): Cell<'_>) {
        if self.results.graphs.contains_key(name) {
            return;
        }
        let set = &self.definitions.sets[name];
        let (parts, method) = (item.layouts[0].parts, set.method());
        let Ok(split) = self.graphs.split((name, set), parts, Use::Timed) else {
            // Each run will say what is wrong.
            return;
        };
        let source = self.graphs.source(set).unwrap_or_default();
        let source = if set.path.is_some() { set.title.clone() } else { source };
        let original = set
            .original
            .as_ref()
            .map_or_else(String::new, |text| format!(" (the paper's: {text})"));
        let networks = set.networks.iter().map(|(name, network)| {
            let (layers, hidden) = (network.layers, network.hidden);
            let [timed, trained] =
                [Use::Timed, Use::Trained].map(|purpose| self.graphs.hidden(hidden, purpose));
            let columns = match timed == trained || set.path.is_some() {
                true => trained.to_string(),
                false => format!("{timed}, for scores {trained}"),
            };
            format!("{name} {layers} x {columns} ({})", hidden.paper)
        });
        let networks: Vec<String> = networks.collect();
        let text = format!(
            "{source}{original}: {} nodes, {} directed edges, {} features, {} classes; {} halo rows in {parts} parts ({method}); \
             layers and columns, in brackets the paper's: {}",
            split.n_nodes,
            split.n_edges,
            split.n_features,
            split.n_classes,
            split.n_halo_rows(),
            networks.join(", ")
        );
        println!("{name}: {text}");
        self.results.graphs.insert(name.to_owned(), text);
    }

    /// Whether there is such a training already, of this item or of another.
    fn is_trained(&self, item: &'a Item, cell: Cell<'_>, policy: &Policy, seed: u32) -> bool {
        let (effort, parts) = (self.effort(item), item.layouts[0].parts);
        self.results.trained.iter().any(|run| {
            (run.data.as_str(), run.model, run.seed, run.n_parts) == (cell.0, cell.1, seed, parts)
                && run.policy == policy.name
                && (run.epochs, run.eval_every) == (effort.epochs_on(cell.0), effort.eval_every)
        })
    }

    fn time(
        &mut self,
        item: &'a Item,
        cell: Cell<'_>,
        layout: &Layout,
        policy: &Policy,
    ) -> Result<String> {
        let (data, kind) = cell;
        let set = &self.definitions.sets[data];
        let from = if layout.percent.contains_key(data) { layout } else { &item.layouts[0] };
        let percent = percent(set, from, data)?;
        let link = self.link(item, cell, from, percent)?;
        let link = LinkModel { ranks_per_host: layout.ranks_per_host, ..link };
        let row = self.during(item, cell, layout, |bench| {
            bench.row(&policy.name, &policy.exchange(), percent / 100.0, link)
        })?;
        let text = format!(
            "{:.1} ms an epoch over {} epochs, predicted {:.1}",
            1e3 * row.measured_s,
            row.n_epochs,
            1e3 * row.predicted_s
        );
        let (data, layout_name) = (data.to_owned(), layout.name.clone());
        let n_parts = layout.parts;
        let is_other = |timed: &Timed| {
            (timed.data.as_str(), timed.model, &timed.layout) != (data.as_str(), kind, &layout.name)
                || timed.row.policy != policy.name
        };
        self.results.timed.retain(is_other);
        self.results.timed.push(Timed { data, model: kind, layout: layout_name, n_parts, row });
        Ok(text)
    }

    /// The link on which computation is that many percent of an epoch in full precision.
    fn link(
        &mut self,
        item: &'a Item,
        cell: Cell<'_>,
        layout: &Layout,
        percent: f64,
    ) -> Result<LinkModel> {
        let key = (cell.0.to_owned(), cell.1.to_string(), layout.name.clone());
        if let Some(&link) = self.links.get(&key) {
            return Ok(link);
        }
        let link = self.during(item, cell, layout, |bench| bench.choose_link(percent / 100.0))?;
        self.links.insert(key, link);
        Ok(link)
    }

    /// Measures on a cell's network and graph.
    fn during<T>(
        &mut self,
        item: &'a Item,
        cell: Cell<'_>,
        layout: &Layout,
        measure: impl FnOnce(Bench<'_>) -> Result<T>,
    ) -> Result<T> {
        let (data, kind) = cell;
        let set = &self.definitions.sets[data];
        let split = self.graphs.split((data, set), layout.parts, Use::Timed)?;
        let model = self.graphs.model(set, kind, (&split, Use::Timed))?;
        let effort = self.effort(item);
        measure(Bench {
            split: &split,
            model: &model,
            layout: Ranks {
                ranks_per_host: layout.ranks_per_host,
                n_threads: 1,
                latency: Duration::from_micros(layout.latency_us),
            },
            effort: TimeEffort { n_warm: effort.warm_epochs.max(1), seconds: effort.seconds },
        })
    }

    fn train(
        &mut self,
        item: &'a Item,
        cell: Cell<'_>,
        policy: &Policy,
        seed: u32,
    ) -> Result<String> {
        let (data, kind) = cell;
        let effort = self.effort(item);
        let parts = item.layouts[0].parts;
        let set = &self.definitions.sets[data];
        let split = self.graphs.split((data, set), parts, Use::Trained)?;
        let model = self.graphs.model(set, kind, (&split, Use::Trained))?;
        let begin = Instant::now();
        let epochs = effort.epochs_on(data);
        let length = Length { epochs, eval_every: effort.eval_every };
        let curve = curve(&split, &model, &policy.exchange(), u64::from(seed), length)?;
        let text = format!(
            "test {:.4} at validation {:.4} in epoch {}, {:.1} s",
            curve.test,
            curve.best_val,
            curve.best_epoch,
            begin.elapsed().as_secs_f64()
        );
        self.results.trained.push(Trained {
            data: data.to_owned(),
            model: kind,
            policy: policy.name.clone(),
            seed,
            n_parts: parts,
            epochs,
            eval_every: effort.eval_every,
            curve,
        });
        Ok(text)
    }
}

fn percent(set: &Set, layout: &Layout, data: &str) -> Result<f64> {
    let percent = layout.percent.get(data).copied().or(set.percent);
    let percent = percent.context("no percentage by which to choose a link")?;
    if percent > 0.0 && percent < 100.0 {
        return Ok(percent);
    }
    Err(anyhow!("{percent} percent of computation, expected more than 0 and less than 100"))
}

fn timed_name((data, kind): Cell<'_>, layout: &Layout, policy: &Policy) -> String {
    format!("{data}, {kind}, {}, {}", layout.name, policy.name)
}

fn trained_name((data, kind): Cell<'_>, policy: &Policy, seed: u32) -> String {
    format!("{data}, {kind}, {}, seed {seed}", policy.name)
}
