//! The command line of Sylvie: `sylvie info | convert | partition | train | evaluate | predict | report`.
//!
//! What lies below this crate reads no settings and writes no results: flags, the run folder, the
//! clock and everything that is printed live here.
//!
//! The program is [`run`] and nothing else. It is a library so that its own tests can have it built with features that
//! are off by default.

use std::ffi::OsString;
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
mod launcher;
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

/// Does what a command line asks, and gives the status to exit with.
///
/// `words` begin with the program's name. Results and errors are printed as `sylvie` prints them; signals are listened to
/// while it trains.
pub fn run<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    let is_heard = launcher::is_heard(&words);
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => return usage::report(&error, is_heard),
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
            console::complain("error", &usage::one_line(&usage::causes(&error)));
            ExitCode::FAILURE
        }
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
