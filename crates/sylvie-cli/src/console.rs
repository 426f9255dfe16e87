//! What is printed, and how.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use sylvie::data::shown;

/// How a command tells what it is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Nothing is printed.
    Quiet,
    /// JSON objects, one a line.
    Json,
    /// Lines on standard output.
    Lines,
    /// A bar on standard error, and lines for what stays.
    Bar,
}

/// Where results go, and progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    mode: Mode,
}

impl Console {
    /// Progress for people.
    pub(crate) fn for_people() -> Self {
        Self { mode: if io::stderr().is_terminal() { Mode::Bar } else { Mode::Lines } }
    }

    /// JSON only, or progress for people.
    pub(crate) fn json_if(json: bool) -> Self {
        if json { Self { mode: Mode::Json } } else { Self::for_people() }
    }

    /// Nothing at all.
    pub(crate) fn quiet() -> Self {
        Self { mode: Mode::Quiet }
    }

    /// How this one prints.
    pub(crate) fn mode(self) -> Mode {
        self.mode
    }

    /// Prints a line for people.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub(crate) fn line(self, line: impl fmt::Display) -> Result<()> {
        match self.mode {
            Mode::Quiet | Mode::Json => Ok(()),
            Mode::Lines | Mode::Bar => print(&format!("{line}\n")),
        }
    }

    /// Prints a warning on standard error, above the bar if there is one.
    pub(crate) fn warn(self, bar: &ProgressBar, line: &str) {
        if self.mode != Mode::Quiet {
            bar.suspend(|| complain("warning", line));
        }
    }

    /// Prints an object where JSON was asked for.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub(crate) fn json(self, value: &impl Serialize) -> Result<()> {
        match self.mode {
            Mode::Json => print(&(serde_json::to_string(value)? + "\n")),
            Mode::Quiet | Mode::Lines | Mode::Bar => Ok(()),
        }
    }

    /// Shows that `work` is under way until it ends.
    pub(crate) fn during<T>(self, what: &str, work: impl FnOnce() -> T) -> T {
        if self.mode != Mode::Bar {
            return work();
        }
        let spinner = ProgressBar::new_spinner().with_message(what.to_owned());
        spinner.enable_steady_tick(Duration::from_millis(120));
        let result = work();
        spinner.finish_and_clear();
        result
    }

    /// A bar over `n_epochs` epochs, hidden unless bars are shown.
    pub(crate) fn bar(self, n_epochs: u32) -> ProgressBar {
        if self.mode != Mode::Bar {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(u64::from(n_epochs));
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} {eta} left");
        bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }
}

/// Writes to standard output; a reader that has gone away is no error.
fn print(text: &str) -> Result<()> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("standard output")
        }
        _ => Ok(()),
    }
}

/// Prints one line on standard error; there is nobody left to tell that this failed.
pub(crate) fn complain(kind: &str, line: &str) {
    let _ = writeln!(io::stderr(), "{kind}: {}", shown(Path::new(line)));
}

/// A score for people; `-` where it is not defined.
pub(crate) fn score(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"))
}

/// So many things, of which `what` is one.
pub(crate) fn counted(number: impl Into<u64>, what: &str) -> String {
    match number.into() {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    }
}

/// Each of the things, or every so-many-th.
pub(crate) fn every(number: u32, what: &str) -> String {
    if number == 1 { format!("every {what}") } else { format!("every {number} {what}s") }
}

/// A number of bytes for people.
pub(crate) fn bytes(n_bytes: f64) -> String {
    match n_bytes {
        n if n < 1e3 => format!("{n:.0} B"),
        n if n < 1e6 => format!("{:.2} kB", n / 1e3),
        n if n < 1e9 => format!("{:.2} MB", n / 1e6),
        n => format!("{:.2} GB", n / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::{bytes, counted, every, score};

    #[test]
    fn figures_are_short() {
        assert_eq!(score(Some(0.91239)), "0.9124");
        assert_eq!(score(None), "-");
        let said = [12.0, 1500.0, 2_345_678.0, 7e9].map(bytes);
        assert_eq!(said, ["12 B", "1.50 kB", "2.35 MB", "7.00 GB"]);
    }

    #[test]
    fn one_thing_is_no_several() {
        let said = [0_u32, 1, 2].map(|number| counted(number, "epoch"));
        assert_eq!(said, ["0 epochs", "1 epoch", "2 epochs"]);
        assert_eq!([every(1, "epoch"), every(5, "epoch")], ["every epoch", "every 5 epochs"]);
    }
}
