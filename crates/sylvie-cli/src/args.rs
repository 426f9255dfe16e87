//! The commands and their flags.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use sylvie::data::Format;
use sylvie::partition::{Method, NodeOrder, Objective};

use crate::convert::ConvertArgs;
use crate::devices::Machine;
use crate::exchange::PRESETS;
use crate::flags::{DataFlags, RunFlags, max_threads, seed};
use crate::launcher;
use crate::report::ReportArgs;

/// Trains graph neural networks on whole graphs that are split into parts, and exchanges what crosses
/// the split at one bit a value.
#[derive(Debug, Parser)]
#[command(name = "sylvie", version, propagate_version = true, args_override_self = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Describes a graph: nodes, edges, degrees, classes, split.
    Info(InfoArgs),
    /// Writes a graph in another format.
    Convert(ConvertArgs),
    /// Splits a graph into parts and shows how good the split is.
    Partition(PartitionArgs),
    /// Trains a network on a graph that is split into parts.
    Train(Box<TrainArgs>),
    /// Scores a trained network on a graph.
    Evaluate(EvaluateArgs),
    /// Writes a trained network's logits for every node of a graph.
    Predict(PredictArgs),
    /// Writes a page with the curves and figures of runs, beside each other.
    Report(ReportArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sylvie info --data synthetic:nodes=1000,degree=8
  sylvie info --data photo.npz --json")]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub(crate) data: DataFlags,
    /// List CUDA devices instead.
    #[arg(long, conflicts_with = "DataFlags")]
    pub(crate) devices: bool,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Columns: own nodes of a part, edges that they read, training nodes, halo rows (nodes of other parts \
that they read) and halo rows as a share of own nodes. A balance is the largest part's count over the \
mean: 1 is even.

A partition folder holds manifest.json and a safetensors file a part, with edges, halo plan, features, \
labels and roles. It is written beside --out, under its name with .new, and renamed when it is whole. Once \
it is there, the graph itself is not needed any more.

Examples:
  sylvie partition --data photo.npz --parts 8 --objective cut
  sylvie partition --data photo.npz --parts 8 --out photo.parts
  sylvie train --partition photo.parts")]
pub(crate) struct PartitionArgs {
    #[command(flatten)]
    pub(crate) data: DataFlags,
    /// Number of parts.
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub(crate) parts: u32,
    /// How nodes are assigned: metis, fennel (streaming, for graphs beyond metis), contiguous or random.
    #[arg(long, value_name = "NAME", default_value_t = Method::Metis)]
    pub(crate) partitioner: Method,
    /// What metis makes small: volume (rows sent) or cut (edges between parts).
    #[arg(long, value_name = "NAME", default_value_t = Objective::Volume)]
    pub(crate) objective: Objective,
    /// Order of a part's nodes: cluster (neighbours close together), given, or auto.
    #[arg(long, value_name = "NAME", default_value_t = NodeOrder::Auto)]
    pub(crate) order: NodeOrder,
    /// Folder for the parts, one file each, for `train --partition`; without it nothing is written.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Replace the partition that lies in --out, at the end; until then the new one is beside it.
    #[arg(long, requires = "out")]
    pub(crate) overwrite: bool,
    /// Write parts of the graph of the training nodes too, for inductive training.
    #[arg(long, requires = "out")]
    pub(crate) inductive: bool,
    /// Seed of metis and random.
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 1,
          value_parser = seed)]
    pub(crate) seed: u64,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = train_help())]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    pub(crate) flags: RunFlags,
    /// Settings to start from: a run.toml, or any of its keys in a file of your own.
    #[arg(long, value_name = "FILE", help_heading = "Files and output")]
    pub(crate) config: Option<PathBuf>,
    /// Folder for the results; without it nothing is written.
    #[arg(long, value_name = "DIR", help_heading = "Files and output")]
    pub(crate) out: Option<PathBuf>,
    /// Run folder to go on in, from its newest checkpoint and with its settings, bit for bit as if it had
    /// never stopped. Of the flags beside it, those that change what is trained must say what the run's
    /// say.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "config"],
          help_heading = "Files and output")]
    pub(crate) resume: Option<PathBuf>,
    /// Replace the run that lies in --out, at the end; until then the new one is in .new below it.
    #[arg(long, requires = "out", help_heading = "Files and output")]
    pub(crate) overwrite: bool,
    /// Trace of every step of every rank and thread, for ui.perfetto.dev or chrome://tracing; kept in
    /// memory until the run ends, or fails with ranks that are threads. Replaced if it is there.
    #[arg(long, value_name = "FILE", help_heading = "Files and output")]
    pub(crate) trace: Option<PathBuf>,
    /// How ranks are joined: threads of this process, or mpi, processes on one host or several that a
    /// launcher starts, as in mpirun -n 4 sylvie train --transport mpi; or nccl, threads or, under a launcher,
    /// processes whose messages go from device to device. Results are the same. [default: threads; under a
    /// launcher it must be said]
    #[arg(
        long,
        value_name = "NAME",
        value_enum,
        hide_possible_values = true,
        help_heading = "Ranks"
    )]
    pub(crate) transport: Option<Transport>,
    /// What ranks compute on: cpu, cuda (every device, in turn) or cuda: with numbers, as in cuda:0,1; ranks
    /// of one host share devices where there are fewer. `sylvie info --devices` lists them.
    #[arg(long, value_name = "NAME", default_value_t = Machine::Cpu, help_heading = "Ranks")]
    pub(crate) device: Machine,
    /// Seconds that a rank waits for another before the run fails; more than the longest layer or
    /// checkpoint takes. [default: 60 between processes, 3600 between threads]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, help_heading = "Ranks",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) timeout: Option<u32>,
    /// Print nothing.
    #[arg(long, conflicts_with = "json", help_heading = "Files and output")]
    pub(crate) quiet: bool,
    /// Print the epochs and then the summary as JSON, one object a line.
    #[arg(long, help_heading = "Files and output")]
    pub(crate) json: bool,
}

