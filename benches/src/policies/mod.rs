//! Exchange policies over a modelled link: measured epochs beside those that the link's bandwidth and
//! latency imply, and beside the paper's.

mod paper;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod split;
pub(crate) mod surroundings;
mod traffic;
pub(crate) mod walk;

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use sylvie::comm::LinkModel;
use sylvie::gnn::{ModelConfig, ModelKind};
use sylvie::partition::Method;
use sylvie::pipeline::{ExchangePolicy, Preset, Schedule, plan_epoch};

use crate::rounds::median;
use report::{Row, heading, median_bytes, median_times, write_csv};
use run::{Epochs, Outcome, Subject, run};
use split::Split;
use traffic::{Pipe, Volumes};
use walk::{EpochTimes, Pieces, bytes_and_latencies, rate_for_share, synchronous_s};

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct PoliciesArguments {
    /// A small graph, 128 columns, few epochs: about a minute.
    #[arg(long)]
    quick: bool,
    /// Graph, as `sylvie train --data` takes it.
    #[arg(long)]
    data: Option<String>,
    /// How nodes are assigned to parts: at random, nearly every row is read by every part, as METIS too
    /// leaves it on graphs as dense as Reddit.
    #[arg(long, default_value = "random")]
    partitioner: Method,
    /// Ranks, each a thread that computes and one that communicates. No more than there are cores: a
    /// rank that waits for one is not in the prediction.
    #[arg(long, default_value_t = 2)]
    parts: u32,
    /// Ranks that share a host's link.
    #[arg(long, default_value_t = 1)]
    ranks_per_host: usize,
    /// Threads that each rank computes with.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Models.
    #[arg(long, value_delimiter = ',', default_values = ["sage", "gcn"])]
    model: Vec<ModelKind>,
    /// Columns between the three layers [default: 128,256].
    #[arg(long, value_delimiter = ',')]
    hidden: Vec<usize>,
    /// Computation in percent of vanilla's epoch: what each link is chosen by.
    #[arg(long, value_delimiter = ',', default_values_t = [1.5, 10.0])]
    percent: Vec<f64>,
    /// Latency of the link in microseconds.
    #[arg(long, default_value_t = 50)]
    latency_us: u64,
    /// Only these policies; vanilla always comes first [default: all].
    #[arg(long, value_delimiter = ',')]
    policy: Vec<String>,
    /// Seconds that the epochs measured of one run may take; one at least is measured [default: 3].
    #[arg(long)]
    seconds: Option<f64>,
    /// Writes all figures here.
    #[arg(long)]
    csv: Option<PathBuf>,
}

const POLICIES: [&str; 7] =
    ["vanilla", "sylvie-s", "sylvie-s --overlap", "sylvie-a", "pipegcn", "bns-gcn", "sar"];

/// The epochs of a run without a link: one before and one after the run over the link, so that both
/// meet the same load.
const LINKLESS: Epochs = Epochs { n_warm: 2, n_measured: 6 };
const MOST_EPOCHS: usize = 15;

impl PoliciesArguments {
    /// What a look at a machine needs.
    pub(crate) fn overview() -> Self {
        Self {
            quick: true,
            data: None,
            partitioner: Method::Random,
            parts: 2,
            ranks_per_host: 1,
            threads: 1,
            model: vec![ModelKind::Sage],
            hidden: Vec::new(),
            percent: vec![1.5],
            latency_us: 50,
            policy: Vec::new(),
            seconds: None,
            csv: None,
        }
    }

    fn data(&self) -> String {
        let n_nodes = if self.quick { 3000 } else { 10_000 };
        let generated = || format!("synthetic:nodes={n_nodes},degree=10,features=32,locality=0");
        self.data.clone().unwrap_or_else(generated)
    }

    fn hidden(&self) -> &[usize] {
        match (self.hidden.is_empty(), self.quick) {
            (false, _) => &self.hidden,
            (true, true) => &[128],
            (true, false) => &[128, 256],
        }
    }

    /// Vanilla, and what was asked for.
    fn policies(&self) -> impl Iterator<Item = &'static str> + '_ {
        let is_wanted = |name: &&str| {
            let is_named = self.policy.iter().any(|wanted| wanted == *name);
            *name == POLICIES[0] || self.policy.is_empty() || is_named
        };
        POLICIES.into_iter().filter(is_wanted)
    }

