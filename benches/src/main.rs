//! Measurements: `cargo xtask bench` (an overview), `codec`, `metadata`, `ops`, `products`, `policies`, `paper`, `convergence`,
//! `reading`.
//!
//! Every figure of the codec is the median of runs that alternate with a yardstick in the same process, so that a
//! busy machine slows both; the ratio says more than the speed.
#![expect(clippy::print_stdout, reason = "the figures are what this program prints")]

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use codec::Operation;
use sylvie_lowbit::Width;

mod codec;
mod convergence;
#[cfg(feature = "devices")]
mod devices;
mod metadata;
mod ops;
mod overview;
mod paper;
mod policies;
mod products;
mod reading;
mod rounds;

/// Measurements of the workspace's crates; without a command, some of each in two minutes.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    overview: overview::OverviewArguments,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The low-bit codec, one thread, out of cache, against a copy and a gather-sum.
    Codec(CodecArguments),
    /// The error that each type of metadata adds, kind of row by kind of row.
    Metadata,
    /// Operations of a training epoch, against the time that their bytes and their arithmetic take.
    Ops(ops::OpsArguments),
    /// Libraries of dense products, at the shapes that training meets.
    Products(products::ProductsArguments),
    /// Exchange policies over a modelled link, against what its bandwidth implies and the paper's figures.
    Policies(policies::PoliciesArguments),
    /// Every table and figure of the paper, by the definitions in benches/experiments: records, and a page.
    Paper(paper::PaperArguments),
    /// Loss and validation score of runs over epochs, as a plot.
    Convergence(convergence::ConvergenceArguments),
    /// Reading of data sets from a warm cache.
    Reading(reading::ReadingArguments),
    /// A CUDA device: what is right on it, and how fast (`cargo xtask device-check`).
    #[cfg(feature = "devices")]
    Devices(devices::DevicesArguments),
}

#[derive(Debug, Args)]
struct CodecArguments {
    /// Fewer rounds, and the two usual lengths of a row only.
    #[arg(long)]
    quick: bool,
    /// Columns of the rows measured.
    #[arg(long, alias = "cols", value_delimiter = ',')]
    columns: Vec<usize>,
    /// Bits a value, of 1, 2, 4 and 8.
    #[arg(long, value_delimiter = ',')]
    bits: Vec<Width>,
    /// What is done with rows.
    #[arg(long, value_delimiter = ',')]
    ops: Vec<Operation>,
    /// Size of the array in MiB; one that fits a cache shows the arithmetic alone.
    #[arg(long)]
    mib: Option<usize>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let Some(what) = arguments.what else {
        return overview::measure(&arguments.overview);
    };
    match what {
        What::Codec(arguments) => drop(codec::measure(&arguments.plan())),
        What::Metadata => metadata::measure(),
        What::Ops(arguments) => drop(ops::measure(&arguments)?),
        What::Products(arguments) => products::measure(&arguments)?,
        What::Policies(arguments) => drop(policies::measure(&arguments)?),
        What::Paper(arguments) => paper::measure(&arguments)?,
        What::Convergence(arguments) => convergence::draw(&arguments)?,
        What::Reading(arguments) => reading::measure(&arguments)?,
        #[cfg(feature = "devices")]
        What::Devices(arguments) => devices::check(&arguments)?,
    }
    Ok(())
}

impl CodecArguments {
    fn plan(self) -> codec::Plan {
        let mut plan = if self.quick { codec::Plan::quick() } else { codec::Plan::full() };
        if !self.columns.is_empty() {
            plan.n_cols = self.columns;
        }
        if !self.bits.is_empty() {
            plan.widths = self.bits;
        }
        if !self.ops.is_empty() {
            plan.operations = self.ops;
        }
        if let Some(mib) = self.mib {
            plan.n_bytes = mib << 20;
        }
        plan
    }
}
