//! The command line of Sylvie: `sylvie info | partition | train | evaluate | predict`.
//!
//! What lies below this crate reads no settings and writes no results: flags, the run folder, the
//! clock and everything that is printed live here.

use std::process::ExitCode;

use clap::Parser as _;

mod args;
mod aside;
mod clock;
mod config;
mod console;
mod evaluate;
mod exchange;
mod flags;
mod info;
mod input;
mod load;
mod memory;
mod metrics;
mod model_file;
mod partition;
mod partitioned;
mod predict;
mod ranks;
mod run_folder;
mod settings;
mod summary;
mod trace;
mod train;
mod usage;

use args::{Cli, Command};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::report(&error),
    };
    let outcome = match cli.command {
        Command::Info(args) => info::run(args),
        Command::Partition(args) => partition::run(args),
        Command::Train(args) => train::run(*args),
        Command::Evaluate(args) => evaluate::run(args),
        Command::Predict(args) => predict::run(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            console::complain("error", &usage::one_line(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}