    fn rows(&self, split: &Split) -> Result<Vec<Row>> {
        let seconds = self.seconds.unwrap_or(if self.quick { 1.0 } else { 3.0 });
        let layout = Layout {
            ranks_per_host: self.ranks_per_host,
            n_threads: self.threads,
            latency: Duration::from_micros(self.latency_us),
        };
        let mut rows = Vec::new();
        for &n_hidden in self.hidden() {
            for &kind in &self.model {
                let model = split.three_layers(kind, n_hidden);
                for &percent in &self.percent {
                    let bench = Bench {
                        split,
                        model: &model,
                        layout,
                        effort: Effort { n_warm: 1, seconds },
                    };
                    bench.measure(self.policies(), percent / 100.0, &mut rows)?;
                }
            }
        }
        Ok(rows)
    }

    fn check(&self) -> Result<()> {
        for name in &self.policy {
            let known = POLICIES.join(", ");
            ensure!(POLICIES.contains(&name.as_str()), "policy '{name}', expected one of {known}");
        }
        let hosts = (self.parts as usize).div_ceil(self.ranks_per_host.max(1));
        ensure!(self.ranks_per_host > 0 && hosts > 1, "one host alone has no link to cross");
        let is_share = |percent: &f64| *percent > 0.0 && *percent < 100.0;
        ensure!(self.percent.iter().all(is_share), "--percent lies between 0 and 100");
        Ok(())
    }
}

/// Measures, prints, and gives what it printed.
///
/// # Errors
/// Arguments, a graph or a training that cannot be; a CSV file that cannot be written.
pub(crate) fn measure(arguments: &PoliciesArguments) -> Result<Vec<Row>> {
    arguments.check()?;
    let data = arguments.data();
    let split = Split::read(&data, arguments.partitioner, arguments.parts)?;
    let header = format!(
        "{}\n{data}: {} nodes, {} directed edges; {} parts of {} threads, {} halo rows",
        surroundings::describe(),
        split.n_nodes,
        split.n_edges,
        arguments.parts,
        arguments.threads,
        split.n_halo_rows(),
    );
    println!("{header}");
    let n_cores = thread::available_parallelism().map_or(1, usize::from);
    if arguments.parts as usize * arguments.threads > n_cores {
        println!("more threads than {n_cores} cores: waiting for one is not in the predictions");
    }
    let rows = arguments.rows(&split)?;
    if let Some(path) = &arguments.csv {
        write_csv(path, &header, &rows)?;
    }
    Ok(rows)
}

fn policy_of(name: &str) -> Result<ExchangePolicy> {
    let (preset, overlap) = match name.split_once(' ') {
        Some((preset, _)) => (preset, true),
        None => (name, false),
    };
    Ok(ExchangePolicy { overlap, ..preset.parse::<Preset>()?.policy() })
}

/// Where ranks are, and what they compute with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Ranks that share a host's link.
    pub(crate) ranks_per_host: usize,
    /// Threads that each rank computes with.
    pub(crate) n_threads: usize,
    /// Latency of the links.
    pub(crate) latency: Duration,
}

/// How long something is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Epochs that are not counted: one at least.
    pub(crate) n_warm: usize,
    /// Seconds that the epochs measured of one run may take; one at least is measured.
    pub(crate) seconds: f64,
}

/// A network on a split graph.
#[derive(Clone, Copy)]
pub(crate) struct Bench<'a> {
    pub(crate) split: &'a Split,
    pub(crate) model: &'a ModelConfig,
    pub(crate) layout: Layout,
    pub(crate) effort: Effort,
}

