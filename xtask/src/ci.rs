//! What must hold of a change, as a list of steps.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::acceptance;
use crate::step::{Check, Step};
use crate::surroundings::{DATA_DIR, MPI_LAUNCHER, REFERENCE_DIR, Surroundings};

/// The test command that README.md names, less the word cargo.
const README_TEST: &str = "test --workspace";

/// The steps, quickest to fail first. All builds share one profile's dependencies, and no step but the
/// lints has features of its own: each set of either compiles everything anew.
pub(crate) fn plan(surroundings: &Surroundings, scratch: &Path) -> Vec<Step> {
    // With a feature more where there is an MPI library: one build of all tests is enough.
    let features = surroundings.mpi.as_ref().map_or("", |_| " --features sylvie-cli/mpi");
    let mut test = Step::cargo(&format!("{README_TEST}{features}"));
    if let Some(launcher) = &surroundings.mpi {
        test = test.variable(MPI_LAUNCHER, launcher);
    }
    if let Some(data) = &surroundings.data {
        test = test.variable(DATA_DIR, data);
    }
    let mut steps = vec![
        Step::cargo("fmt --all --check"),
        // With devices, which need no CUDA to be built for: tests bring them for all but the measurements.
        Step::cargo(
            "clippy --workspace --all-targets --features sylvie-bench/devices -- -D warnings",
        ),
        // As it is built without tests, where nothing depends on CUDA.
        Step::cargo("clippy --workspace -- -D warnings"),
        test,
        Step::cargo("doc --workspace --no-deps").variable("RUSTDOCFLAGS", "-D warnings"),
    ];
    if let Some(cases) = &surroundings.reference {
        let line = format!("test --workspace{features} --tests reference::");
        let reference = Step::cargo(&line);
        steps.push(reference.variable(REFERENCE_DIR, cases).check(Check::SomeTests));
    }
    steps.push(acceptance::default_training(scratch));
    if let Some(data) = &surroundings.data {
        steps.push(acceptance::photo_training(data, scratch));
    }
    if surroundings.has_python {
        steps.push(Step::cargo("xtask python-check --tested"));
    }
    steps
}

/// Runs the steps in order, printing each and its duration; gives back a line about all of them.
///
/// # Errors
/// The first step that fails; those after it are not run.
pub(crate) fn run(root: &Path, steps: &[Step]) -> Result<String> {
    let (start, n_steps) = (Instant::now(), steps.len());
    let mut findings = String::new();
    for (step_idx, step) in steps.iter().enumerate() {
        let (number, step_start) = (step_idx + 1, Instant::now());
        println!("\n[{number}/{n_steps}] {step}");
        let outcome = step.run(root);
        let duration_s = step_start.elapsed().as_secs_f64();
        let verdict = if outcome.is_ok() { "passed" } else { "FAILED" };
        println!("[{number}/{n_steps}] {verdict} after {duration_s:.1} s");
        let finding = outcome.with_context(|| format!("step {number} of {n_steps}: {step}"))?;
        if let Some(finding) = finding {
            println!("[{number}/{n_steps}] {finding}");
            findings = findings + "; " + &finding;
        }
    }
    Ok(format!("{n_steps} steps passed in {:.0} s{findings}", start.elapsed().as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn plan_text(surroundings: &Surroundings) -> Vec<String> {
        plan(surroundings, Path::new("scratch")).iter().map(Step::to_string).collect()
    }

    #[test]
    fn a_lone_clone_is_checked_and_trained_on_the_default_graph() {
        assert_eq!(
            plan_text(&Surroundings::default()),
            [
                "cargo fmt --all --check",
                "cargo clippy --workspace --all-targets --features sylvie-bench/devices -- -D warnings",
                "cargo clippy --workspace -- -D warnings",
                "cargo test --workspace",
                "RUSTDOCFLAGS=\"-D warnings\" cargo doc --workspace --no-deps",
                "target/debug/sylvie train --out scratch/synthetic",
            ]
        );
    }

    #[test]
    fn folders_beside_the_clone_add_their_steps_and_variables() {
        let surroundings = Surroundings {
            data: Some("graphs".into()),
            reference: Some("cases".into()),
            mpi: Some("mpirun".into()),
            has_python: true,
        };
        let lone = plan_text(&Surroundings::default());
        let all = plan_text(&surroundings);
        let added: Vec<_> = all.iter().filter(|step| !lone.contains(step)).collect();
        assert_eq!(
            added,
            [
                "SYLVIE_MPI_LAUNCHER=\"mpirun\" SYLVIE_DATA_DIR=\"graphs\" cargo test --workspace --features \
                 sylvie-cli/mpi",
                "SYLVIE_REFERENCE_DIR=\"cases\" cargo test --workspace --features sylvie-cli/mpi --tests \
                 reference::",
                "target/debug/sylvie train --parts 4 --preset sylvie-s --normalize standard \
                 --epochs 60 --out scratch/amazon_photo --data graphs/npz/amazon_photo.npz",
                "cargo xtask python-check --tested",
            ]
        );
    }

    #[test]
    fn the_first_failure_ends_the_run() {
        let steps =
            [Step::cargo("--version"), Step::cargo("--no-such-option"), Step::cargo("--nor-this")];
        let error = run(Path::new("."), &steps).unwrap_err().to_string();
        assert_eq!(error, "step 2 of 3: cargo --no-such-option");
        assert!(run(Path::new("."), &steps[..1]).unwrap().starts_with("1 steps passed"));
    }

    #[test]
    fn the_readme_names_the_test_command_that_is_run() {
        let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
        let text = fs::read_to_string(readme).expect("README.md");
        let command = format!("cargo {README_TEST}");
        let ends_there = |after: &str| after.starts_with(['\n', '`']);
        let named = text.split(&command).skip(1).any(ends_there);
        assert!(named, "README.md does not name `{command}`");
    }
}