/// How ranks are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    Threads,
    Mpi,
    Nccl,
}

impl TrainArgs {
    /// How ranks are joined.
    pub(crate) fn transport(&self) -> Transport {
        self.transport.unwrap_or(Transport::Threads)
    }

    /// Whether the ranks are processes, of which this is one.
    pub(crate) fn is_of_processes(&self) -> bool {
        match self.transport() {
            Transport::Threads => false,
            Transport::Mpi => true,
            Transport::Nccl => launcher::number().is_some(),
        }
    }

    /// How long a rank waits for another.
    pub(crate) fn deadline(&self) -> Duration {
        // A thread that fails is seen at once; there the deadline only has to exceed the longest layer.
        let usual = if self.is_of_processes() { 60 } else { 3600 };
        Duration::from_secs(self.timeout.map_or(usual, u64::from))
    }
}

/// What stands below the flags of `train`.
fn train_help() -> String {
    format!("{PRESETS}\n\n{TRAIN_NOTES}")
}

const TRAIN_NOTES: &str = "\
A preset gives way to flags beside it, and what cannot be combined is refused with the reason.

Settings come from, the strongest first: flags, the preset given as a flag, --config, the defaults. The \
run folder's run.toml holds all of them, and `--config run.toml` repeats the run bit for bit. Paths in \
it are relative to the working directory.

The run folder: run.toml, metrics.jsonl (one object an epoch), summary.json, model.safetensors (the \
model with the best validation score). Bytes are sums over the ranks; the figures an epoch leave \
evaluation out, which eval_bytes holds. cut_edges (directed) and halo_rows are those of the graph that is \
trained on: with --inductive, of the edges between training nodes.

Times are milliseconds an epoch, means over ranks; in metrics.jsonl `ranks` has those of each rank, and \
in summary.json they are means over epochs. The thread that computes: compute_ms computing, blocked_ms \
standing still for rows of other parts, reduce_ms standing still for sums of weight gradients, which add \
up to the epoch. Beside it: encode_ms and decode_ms in the codec, network_ms while an exchange was under \
way and neither was at work, lateness of other ranks included, hidden_ms what of these three the computing thread did not stand still for; \
hidden_share is that part of them.

