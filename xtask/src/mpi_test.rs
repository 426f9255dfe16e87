//! The transport over MPI: its lints, its unit tests, its suites under a launcher, and its faults.
//!
//! Nothing else builds with feature `mpi`, because that needs an MPI library. A launcher's exit status
//! is not believed: rank 0 says at the end that the suites passed, and a fault must say what it was.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::step::{Check, Step};
use crate::surroundings::MPI_LAUNCHER;

/// What every step builds: another choice of packages or features would build it all again.
const PACKAGES: &str =
    "-p sylvie-comm -p sylvie-conformance --features sylvie-comm/mpi,sylvie-conformance/mpi";
/// The program, with ranks that are processes.
const PROGRAM: &str = "-p sylvie-cli --features mpi";
/// Seconds after which a launcher is ended: a job that hangs must not hang the tests.
const LIMIT_S: u32 = 90;
/// The line with which rank 0 ends.
const PASSED: &str = "suites passed";
/// What precedes a rank's report of a fault.
const FAULT: &str = "fault: ";

/// The ways in which the last of two ranks fails, and what some rank must say of it. Of a rank that
/// vanishes the launcher speaks, in words of its own.
const FAULTS: [(&str, &str); 14] = [
    ("error", "rank 1: message of training epoch 7 layer 5 backward from rank 77 has 2 bytes"),
    ("panic", "rank 1: panicked: gives up on purpose"),
    ("panic-aside", "rank 1: panicked: gives up aside"),
    ("abort", "rank 1: has had enough"),
    ("departure", "rank 0: rank 1 left before the exchange of training epoch 7 layer 1 backward"),
    ("silence", "in vain for rank 1 in the exchange of training epoch 7 layer 1 backward"),
    ("late-end", "in vain for all ranks to finish"),
    ("wrong-tag", "epoch 7 layer 2 backward, but training epoch 7 layer 1 backward was due"),
    (
        "wrong-length",
        "rank 0: message of training epoch 7 layer 1 backward from rank 1 has 101 bytes",
    ),
    ("wrong-collective", "but this rank is in"),
    ("unequal-reduce", "values, but this rank reduces"),
    ("killed", ""),
    ("stopped", "in vain for rank 1"),
    ("exit", "rank 1: the process exits before its rank has finished"),
];

/// A launcher and how this machine must call it.
struct Launcher {
    program: String,
    options: &'static [&'static str],
}

impl Launcher {
    /// # Errors
    /// The launcher cannot be started.
    fn find(program: &str) -> Result<Launcher> {
        let output = Command::new(program).arg("--version").output();
        let output =
            output.with_context(|| format!("{program}: docs/cluster.md says what to install"))?;
        let version = String::from_utf8_lossy(&output.stdout);
        let is_open_mpi = version.contains("Open MPI") || version.contains("OpenRTE");
        // More ranks than cores, and several threads in each.
        let options: &[_] =
            if is_open_mpi { &["--oversubscribe", "--bind-to", "none"] } else { &[] };
        // MPICH's launcher begins with a heading.
        let line = version.lines().find(|line| !line.ends_with(':')).unwrap_or_default();
        println!("{program}: {}", line.trim());
        Ok(Launcher { program: program.to_owned(), options })
    }

    fn command(&self, n_ranks: usize, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", &LIMIT_S.to_string(), &self.program]).args(self.options);
        command.args(["-n", &n_ranks.to_string()]).arg(program).args(arguments);
        // Open MPI refuses to be run by root, as in a container, unless told twice.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
    }

    /// Runs a job to its end.
    ///
    /// # Errors
    /// The job cannot be started.
    fn run(&self, n_ranks: usize, program: &Path, arguments: &[&str]) -> Result<Ending> {
        let start = Instant::now();
        let mut command = self.command(n_ranks, program, arguments);
        let output = command.stdin(Stdio::null()).output().context("timeout, of coreutils")?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text += &String::from_utf8_lossy(&output.stderr);
        let duration_s = start.elapsed().as_secs_f64();
        let has_hung = duration_s >= f64::from(LIMIT_S);
        Ok(Ending { is_success: output.status.success(), has_hung, text, duration_s })
    }
}

/// How a job ended.
#[derive(Debug)]
struct Ending {
    is_success: bool,
    has_hung: bool,
    text: String,
    duration_s: f64,
}

impl Ending {
    /// # Errors
    /// The job hung or failed, or rank 0 did not say that the suites passed.
    fn must_pass(&self) -> Result<&str> {
        ensure!(!self.has_hung, "not over after {LIMIT_S} s:\n{}", self.text);
        let line = self.text.lines().find(|line| line.starts_with(PASSED));
        match line.filter(|_| self.is_success) {
            Some(line) => Ok(line),
            None => bail!("did not pass:\n{}", self.text),
        }
    }

