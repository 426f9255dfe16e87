//! Development commands of the workspace: `cargo xtask ci`, `bench`, `device-check`, `kernels`, `mpi-test`,
//! `python-check`.
//!
//! Everything here starts other programs. None of the workspace's crates is linked, so that a crate
//! that does not compile is reported by the step that compiles it, and not by the build of this one.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what runs, and for how long, is what this program prints"
)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args as _, FromArgMatches as _, Parser, Subcommand};

mod acceptance;
mod ci;
#[cfg(unix)]
mod hosts;
mod kernels;
mod mpi_test;
mod python_check;
mod step;
mod surroundings;

use kernels::Action;
use step::{Program, Step};
use surroundings::Surroundings;

/// Development commands of the workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Checks everything that must hold of a change, and stops at the first thing that does not.
    ///
    /// Formatting, lints, tests, documentation, then trainings on the default graph and, where
    /// SYLVIE_DATA_DIR (or `../shared/data`) is a folder, on a real one. SYLVIE_MPI_LAUNCHER=mpirun adds ranks
    /// that are processes.
    Ci,
    /// Measures: `cargo xtask bench` alone (an overview, two minutes), `cargo xtask bench codec` (`--quick` takes seconds),
    /// `cargo xtask bench metadata`, `cargo xtask bench ops` (operations of an epoch against the machine),
    /// `cargo xtask bench products` (libraries of dense products),
    /// `cargo xtask bench policies` (ten minutes; `--quick` takes one), `cargo xtask bench paper` (the paper's tables and figures:
    /// hours; `--quick` takes half of one), `cargo xtask bench hosts` (over shaped links between namespaces: Linux,
    /// root and Open MPI).
    Bench {
        /// What to measure, and its options.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Compiles `kernels/cuda/*.cu` to `kernels/ptx/*.ptx`, with NVRTC or else nvcc.
    ///
    /// They are looked for where SYLVIE_NVRTC (a library) or SYLVIE_NVCC says, in what --fetch installed, in the active
    /// and the system's Python packages, in toolkits (CUDA_HOME, CUDA_PATH, /usr/local/cuda) and on the PATH.
    Kernels {
        /// First installs the pinned compiler and assembler from PyPI, into the target folder.
        #[arg(long)]
        fetch: bool,
        /// Compares with the committed files, byte for byte, instead of writing them.
        #[arg(long, conflicts_with = "assemble")]
        check: bool,
        /// Assembles the committed files for sm_80 and sm_90 instead, and lists their registers.
        #[arg(long)]
        assemble: bool,
    },
    /// Checks the transport over MPI: lints, unit tests, the suites under a launcher, and faults.
    ///
    /// Needs an MPI library and libclang: docs/cluster.md says what to install. Another MPI than the
    /// system's is chosen with MPICC, and wants a CARGO_TARGET_DIR of its own.
    MpiTest {
        /// The launcher of the MPI library that is built with.
        #[arg(long, default_value = "mpirun.openmpi")]
        launcher: String,
        /// Numbers of ranks to run the suites with.
        #[arg(long, value_delimiter = ',', default_value = "2,3")]
        ranks: Vec<usize>,
    },
    /// Checks that numpy and scipy open what `sylvie convert` writes, and that what they write is read.
    ///
    /// Needs Python 3.9 or newer with venv; installs numpy and scipy into target/python-check.
    PythonCheck {
        /// With the program that the tests have built, instead of one that is built now.
        #[arg(long)]
        tested: bool,
    },
    /// Checks a CUDA device: the suites that every backend passes, speeds against what it copies and
    /// multiplies, trainings on host and device, ranks that share it, NCCL. A table, and a file of results.
    ///
    /// Takes some minutes on a machine with a driver, most of them to build; NVIDIA's cuBLAS and NCCL must be
    /// where the loader finds them (docs/devices.md).
    DeviceCheck {
        /// On the emulated device: checks this command, and no device.
        #[arg(long)]
        standins: bool,
        /// Options of `bench devices`, such as --device 1 or --out results.json.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let (name, outcome) = match Arguments::parse().command {
        Command::Ci => ("ci", ci().map(|summary| println!("\nci: {summary}"))),
        Command::Bench { arguments } => ("bench", bench(arguments)),
        Command::Kernels { fetch, check, assemble } => ("kernels", kernels(fetch, check, assemble)),
        Command::PythonCheck { tested } => ("python-check", python_check(tested)),
        Command::DeviceCheck { standins, arguments } => {
            ("device-check", device_check(standins, arguments))
        }
        Command::MpiTest { launcher, ranks } => ("mpi-test", mpi_test(&launcher, &ranks)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\n{name}: failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(arguments: Vec<String>) -> Result<()> {
    #[cfg(unix)]
    if arguments.first().is_some_and(|what| what == "hosts") {
        let arguments =
            hosts::HostsArguments::augment_args(clap::Command::new("cargo xtask bench hosts"))
                .get_matches_from(arguments);
        let arguments = hosts::HostsArguments::from_arg_matches(&arguments)?;
        return hosts::run(&repository_root()?, &arguments);
    }
    let run = Step::cargo("run --quiet --release --package sylvie-bench --");
    arguments.into_iter().fold(run, Step::argument).run(&repository_root()?)?;
    Ok(())
}

fn kernels(fetches: bool, checks: bool, assembles: bool) -> Result<()> {
    let action = match (checks, assembles) {
        (false, false) => Action::Write,
        (true, _) => Action::Check,
        (false, true) => Action::Assemble,
    };
    println!("kernels: {}", kernels::run(&repository_root()?, action, fetches)?);
    Ok(())
}

fn python_check(tested: bool) -> Result<()> {
    let program = if tested { Program::Tested } else { Program::Cargo };
    let summary = python_check::run(&repository_root()?, program)?;
    println!("\npython-check: passed: {summary}");
    Ok(())
}

fn device_check(standins: bool, arguments: Vec<String>) -> Result<()> {
    let line = "run --quiet --release --package sylvie-bench --features devices -- devices";
    let mut run = Step::cargo(line);
    if standins {
        run = run.argument("--standins");
    }
    arguments.into_iter().fold(run, Step::argument).run(&repository_root()?)?;
    Ok(())
}

fn mpi_test(launcher: &str, ranks: &[usize]) -> Result<()> {
    let summary = mpi_test::run(&repository_root()?, launcher, ranks)?;
    println!("\nmpi-test: passed: {summary}");
    Ok(())
}

fn ci() -> Result<String> {
    let root = repository_root()?;
    let mut surroundings = Surroundings::find(&root, |name| env::var_os(name))?;
    surroundings.has_python = python_check::is_possible();
    let scratch = tempfile::tempdir().context("no folder for the trainings' results")?;
    let summary = ci::run(&root, &ci::plan(&surroundings, scratch.path()))?;
    Ok(format!("{summary}; {surroundings}"))
}

/// The folder that holds the root manifest: cargo names this crate's own when it runs it.
fn repository_root() -> Result<PathBuf> {
    let xtask = env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    let root = Path::new(&xtask).parent().context("xtask lies in no repository")?;
    Ok(root.to_path_buf())
}
