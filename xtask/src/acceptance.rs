//! Short trainings, judged by the summary that they write.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Error, Result, ensure};
use serde_json::Value;

use crate::step::{Check, Step};

/// Amazon Photo: 8 classes. Sixty epochs on standardised features reach about .95.
const PHOTO_AT_LEAST: f64 = 0.93;
/// The default planted-community graph: 10 classes, so that chance is about .1.
const SYNTHETIC_AT_LEAST: f64 = 0.60;
/// The key in summary.json that is compared.
const ACCURACY: &str = "test_at_best_val";

/// The command of the first page: a training with every setting left at its default.
pub(crate) fn default_training(scratch: &Path) -> Step {
    training("", scratch.join("synthetic"), SYNTHETIC_AT_LEAST)
}

/// One-bit training of a real graph on four parts.
pub(crate) fn photo_training(data: &Path, scratch: &Path) -> Step {
    let options = "--parts 4 --preset sylvie-s --normalize standard --epochs 60";
    training(options, scratch.join("amazon_photo"), PHOTO_AT_LEAST)
        .argument("--data")
        .argument(data.join("npz").join("amazon_photo.npz"))
}

fn training(options: &str, run_folder: PathBuf, at_least: f64) -> Step {
    Step::tested(&format!("train {options} --out"))
        .argument(run_folder.clone())
        .check(Check::Accuracy { run_folder, at_least })
}

/// Reads the test accuracy from a run's summary; gives it back in words.
///
/// # Errors
/// The summary cannot be read, holds no such number, or the number is below `at_least`.
pub(crate) fn judge(run_folder: &Path, at_least: f64) -> Result<String> {
    let summary = run_folder.join("summary.json");
    let accuracy = fs::read_to_string(&summary)
        .map_err(Error::from)
        .and_then(|text| accuracy_in(&text, at_least))
        .with_context(|| summary.display().to_string())?;
    let name = run_folder.file_name().unwrap_or_default();
    Ok(format!("{} {accuracy:.4} (at least {at_least})", name.display()))
}

fn accuracy_in(text: &str, at_least: f64) -> Result<f64> {
    let summary: Value = serde_json::from_str(text).context("not JSON")?;
    let accuracy = summary[ACCURACY].as_f64().with_context(|| format!("no number {ACCURACY}"))?;
    ensure!(accuracy >= at_least, "{ACCURACY} is {accuracy}, below {at_least}");
    Ok(accuracy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accuracy_at_the_bound_passes_and_one_below_does_not() {
        assert_eq!(accuracy_in(r#"{"test_at_best_val": 0.9}"#, 0.9).unwrap(), 0.9);
        let error = accuracy_in(r#"{"test_at_best_val": 0.89}"#, 0.9).unwrap_err().to_string();
        assert_eq!(error, "test_at_best_val is 0.89, below 0.9");
    }

    #[test]
    fn a_summary_without_the_number_fails() {
        for text in ["", "{}", "[]", r#"{"test_at_best_val": null}"#, r#"{"final_test": 1.0}"#] {
            accuracy_in(text, 0.0).unwrap_err();
        }
    }

    #[test]
    fn a_training_is_judged_by_what_lies_in_its_run_folder() {
        let scratch = tempfile::tempdir().unwrap();
        let step = photo_training(Path::new("graphs"), scratch.path());
        let Check::Accuracy { run_folder, at_least } = step.check else { panic!("unchecked") };
        assert!(step.arguments.contains(&run_folder.clone().into_os_string()));
        let error = judge(&run_folder, at_least).unwrap_err().to_string();
        assert!(error.ends_with("summary.json"), "{error}");

        fs::create_dir(&run_folder).unwrap();
        fs::write(run_folder.join("summary.json"), r#"{"test_at_best_val": 0.93}"#).unwrap();
        let words = judge(&run_folder, at_least).unwrap();
        assert_eq!(words, "amazon_photo 0.9300 (at least 0.93)");
    }
}
