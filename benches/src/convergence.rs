//! How fast policies converge: loss and validation score over epochs, as a plot.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::Value;
use sylvie_report::{Line, LineChart, ReportError, Scale};

/// Runs to compare.
#[derive(Debug, Args)]
pub(crate) struct ConvergenceArguments {
    /// Runs as `NAME=FOLDER`, each the folder of a `sylvie train --out`; those of one name are averaged.
    #[arg(required = true, value_name = "NAME=FOLDER", value_parser = named)]
    runs: Vec<(String, PathBuf)>,
    /// The picture, an SVG.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// What stands above it.
    #[arg(long, default_value = "")]
    title: String,
    /// The first epoch shown, from 0.
    #[arg(long, default_value_t = 0)]
    from: u32,
}

fn named(word: &str) -> Result<(String, PathBuf), String> {
    let (name, folder) = word.split_once('=').ok_or("not NAME=FOLDER")?;
    Ok((name.to_owned(), folder.into()))
}

/// Mean over runs, by epoch.
type Curve = Vec<(u32, f64)>;

/// The curves of one name.
#[derive(Debug)]
struct Series {
    name: String,
    loss: Curve,
    score: Curve,
}

/// Draws the losses and validation scores of the runs.
///
/// # Errors
/// A folder without metrics, runs of one name that differ in their epochs, a picture that cannot be
/// written.
pub(crate) fn draw(arguments: &ConvergenceArguments) -> Result<()> {
    let series = read(&arguments.runs, arguments.from)?;
    let out = arguments.out.as_path();
    let svg = picture(&series, &arguments.title)?;
    fs::write(out, svg).with_context(|| out.display().to_string())
}

fn read(runs: &[(String, PathBuf)], from: u32) -> Result<Vec<Series>> {
    let mut series: Vec<(String, Vec<Vec<Value>>)> = Vec::new();
    for (name, folder) in runs {
        let file = folder.join("metrics.jsonl");
        let lines = lines(&file).with_context(|| file.display().to_string())?;
        match series.iter_mut().find(|(other, _)| other == name) {
            Some((_, runs)) => runs.push(lines),
            None => series.push((name.clone(), vec![lines])),
        }
    }
    let curves = series.into_iter().map(|(name, runs)| {
        let loss = mean(&runs, "loss", from).with_context(|| name.clone())?;
        let score = mean(&runs, "val", from).with_context(|| name.clone())?;
        Ok(Series { name, loss, score })
    });
    curves.collect()
}

fn lines(file: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(file)?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// The mean over runs of a key, at the epochs that have it.
fn mean(runs: &[Vec<Value>], key: &str, from: u32) -> Result<Curve> {
    let mut sums: BTreeMap<u32, (f64, usize)> = BTreeMap::new();
    for line in runs.iter().flatten() {
        let epoch = line["epoch"].as_u64().context("a line without an epoch")? as u32;
        if let (Some(value), true) = (line[key].as_f64(), epoch >= from) {
            let (sum, n) = sums.entry(epoch).or_default();
            *sum += value;
            *n += 1;
        }
    }
    ensure!(!sums.is_empty(), "no epoch has a {key}");
    let is_whole = sums.values().all(|&(_, n)| n == runs.len());
    ensure!(is_whole, "its runs have a {key} at different epochs");
    Ok(sums.into_iter().map(|(epoch, (sum, n))| (epoch, sum / n as f64)).collect())
}

/// Losses and scores, beside each other.
fn picture(series: &[Series], title: &str) -> Result<String, ReportError> {
    let panel = |label: &str, curve: fn(&Series) -> &Curve| LineChart {
        title: if title.is_empty() { label.to_owned() } else { format!("{title}: {label}") },
        x_label: "epoch".to_owned(),
        y_label: label.to_owned(),
        y_scale: Scale::Linear,
        series: series.iter().map(|series| line(&series.name, curve(series))).collect(),
    };
    let (loss, score) = (panel("loss", |s| &s.loss), panel("validation score", |s| &s.score));
    LineChart::beside(&[loss, score])
}

fn line(name: &str, curve: &Curve) -> Line {
    let points = curve.iter().map(|&(epoch, value)| (f64::from(epoch), value)).collect();
    Line { name: name.to_owned(), points }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(losses: &[f64]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let line = |(epoch, loss): (usize, &f64)| match epoch % 2 {
            0 => format!("{{\"epoch\":{epoch},\"loss\":{loss}}}\n"),
            _ => format!("{{\"epoch\":{epoch},\"loss\":{loss},\"val\":0.5}}\n"),
        };
        let text: String = losses.iter().enumerate().map(line).collect();
        fs::write(folder.path().join("metrics.jsonl"), text).expect("metrics");
        folder
    }

    #[test]
    fn runs_of_one_name_are_averaged_and_drawn() {
        let folders =
            [folder(&[2.0, 1.0, 0.5]), folder(&[4.0, 2.0, 1.5]), folder(&[3.0, 3.0, 3.0])];
        let named = |name: &str, at: usize| (name.to_owned(), folders[at].path().to_owned());
        let runs = vec![named("a", 0), named("a", 1), named("b", 2)];
        let series = read(&runs, 1).expect("series");
        assert_eq!(series[0].loss, [(1, 1.5), (2, 1.0)]);
        assert_eq!((series[0].score.as_slice(), series.len()), ([(1, 0.5)].as_slice(), 2));

        let out = folders[0].path().join("plot.svg");
        let title = "two policies".to_owned();
        draw(&ConvergenceArguments { runs, out: out.clone(), title, from: 0 }).expect("a plot");
        let svg = fs::read_to_string(out).expect("a picture");
        assert!(svg.starts_with("<svg") && svg.contains("two policies"));
        // Two curves in each panel, and one name for each.
        assert!(svg.matches("<polyline").count() >= 4);
        assert!(svg.contains("\nb\n"), "{svg}");
    }

    #[test]
    fn what_cannot_be_averaged_is_refused() {
        let folders = [folder(&[2.0, 1.0]), folder(&[2.0, 1.0, 1.0])];
        let run = |at: usize| ("a".to_owned(), folders[at].path().to_owned());
        let error = read(&[run(0), run(1)], 0).unwrap_err();
        assert!(format!("{error:#}").contains("different epochs"), "{error:#}");
        let missing = read(&[("a".to_owned(), folders[0].path().join("none"))], 0).unwrap_err();
        assert!(format!("{missing:#}").contains("metrics.jsonl"), "{missing:#}");
        assert!(named("no separator").is_err());
    }
}