checkpoints/epoch-N in it, with --checkpoint-every or after SIGINT, SIGTERM or SIGUSR1, which let the \
epoch end: the state after N epochs, for --resume. --epochs, --patience, --checkpoint-every, --threads, \
--halo and --link may change on the way, in run.toml too, and so may --transport and where the graph lies; an evaluation at the end \
of fewer epochs counts like any other.

--link is a model, not a measurement: one full-duplex link a host, shared fairly by its ranks, for halo \
rows, all-reduce and evaluation alike. Headers, losses and switches are left out, so that a real network \
is slower.

Examples:
  sylvie train
  sylvie train --data photo.npz --model gcn --parts 8 --out runs/photo
  sylvie train --data photo.npz --preset sylvie-a --staleness 5 --epochs 300 --patience 10
  sylvie train --partition photo.parts --model gcn
  sylvie train --data photo.npz --link 1Gbps,50us --trace trace.json
  sylvie train --data photo.npz --checkpoint-every 20 --out runs/long
  sylvie train --resume runs/long
  mpirun -n 4 sylvie train --transport mpi --partition photo.parts --out runs/mpi
  sylvie train --config runs/photo/run.toml --seed 2 --out runs/photo-2";

/// What evaluation and prediction share.
#[derive(Debug, Args)]
pub(crate) struct TrainedArgs {
    /// Folder of the run.
    #[arg(long, value_name = "DIR")]
    pub(crate) run: PathBuf,
    /// Graph, with as many features and classes as the run's. [default: the run's]
    #[arg(long, value_name = "PATH")]
    pub(crate) data: Option<String>,
    /// Partition folder to compute on, which takes the place of --data. [default: the run's]
    #[arg(long, value_name = "DIR", conflicts_with = "data")]
    pub(crate) partition: Option<String>,
    /// Its format, where the path does not tell.
    #[arg(long, value_name = "NAME")]
    pub(crate) format: Option<Format>,
    /// Seed of the split where the graph has none of its own. [default: the run's]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = seed)]
    pub(crate) split_seed: Option<u64>,
    /// Which split where the graph has several, from 0. [default: the run's]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) split_index: Option<u32>,
    /// Parts to compute on; every number gives the same results to rounding. [default: the run's,
    /// hence the very scores of the run]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = crate::flags::parts)]
    pub(crate) parts: Option<u32>,
    /// Threads of each part. [default: cores / parts, at least 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = max_threads())]
    pub(crate) threads: Option<u32>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  sylvie evaluate --data photo.npz --run runs/photo")]
pub(crate) struct EvaluateArgs {
    #[command(flatten)]
    pub(crate) trained: TrainedArgs,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("outputs").required(true).multiple(true), after_help = "\
Files hold float32 arrays in npy form with a row a node, in the order of the graph; one of the three at least is \
written. Without --data or --partition the run's own graph is used.

Examples:
  sylvie predict --data photo.npz --run runs/photo --out predictions.npy
  sylvie predict --run runs/photo --out logits.npy --scores scores.npy --embeddings hidden.npy")]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    pub(crate) trained: TrainedArgs,
    /// File for the predictions: nodes x classes, logits before softmax or sigmoid. Replaced if it is
    /// there; where a link leads, what it leads to.
    #[arg(long, value_name = "FILE", group = "outputs")]
    pub(crate) out: Option<PathBuf>,
    /// File for scores between 0 and 1, nodes x classes: softmax of the logits, or sigmoid where nodes
    /// have several classes.
    #[arg(long, value_name = "FILE", group = "outputs")]
    pub(crate) scores: Option<PathBuf>,
    /// File for the rows that the last layer reads: nodes x hidden columns, after LayerNorm and ReLU.
    #[arg(long, value_name = "FILE", group = "outputs")]
    pub(crate) embeddings: Option<PathBuf>,
}
