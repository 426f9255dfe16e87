//! Measurements: `cargo xtask bench codec`.
//!
//! Every figure is the median of runs that alternate with a yardstick in the same process, so that a
//! busy machine slows both; the ratio says more than the speed.
#![expect(clippy::print_stdout, reason = "the figures are what this program prints")]

use clap::{Args, Parser, Subcommand};

mod codec;
mod rounds;

/// Measurements of the workspace's crates.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The low-bit codec, one thread, out of cache, against a copy and a gather-sum.
    Codec(CodecArguments),
}

#[derive(Debug, Args)]
struct CodecArguments {
    /// Fewer rounds, less memory and the two usual widths of a row only.
    #[arg(long)]
    quick: bool,
    /// Columns of the rows measured.
    #[arg(long, value_delimiter = ',')]
    cols: Vec<usize>,
    /// Size of the array in MiB; one that fits a cache shows the arithmetic alone.
    #[arg(long)]
    mib: Option<usize>,
}

fn main() {
    let Arguments { what: What::Codec(CodecArguments { quick, cols, mib }) } = Arguments::parse();
    let mut plan = if quick { codec::Plan::quick() } else { codec::Plan::full() };
    if !cols.is_empty() {
        plan.n_cols = cols;
    }
    if let Some(mib) = mib {
        plan.n_bytes = mib << 20;
    }
    codec::measure(&plan);
}
