//! The command line of Sylvie: `sylvie info | convert | partition | train | evaluate | predict | report`.
//!
//! What lies below this crate reads no settings and writes no results: flags, the run folder, the
//! clock and everything that is printed live here.

use std::process::ExitCode;

use clap::Parser as _;

mod args;
mod aside;
mod checkpoint;
mod clock;
mod config;
mod console;
mod convert;
mod devices;
mod evaluate;
mod exchange;
mod fingerprint;
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
mod prepared;
mod processes;
mod ranks;
mod report;
mod results;
mod run_folder;
mod settings;
mod stopping;
mod summary;
mod task;
mod trace;
mod train;
mod usage;
mod without_effect;

use args::{Cli, Command};

fn done(outcome: anyhow::Result<()>) -> anyhow::Result<ExitCode> {
    outcome.map(|()| ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::report(&error),
    };
    let outcome = match cli.command {
        Command::Train(args) => train::run(*args),
        Command::Info(args) => done(info::run(args)),
        Command::Convert(args) => done(convert::run(args)),
        Command::Partition(args) => done(partition::run(args)),
        Command::Evaluate(args) => done(evaluate::run(args)),
        Command::Predict(args) => done(predict::run(args)),
        Command::Report(args) => done(report::run(args)),
    };
    match outcome {
        Ok(status) => status,
        Err(error) => {
            console::complain("error", &usage::one_line(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}
