//! Pages about runs.

use std::fs::{self, File};
use std::path::Path;

use serde_json::Value;

use crate::program::{GRAPH, MULTI, fail, fail_at, succeed, train};

/// Writes the page of some runs, and gives it.
#[track_caller]
fn report(folder: &Path, runs: &[&str]) -> String {
    let out = folder.join("page.html");
    let runs: Vec<String> = runs.iter().map(|run| folder.join(run).display().to_string()).collect();
    let printed =
        succeed(&format!("report --run {} --overwrite --out {}", runs.join(" "), out.display()));
    assert_eq!(printed.lines().count(), 1, "{printed}");
    let page = fs::read_to_string(out).expect("a page");
    check(&page);
    page
}

/// What holds of every page: nothing is loaded, and nothing in a picture is no number.
#[track_caller]
fn check(page: &str) {
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    for word in ["http:", "https:", "src=", "<script", "<link", "@import", "url("] {
        assert!(!page.contains(word), "{word}");
    }
    for svg in page.split("<svg").skip(1).map(|rest| rest.split("</svg>").next().unwrap()) {
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}

/// The cells of the row of a run in the table that has this heading.
fn row(page: &str, heading: &str, run: &str) -> Vec<String> {
    let tables = page.split("<table>").skip(1).map(|rest| rest.split("</table>").next().unwrap());
    let table = tables.into_iter().find(|table| table.contains(&format!(">{heading}</th>")));
    let rows = table.expect("a table").split("<tr>").skip(1);
    let cells = |row: &str| -> Vec<String> {
        let cells = row.split("<td").skip(1).map(|cell| cell.split_once('>').unwrap().1);
        cells.map(|cell| cell.split("</td>").next().unwrap().to_owned()).collect()
    };
    let mut rows = rows.map(cells);
    rows.find(|cells| cells.first().is_some_and(|name| name == run)).expect("the run's row")
}

#[test]
fn a_page_holds_the_figures_of_the_summary() {
    let folder = tempfile::tempdir().unwrap();
    let summaries = ["vanilla", "sylvie-a"].map(|preset| {
        train(&folder.path().join(preset), &format!("--data {GRAPH} --preset {preset}"))
    });
    let page = report(folder.path(), &["vanilla", "sylvie-a"]);
    let number = |summary: &Value, key: &str| summary[key].as_f64().expect("a number");
    for (name, summary) in ["vanilla", "sylvie-a"].iter().zip(&summaries) {
        let scores = row(&page, "best validation", name);
        let figures = ["best_val", "test_at_best_val", "final_test", "loss"];
        let figures = figures.map(|key| format!("{:.4}", number(summary, key)));
        for (column, figure) in [2, 4, 5, 6].iter().zip(&figures) {
            assert_eq!(&scores[*column], figure, "{scores:?}");
        }
        assert_eq!((scores[1].as_str(), scores[7].as_str()), ("accuracy", "4"));
        let times = row(&page, "median epoch", name);
        assert_eq!(times[1], format!("{:.1} ms", number(summary, "median_epoch_ms")));
        assert_eq!(times[2], format!("{:.1} ms", number(summary, "mean_epoch_ms")));
        assert_eq!(times[3], format!("{:.1} ms", number(summary, "mean_compute_ms")));
        let sent = number(summary, "payload_bytes_per_epoch")
            + number(summary, "metadata_bytes_per_epoch");
        let saving = number(summary, "fp32_bytes_per_epoch") / sent;
        assert_eq!(row(&page, "fp32 over sent", name)[4], format!("{saving:.1}x"));
        let parts = row(&page, "edges between parts", name);
        assert_eq!((parts[1].as_str(), &parts[4]), ("4", &summary["halo_rows"].to_string()));
        assert_eq!(row(&page, "state", name)[5], "finished");
    }
    // What differs stands apart from what agrees.
    assert_eq!(row(&page, "vanilla", "preset"), ["preset", "vanilla", "sylvie-a"]);
    assert_eq!(row(&page, "value", "hidden"), ["hidden", "16"]);
    // Four curves, two charts of times and one of epochs, bytes, and ranks of each run.
    assert_eq!(page.matches("<figure>").count(), 4 + 3 + 1 + 2);
}

#[test]
fn runs_of_every_state_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    train(&at("whole"), &format!("--data {GRAPH} --checkpoint-every 2"));
    train(&at("alone"), &format!("--data {MULTI} --parts 1 --epochs 1"));
    let whole = fs::read_to_string(at("whole/metrics.jsonl")).unwrap();

    // A run that ended before its time, in the middle of a line.
    for name in ["cut", "lost", "bare"] {
        fs::create_dir(at(name)).unwrap();
        fs::copy(at("whole/run.toml"), at(name).join("run.toml")).unwrap();
    }
    fs::write(at("cut/metrics.jsonl"), &whole[..whole.len() - 40]).unwrap();
    fs::create_dir_all(at("cut/checkpoints/epoch-000002")).unwrap();
    // One whose losses are no numbers.
    let lost: Vec<String> = whole
        .lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line["loss"] = Value::Null;
            line.to_string() + "\n"
        })
        .collect();
    fs::write(at("lost/metrics.jsonl"), lost.concat()).unwrap();

    let page = report(folder.path(), &["whole", "alone", "cut", "lost", "bare"]);
    let state = |name: &str| row(&page, "state", name)[5].clone();
    let states = ["whole", "alone", "cut", "lost", "bare"].map(state);
    assert_eq!(states, ["finished", "finished", "not finished", "not finished", "not finished"]);
    for said in [
        "cut: the last line of metrics.jsonl is cut",
        "checkpoint after 2 epochs",
        "lost: the loss of 4 epochs is no number, of epoch 0 first",
        "bare: has no metrics.jsonl",
    ] {
        assert!(page.contains(said), "{said}");
    }
    let scores = row(&page, "best validation", "cut");
    assert_eq!((scores[7].as_str(), scores[2].starts_with("0.")), ("3", true), "{scores:?}");
    assert_eq!(row(&page, "best validation", "bare")[2..7], ["\u{2013}"; 5]);
    // Each metric has charts of its own.
    assert!(page.contains("\nValidation accuracy\n") && page.contains("\nValidation micro-f1\n"));

    let metrics = File::open(at("cut/metrics.jsonl")).unwrap();
    metrics.lock().unwrap();
    assert_eq!(row(&report(folder.path(), &["cut"]), "state", "cut")[5], "running");
}

