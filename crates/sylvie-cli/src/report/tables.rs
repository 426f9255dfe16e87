//! The tables of a report: a row a run.

use sylvie::data::shown;
use sylvie_report::Table;

use super::run::{Epoch, Run, State};
use crate::console;

/// What stands where nothing is known.
const NONE: &str = "\u{2013}";

type Column = (&'static str, fn(&Run) -> Option<String>);

fn table(caption: &str, runs: &[Run], columns: &[Column]) -> Table {
    let row = |run: &Run| {
        let cells = columns.iter().map(|(_, cell)| cell(run).unwrap_or_else(|| NONE.to_owned()));
        std::iter::once(run.name.clone()).chain(cells).collect()
    };
    let headings = columns.iter().map(|(heading, _)| (*heading).to_owned());
    Table {
        caption: caption.to_owned(),
        headings: std::iter::once("run".to_owned()).chain(headings).collect(),
        rows: runs.iter().map(row).collect(),
    }
}

/// Which runs there are.
pub(super) fn runs(runs: &[Run]) -> Table {
    let state = |run: &Run| {
        let state = match run.state {
            State::Finished => "finished",
            State::Running => "running",
            State::Unfinished(_) => "not finished",
        };
        Some(state.to_owned())
    };
    let columns: [Column; 6] = [
        ("graph", |run| run.setting("partition").or_else(|| run.setting("data"))),
        ("model", |run| run.setting("model")),
        ("preset", |run| run.setting("preset")),
        ("parts", |run| run.setting("parts")),
        ("state", state),
        ("folder", |run| Some(shown(&run.folder))),
    ];
    table("", runs, &columns)
}

fn score(value: Option<f64>) -> Option<String> {
    value.map(|value| console::score(Some(value)))
}

/// How good the models are.
pub(super) fn scores(runs: &[Run]) -> Table {
    let columns: [Column; 7] = [
        ("metric", |run| Some(run.metric())),
        ("best validation", |run| score(run.figures.best_val)),
        ("in epoch", |run| run.figures.best_epoch.map(|epoch| epoch.to_string())),
        ("test in that epoch", |run| score(run.figures.test_at_best_val)),
        ("test at the end", |run| score(run.figures.final_test)),
        ("loss at the end", |run| score(run.figures.loss)),
        ("epochs", |run| run.figures.epochs.map(|n_epochs| n_epochs.to_string())),
    ];
    let is_over = runs.iter().all(|run| run.state == State::Finished);
    let caption =
        if is_over { "" } else { "A run that is not finished shows what it has reached." };
    table(caption, runs, &columns)
}

fn ms(value: Option<f64>) -> Option<String> {
    value.map(|value| format!("{value:.1} ms"))
}

/// Where the time went.
pub(super) fn times(runs: &[Run]) -> Table {
    let columns: [Column; 10] = [
        ("median epoch", |run| ms(run.figures.median_epoch_ms)),
        ("mean epoch", |run| ms(run.figures.mean_epoch_ms)),
        ("computing", |run| ms(run.mean(|epoch| epoch.times.compute_ms))),
        ("waiting for rows", |run| ms(run.mean(|epoch| epoch.times.blocked_ms))),
        ("all-reduce", |run| ms(run.mean(|epoch| epoch.times.reduce_ms))),
        ("encoding", |run| ms(run.mean(|epoch| epoch.times.encode_ms))),
        ("decoding", |run| ms(run.mean(|epoch| epoch.times.decode_ms))),
        ("network", |run| ms(run.mean(|epoch| epoch.times.network_ms))),
        ("hidden", |run| ms(run.mean(|epoch| epoch.times.hidden_ms))),
        ("hidden share", |run| run.figures.hidden_share.map(|s| format!("{:.0} %", s * 100.0))),
    ];
    let caption = "Milliseconds an epoch, means over ranks and, but for the median, over epochs. Computing, \
                   waiting and the all-reduce add up to the epoch; encoding, decoding and the network \
                   go on beside it, and what of them computing did not wait for is hidden.";
    table(caption, runs, &columns)
}

fn bytes_of(n_bytes: Option<u64>) -> Option<String> {
    n_bytes.map(|n_bytes| console::bytes(n_bytes as f64))
}

/// What was sent.
pub(super) fn bytes(runs: &[Run]) -> Table {
    let columns: [Column; 8] = [
        ("halo rows an epoch", |run| bytes_of(run.figures.sent_bytes())),
        ("metadata in that", |run| bytes_of(run.figures.metadata_bytes_per_epoch)),
        ("in fp32", |run| bytes_of(run.figures.fp32_bytes_per_epoch)),
        ("fp32 over sent", |run| run.figures.saving().map(|times| format!("{times:.1}x"))),
        ("messages an epoch", |run| {
            let messages = |epoch: &Epoch| epoch.messages.map(|n_messages| n_messages as f64);
            run.mean(messages).map(|mean| format!("{mean:.0}"))
        }),
        ("all-reduce an epoch", |run| bytes_of(run.figures.reduce_bytes_per_epoch)),
        ("evaluation, in all", |run| bytes_of(run.figures.eval_bytes)),
        ("set-up, in all", |run| bytes_of(run.figures.setup_bytes)),
    ];
    let caption = "Sums over the ranks. Halo rows are those of training; weight gradients (all-reduce), \
                   evaluation and raw features (set-up) are exchanged in full precision whatever the \
                   width of halo rows.";
    table(caption, runs, &columns)
}

/// How the graph was split, and what that took.
pub(super) fn parts(runs: &[Run]) -> Table {
    let columns: [Column; 6] = [
        ("parts", |run| run.figures.parts.map(|n_parts| n_parts.to_string())),
        ("partitioner", |run| run.setting("partitioner")),
        ("edges between parts", |run| run.figures.cut_edges.map(|n_edges| n_edges.to_string())),
        ("halo rows", |run| run.figures.halo_rows.map(|n_rows| n_rows.to_string())),
        ("computing, slowest rank over mean", |run| run.balance().map(|b| format!("{b:.2}"))),
        ("peak memory", |run| run.figures.peak_rss_mb.map(|mb| console::bytes(mb * 1e6))),
    ];
    table("", runs, &columns)
}