impl Bench<'_> {
    /// Chooses the link, and measures every policy over it.
    fn measure(
        &self,
        policies: impl Iterator<Item = &'static str>,
        share: f64,
        rows: &mut Vec<Row>,
    ) -> Result<()> {
        let link = self.choose_link(share)?;
        let mut vanilla_s = None;
        for name in policies {
            let mut row = self.row(name, &policy_of(name)?, share, link)?;
            let vanilla_s = *vanilla_s.get_or_insert(row.measured_s);
            row.throughput = vanilla_s / row.measured_s;
            if name == POLICIES[0] {
                println!("{}", heading(&row));
            }
            println!("{}", row.text());
            rows.push(row);
        }
        Ok(())
    }

    /// The link on which computation is `share` of vanilla's epoch.
    ///
    /// # Errors
    /// A training that fails; an epoch that latencies alone make longer.
    pub(crate) fn choose_link(&self, share: f64) -> Result<LinkModel> {
        let vanilla = Preset::Vanilla.policy();
        let volumes = self.volumes(&vanilla);
        let outcome = run(self.subject(&vanilla), LINKLESS, None)?;
        let computing = outcome.times.iter();
        let computing = computing.map(|epoch| synchronous_s(epoch, volumes, Pipe::of(None)));
        let computation_s = median(computing.collect());
        let steps = plan_epoch(self.model, &vanilla, self.split.rows.len() as u32, 1);
        let Layout { ranks_per_host, latency, .. } = self.layout;
        let sizes = bytes_and_latencies(&steps, volumes, ranks_per_host);
        let rate = rate_for_share(computation_s, share, sizes, latency.as_secs_f64())?;
        Ok(LinkModel { bits_per_second: 8.0 * rate, latency, ranks_per_host })
    }

    /// Measures one policy, named `policy`; its throughput is to be filled in.
    ///
    /// # Errors
    /// A training that fails.
    pub(crate) fn row(
        &self,
        policy: &str,
        exchange: &ExchangePolicy,
        share: f64,
        link: LinkModel,
    ) -> Result<Row> {
        let subject = self.subject(exchange);
        let mut linkless = run(subject, LINKLESS, None)?;
        let epochs = self.epochs(exchange, self.predicted_s(&linkless, exchange, Some(&link)));
        let outcome = run(subject, epochs, Some(link))?;
        linkless.append(run(subject, LINKLESS, None)?);
        let pipe = Pipe::of(Some(&link));
        let mut pieces = linkless.times.iter().map(|t| Pieces::of(t, self.volumes(exchange), pipe));
        let Pieces { transfer_s, reduction_s, .. } = pieces.next_back().unwrap_or_default();
        let payload_bytes = median_bytes(&outcome, |record| record.payload_bytes);
        let metadata_bytes = median_bytes(&outcome, |record| record.metadata_bytes);
        Ok(Row {
            kind: self.model.kind,
            n_hidden: self.model.widths[1],
            share,
            link,
            policy: policy.to_owned(),
            n_epochs: epochs.n_measured,
            predicted_s: self.predicted_s(&linkless, exchange, Some(&link)),
            measured_s: median(outcome.epochs_s.clone()),
            throughput: 1.0,
            computation_s: self.predicted_s(&linkless, exchange, None),
            transfer_s,
            reduction_s,
            linkless_s: median(linkless.epochs_s),
            times: median_times(&outcome),
            payload_bytes,
            metadata_bytes,
            halo_bytes: payload_bytes + metadata_bytes,
            reduce_bytes: median_bytes(&outcome, |record| record.reduce_bytes),
            epochs_s: outcome.epochs_s,
            last_epoch: outcome.last_epoch,
        })
    }

    /// The median over the epochs of a run without a link.
    fn predicted_s(
        &self,
        linkless: &Outcome,
        policy: &ExchangePolicy,
        link: Option<&LinkModel>,
    ) -> f64 {
        let (volumes, pipe) = (self.volumes(policy), Pipe::of(link));
        let predict = |epoch: &EpochTimes| match policy.schedule {
            Schedule::Sync => synchronous_s(epoch, volumes, pipe),
            Schedule::Async => Pieces::of(epoch, volumes, pipe).hidden_s(),
        };
        median(linkless.times.iter().map(predict).collect())
    }

    /// As many epochs as the time allows; those that build up a stale epoch are not counted.
    fn epochs(&self, policy: &ExchangePolicy, epoch_s: f64) -> Epochs {
        let Effort { n_warm, seconds } = self.effort;
        let n_measured = ((seconds / epoch_s) as usize).clamp(1, MOST_EPOCHS);
        let least = if policy.schedule == Schedule::Async { 2 } else { 1 };
        Epochs { n_warm: n_warm.max(least), n_measured }
    }

    fn volumes<'a>(&'a self, policy: &'a ExchangePolicy) -> Volumes<'a> {
        Volumes { rows: &self.split.rows, model: self.model, policy }
    }

    fn subject<'a>(&'a self, policy: &'a ExchangePolicy) -> Subject<'a> {
        let Self { split, model, layout, .. } = *self;
        Subject { split, model, policy, n_threads: layout.n_threads }
    }
}