#[test]
fn what_cannot_be_reported_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (run, other) = (folder.path().join("run"), folder.path().join("other"));
    train(&run, &format!("--data {GRAPH} --epochs 1"));
    fs::create_dir(&other).unwrap();
    let page = folder.path().join("page.html");
    let path = |path: &Path| path.display().to_string();
    let (run, other, page) = (path(&run), path(&other), path(&page));
    let refused = |words: &[&str], named: &[&str]| {
        let (_, line) = fail_at(&[&["report", "--run"], words].concat());
        for word in named {
            assert!(line.contains(word), "{words:?}: {word}: {line}");
        }
    };
    refused(&[&format!("{run}-2"), "--out", &page], &["run-2", "no such folder"]);
    refused(&[&other, "--out", &page], &["other", "no run.toml", "train --out"]);
    refused(&[&format!("{run}/run.toml"), "--out", &page], &["run.toml", "no folder"]);
    refused(&[&run, &format!("{run}/."), "--out", &page], &["given twice"]);
    refused(&[&run, "--out", &other], &["other", "is a folder"]);
    refused(&[&run, "--out", &format!("{other}/a/page.html")], &["page.html", "cannot be written"]);
    let summary = format!("{run}/summary.json");
    refused(&[&run, "--out", &summary, "--overwrite"], &["summary.json", "file of the run"]);
    assert!(!Path::new(&page).exists());

    fs::write(&page, "mine").unwrap();
    refused(&[&run, "--out", &page], &["page.html", "--overwrite"]);
    assert_eq!(fs::read(&page).unwrap(), b"mine");
    succeed(&format!("report --run {run} --out {page} --overwrite"));
    assert!(fs::read_to_string(&page).unwrap().starts_with("<!doctype html>"));

    let metrics = format!("{run}/metrics.jsonl");
    let text = fs::read_to_string(&metrics).unwrap();
    fs::write(&metrics, format!("not JSON\n{text}")).unwrap();
    refused(&[&run, "--out", &page, "--overwrite"], &["metrics.jsonl: line 1"]);
    fs::write(&summary, "[]").unwrap();
    fs::write(&metrics, text).unwrap();
    refused(&[&run, "--out", &page, "--overwrite"], &["summary.json"]);
    assert_eq!(fail("report --out page.html").0, 2);
}

#[test]
fn the_flag_can_be_given_for_each_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    for name in ["a/run", "b/run"] {
        train(&folder.path().join(name), &format!("--data {GRAPH} --epochs 1 --parts 2"));
    }
    let page = at("page.html");
    succeed(&format!("report --run {} --run {} --out {page}", at("a/run"), at("b/run")));
    let page = fs::read_to_string(page).unwrap();
    // One name for two: the paths tell them apart.
    for name in ["a/run", "b/run"] {
        assert_eq!(row(&page, "best validation", &at(name))[7], "1");
    }
    assert!(page.contains("All settings agree."));
}
