//! The settings of runs: where they differ, and where they agree.

use sylvie_report::{Page, Table};

use super::run::Run;

/// What stands where a run has no such setting.
const NONE: &str = "\u{2013}";

/// Adds the settings to a page.
pub(super) fn write(page: &mut Page, runs: &[Run]) {
    let (differing, agreeing): (Vec<String>, Vec<String>) =
        keys(runs).into_iter().partition(|key| differs(runs, key));
    let heads = || std::iter::once("setting".to_owned());
    if runs.len() > 1 && differing.is_empty() {
        page.paragraph("All settings agree.");
    }
    if !differing.is_empty() {
        page.table(&Table {
            caption: "Settings that differ".to_owned(),
            headings: heads().chain(runs.iter().map(|run| run.name.clone())).collect(),
            rows: differing.iter().map(|key| row(key, runs)).collect(),
        });
    }
    if !agreeing.is_empty() {
        let caption = if runs.len() > 1 { "Settings of all runs" } else { "Settings of the run" };
        page.table(&Table {
            caption: caption.to_owned(),
            headings: heads().chain(["value".to_owned()]).collect(),
            rows: agreeing.iter().map(|key| row(key, &runs[..1])).collect(),
        });
    }
}

fn row(key: &str, runs: &[Run]) -> Vec<String> {
    let values = runs.iter().map(|run| run.setting(key).unwrap_or_else(|| NONE.to_owned()));
    std::iter::once(key.to_owned()).chain(values).collect()
}

/// The keys of all runs, each once, in the order of the runs.
fn keys(runs: &[Run]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for key in runs.iter().flat_map(|run| run.settings.keys()) {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    keys
}

fn differs(runs: &[Run], key: &str) -> bool {
    let mut values = runs.iter().map(|run| run.settings.get(key));
    let first = values.next().flatten();
    values.any(|value| value != first)
}