    /// # Errors
    /// The job hung or succeeded, or no rank said what it must.
    fn must_fail(&self, words: &str) -> Result<()> {
        ensure!(!self.has_hung, "not over after {LIMIT_S} s:\n{}", self.text);
        ensure!(!self.is_success, "succeeded:\n{}", self.text);
        let mut reports = self.text.lines().filter_map(|line| line.split_once(FAULT));
        let is_said = words.is_empty() || reports.any(|(_, report)| report.contains(words));
        ensure!(is_said, "no rank said \"{words}\":\n{}", self.text);
        Ok(())
    }
}

/// Checks everything that needs MPI; gives back a line about it.
///
/// # Errors
/// The first thing that does not hold.
pub(crate) fn run(root: &Path, program: &str, ranks: &[usize]) -> Result<String> {
    let launcher = Launcher::find(program)?;
    let steps = [
        Step::cargo(&format!("clippy {PACKAGES} --all-targets -- -D warnings")),
        Step::cargo(&format!("test {PACKAGES} --lib mpi::")).check(Check::SomeTests),
        Step::cargo(&format!("doc {PACKAGES} --no-deps")).variable("RUSTDOCFLAGS", "-D warnings"),
    ];
    for step in steps {
        println!("{step}");
        step.run(root).with_context(|| step.to_string())?;
    }
    let suites = build(root)?;
    for &n_ranks in ranks {
        // Pieces of 64 bytes split most messages of the suites.
        for arguments in [&["suites"][..], &["suites", "64"]] {
            let ending = launcher.run(n_ranks, &suites, arguments)?;
            let line = ending.must_pass().with_context(|| format!("{n_ranks} ranks"))?;
            println!("{line} ({:.1} s)", ending.duration_s);
        }
    }
    for (name, words) in FAULTS {
        let ending = launcher.run(2, &suites, &["fault", name])?;
        ending.must_fail(words).with_context(|| format!("fault {name}"))?;
        println!("fault {name} ended the job after {:.1} s", ending.duration_s);
    }
    for step in [
        // Its tests bring devices; without them it has none.
        Step::cargo(&format!("clippy {PROGRAM} -- -D warnings")),
        Step::cargo(&format!("clippy {PROGRAM} --all-targets -- -D warnings")),
        Step::cargo(&format!("test {PROGRAM} --test it processes::"))
            .variable(MPI_LAUNCHER, program)
            .check(Check::SomeTests),
    ] {
        println!("{step}");
        step.run(root).with_context(|| step.to_string())?;
    }
    Ok(format!("suites on {ranks:?} ranks, {} faults and trainings under {program}", FAULTS.len()))
}

/// Builds the program of the suites; gives back where it lies.
fn build(root: &Path) -> Result<PathBuf> {
    let line = format!("build {PACKAGES} --example mpi --message-format=json-render-diagnostics");
    let output = Step::cargo(&line).output(root).context("the suites do not build")?;
    executable_in(&output).context("cargo names no program of the suites")
}

/// The program in cargo's messages, one in JSON a line.
fn executable_in(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut built = messages.filter(|message| message["target"]["name"] == "mpi");
    built.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(is_success: bool, text: &str) -> Ending {
        Ending { is_success, has_hung: false, text: text.to_owned(), duration_s: 0.0 }
    }

    #[test]
    fn a_zero_status_alone_is_no_pass() {
        ending(true, "passed: ring\n").must_pass().unwrap_err();
        ending(false, "suites passed: 2 ranks\n").must_pass().unwrap_err();
        let line = ending(true, "passed: ring\nsuites passed: 2 ranks\n");
        assert_eq!(line.must_pass().unwrap(), "suites passed: 2 ranks");
        let hung = Ending { has_hung: true, ..line };
        hung.must_pass().unwrap_err();
    }

    #[test]
    fn a_fault_fails_with_its_words() {
        let text = "gives up\nfault: rank 1: gives up on purpose\n";
        ending(false, text).must_fail("rank 1: gives up").unwrap();
        ending(false, text).must_fail("").unwrap();
        ending(true, text).must_fail("rank 1: gives up").unwrap_err();
        ending(false, "gives up\n").must_fail("gives up").unwrap_err();
        let hung = Ending { has_hung: true, ..ending(false, text) };
        hung.must_fail("").unwrap_err();
    }

    #[test]
    fn the_program_is_found_in_cargos_messages() {
        let messages = "{\"target\": {\"name\": \"other\"}, \"executable\": \"a\"}\nnoise\n\
                        {\"target\": {\"name\": \"mpi\"}, \"executable\": null}\n\
                        {\"target\": {\"name\": \"mpi\"}, \"executable\": \"b/mpi\"}\n";
        assert_eq!(executable_in(messages), Some(PathBuf::from("b/mpi")));
        assert_eq!(executable_in("{}\n"), None);
    }
}
