//! Command lines that cannot be understood.

use std::process::ExitCode;

use clap::error::ErrorKind;

/// Prints help or the error, unless another process says it too, and gives the status to exit with: 0 for
/// help that was asked for, else 2.
pub(crate) fn report(error: &clap::Error, is_heard: bool) -> ExitCode {
    use ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    match error.kind() {
        _ if !is_heard => {}
        DisplayHelp | DisplayVersion | DisplayHelpOnMissingArgumentOrSubcommand => {
            // A reader that has gone away has seen enough.
            let _ = error.print();
        }
        _ => crate::console::complain("error", &message(error)),
    }
    match error.kind() {
        DisplayHelp | DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::from(2),
    }
}

/// What clap has to say, in one line and without the synopsis.
pub(crate) fn message(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.split("\n\nUsage:").next().unwrap_or_default();
    let text = text.split("\n\nFor more information").next().unwrap_or_default();
    one_line(text.strip_prefix("error: ").unwrap_or(text))
}

/// An error and its causes, one after the other. What says its cause itself, as errors of some libraries do, is not
/// followed by it once more.
pub(crate) fn causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text += ": ";
            text += &cause;
        }
    }
    text
}

/// The lines of `text` as one.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for piece in text.lines().map(str::trim).filter(|piece| !piece.is_empty()) {
        if !line.is_empty() {
            line.push_str(if line.ends_with([':', ',', ';']) { " " } else { "; " });
        }
        line.push_str(piece);
    }
    line
}

#[cfg(test)]
mod tests {
    use std::{fmt, io};

    use anyhow::Context as _;
    use clap::Parser as _;

    use super::{causes, message, one_line};
    use crate::args::Cli;

    /// An error that says its cause and has it as its source as well.
    #[derive(Debug)]
    struct Talkative(io::Error);

    impl fmt::Display for Talkative {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "I/O error: {}", self.0)
        }
    }

    impl std::error::Error for Talkative {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_cause_is_said_once() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let said = full().to_string();
        let error = Err::<(), _>(Talkative(full())).context("run/rank-00000").unwrap_err();
        assert_eq!(causes(&error), format!("run/rank-00000: I/O error: {said}"));
        let error = Err::<(), _>(full()).context("run").context("rank 1").unwrap_err();
        assert_eq!(causes(&error), format!("rank 1: run: {said}"));
    }

    #[test]
    fn lines_are_joined() {
        assert_eq!(one_line("a:\n  b\n\nc\n"), "a: b; c");
        assert_eq!(one_line("plain"), "plain");
    }

    #[test]
    fn every_usage_error_is_one_line_that_names_the_flag() {
        for (arguments, named) in [
            ("train --bits 3", "--bits"),
            ("train --bist 1", "--bits"),
            ("train --model mlp", "--model"),
            ("train --bits -1", "--bits"),
            ("train --lr -1", "--lr"),
            ("train --lr 1e-300", "too small"),
            ("train --weight-decay 0.001e-99", "too small"),
            ("train --lr 1e39", "too large"),
            ("train --seed -3", "from 0 to 9223372036854775807"),
            ("train --seed 9223372036854775808", "from 0 to"),
            ("train --split-seed -3", "from 0 to"),
            ("train --split-index -3", "--split-index"),
            ("train --patience -3", "--patience"),
            ("partition --seed x", "from 0 to"),
            ("evaluate --run x --split-seed -3", "from 0 to"),
            ("train --dropout 1", "--dropout"),
            ("train --epochs 0", "--epochs"),
            ("train --parts 70000", "--parts"),
            ("train --quiet --json", "--json"),
            ("train --overwrite", "--out"),
            ("predict --run there", "--out"),
            ("report --run there", "--out"),
            ("report --out page.html", "--run"),
            ("partition --parts many", "--parts"),
        ] {
            let words = std::iter::once("sylvie").chain(arguments.split(' '));
            let line = message(&Cli::try_parse_from(words).expect_err(arguments));
            assert!(line.contains(named) && !line.contains('\n'), "{arguments}: {line}");
            assert!(!line.contains("Usage") && !line.starts_with("error"), "{line}");
        }
    }
}
