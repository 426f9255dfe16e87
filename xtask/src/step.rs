//! One command, what must hold after it, and how it is run and reported.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::acceptance;

const TESTED: &str = if cfg!(windows) { "sylvie.exe" } else { "sylvie" };

/// What is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Cargo,
    /// `sylvie`, as the tests have built it: cargo would build it once more, without the features that all packages have together.
    Tested,
}

/// One command and what must hold after it.
#[derive(Debug)]
pub(crate) struct Step {
    program: Program,
    /// Its arguments.
    pub(crate) arguments: Vec<OsString>,
    /// Variables set for this command only.
    pub(crate) variables: Vec<(&'static str, OsString)>,
    /// What must hold besides a zero exit status.
    pub(crate) check: Check,
}

/// What must hold after a command besides its zero exit status.
#[derive(Debug)]
pub(crate) enum Check {
    /// Nothing more.
    Status,
    /// At least one test passed: a filter that matches nothing succeeds, and shows nothing.
    SomeTests,
    /// The training left a test accuracy of at least this in its run folder.
    Accuracy { run_folder: PathBuf, at_least: f64 },
}

impl Step {
    /// The command `cargo line`, split at spaces.
    pub(crate) fn cargo(line: &str) -> Step {
        Self::of(Program::Cargo, line)
    }

    /// The command `sylvie line`, split at spaces, by the program that the tests have built.
    pub(crate) fn tested(line: &str) -> Step {
        Self::of(Program::Tested, line)
    }

    fn of(program: Program, line: &str) -> Step {
        let arguments = line.split_whitespace().map(OsString::from).collect();
        Step { program, arguments, variables: Vec::new(), check: Check::Status }
    }

    /// Adds an argument that may hold spaces.
    pub(crate) fn argument(mut self, argument: impl Into<OsString>) -> Step {
        self.arguments.push(argument.into());
        self
    }

    /// Sets a variable, for this command only.
    pub(crate) fn variable(mut self, name: &'static str, value: impl Into<OsString>) -> Step {
        self.variables.push((name, value.into()));
        self
    }

    /// States what must hold besides the exit status.
    pub(crate) fn check(mut self, check: Check) -> Step {
        self.check = check;
        self
    }

    fn command(&self, root: &Path) -> Command {
        let mut command = Command::new(match self.program {
            Program::Cargo => env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
            // It lies beside this program, which has the profile of the tests.
            Program::Tested => {
                env::current_exe().unwrap_or_default().with_file_name(TESTED).into_os_string()
            }
        });
        command.current_dir(root).args(&self.arguments).envs(self.variables.iter().cloned());
        command
    }

    /// Runs the command in `root`; gives back what it wrote to its standard output.
    ///
    /// # Errors
    /// The command cannot be started, or ends with a non-zero status.
    pub(crate) fn output(&self, root: &Path) -> Result<String> {
        let mut command = self.command(root);
        let output =
            command.stderr(Stdio::inherit()).output().with_context(|| not_started(&command))?;
        ensure!(output.status.success(), "{}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs the command in `root`; gives back what its check found, in words.
    ///
    /// # Errors
    /// The command cannot be started, ends with a non-zero status, or its check fails.
    pub(crate) fn run(&self, root: &Path) -> Result<Option<String>> {
        let mut command = self.command(root);
        match &self.check {
            Check::Status => run_plainly(&mut command).map(|()| None),
            Check::SomeTests => {
                let passed = run_counting_tests(&mut command)?;
                ensure!(passed > 0, "no test has such a name");
                Ok(Some(format!("{passed} chosen tests")))
            }
            Check::Accuracy { run_folder, at_least } => {
                run_plainly(&mut command)?;
                acceptance::judge(run_folder, *at_least).map(Some)
            }
        }
    }
}

/// The command as a user would type it.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.variables {
            write!(f, "{name}={:?} ", value.display().to_string())?;
        }
        match self.program {
            Program::Cargo => write!(f, "cargo")?,
            Program::Tested => write!(f, "target/debug/{TESTED}")?,
        }
        self.arguments.iter().try_for_each(|argument| write!(f, " {}", argument.display()))
    }
}

fn not_started(command: &Command) -> String {
    format!("{} could not be started", command.get_program().display())
}

fn run_plainly(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| not_started(command))?;
    ensure!(status.success(), "{status}");
    Ok(())
}

/// Passes the output on line by line, and counts the tests that it reports as passed.
fn run_counting_tests(command: &mut Command) -> Result<u64> {
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| not_started(command))?;
    let Some(stdout) = child.stdout.take() else { bail!("cargo's output was not piped") };
    let mut passed = 0;
    for line in BufReader::new(stdout).lines() {
        let line = line.context("cargo's output could not be read")?;
        println!("{line}");
        passed += tests_passed(&line).unwrap_or(0);
    }
    let status = child.wait().context("cargo's end could not be waited for")?;
    ensure!(status.success(), "{status}");
    Ok(passed)
}

/// The count in a line such as `test result: ok. 3 passed; 0 failed; ...`.
fn tests_passed(line: &str) -> Option<u64> {
    let (_, after) = line.strip_prefix("test result:")?.split_once(". ")?;
    after.split_once(" passed")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_reads_as_it_would_be_typed() {
        let step = Step::cargo("doc --no-deps").argument("a b").variable("FLAGS", "-D warnings");
        assert_eq!(step.to_string(), "FLAGS=\"-D warnings\" cargo doc --no-deps a b");
        assert_eq!(step.arguments.len(), 3);
    }

    #[test]
    fn a_failing_command_is_an_error() {
        let error = Step::cargo("--no-such-option").run(Path::new(".")).unwrap_err().to_string();
        assert!(error.contains("exit"), "{error}");
        assert_eq!(Step::cargo("--version").run(Path::new(".")).unwrap(), None);
        assert!(Step::cargo("--version").output(Path::new(".")).unwrap().starts_with("cargo "));
        Step::cargo("--no-such-option").output(Path::new(".")).unwrap_err();
    }

    #[test]
    fn a_run_without_any_test_is_an_error() {
        let step = Step::cargo("--version").check(Check::SomeTests);
        assert_eq!(step.run(Path::new(".")).unwrap_err().to_string(), "no test has such a name");
    }

    #[test]
    fn passed_tests_are_read_from_the_result_line_alone() {
        let line = "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out";
        assert_eq!(tests_passed(line), Some(12));
        assert_eq!(tests_passed("test result: FAILED. 2 passed; 1 failed"), Some(2));
        assert_eq!(tests_passed("test counts::passed ... ok"), None);
        assert_eq!(tests_passed(""), None);
    }
}
