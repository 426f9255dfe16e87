//! The pictures of a report. A run has the same colour in all of them.

use anyhow::Result;
use sylvie_report::{Arrangement, BarChart, Bars, Line, LineChart, Page, Scale};

use super::run::{Epoch, Run};

/// From this on, losses are shown by their logarithm.
const WIDE: f64 = 50.0;

/// Runs of more ranks are shown without a bar for each.
const MAX_RANKS: usize = 64;

/// Where a point stands on the horizontal axis, and on the vertical one.
type Point = (f64, f64);

/// A line for each run; those that do not take part leave their colour unused.
fn lines(
    runs: &[Run],
    takes_part: impl Fn(&Run) -> bool,
    points: impl Fn(&Run) -> Vec<Point>,
) -> Vec<Line> {
    let line = |run: &Run| {
        if takes_part(run) {
            Line { name: run.name.clone(), points: points(run) }
        } else {
            Line::default()
        }
    };
    runs.iter().map(line).collect()
}

/// The epochs of a run, with a figure of each; a gap where it is no number.
fn over_epochs(run: &Run, figure: impl Fn(&Epoch) -> Option<f64>) -> Vec<Point> {
    let point = |epoch: &Epoch| (f64::from(epoch.epoch), figure(epoch).unwrap_or(f64::NAN));
    run.epochs.iter().map(point).collect()
}

/// The epochs that were evaluated, with a score of each.
fn evaluated(run: &Run, score: impl Fn(&Epoch) -> Option<f64>) -> Vec<Point> {
    let epochs = run.epochs.iter().filter(|epoch| epoch.is_evaluated);
    epochs.map(|epoch| (f64::from(epoch.epoch), score(epoch).unwrap_or(f64::NAN))).collect()
}

/// The same over the seconds of training that had passed.
fn over_time(run: &Run, score: impl Fn(&Epoch) -> Option<f64>) -> Vec<Point> {
    let mut seconds = 0.0;
    let mut points = Vec::new();
    for epoch in &run.epochs {
        seconds += epoch.epoch_ms.unwrap_or(0.0) / 1e3;
        if epoch.is_evaluated {
            points.push((seconds, score(epoch).unwrap_or(f64::NAN)));
        }
    }
    points
}

/// Adds losses and scores.
pub(super) fn curves(page: &mut Page, runs: &[Run]) -> Result<()> {
    let series = lines(runs, |_| true, |run| over_epochs(run, |epoch| epoch.loss));
    let loss = LineChart {
        title: "Training loss".to_owned(),
        x_label: "epoch".to_owned(),
        y_label: "loss".to_owned(),
        y_scale: scale_of(&series),
        series,
    };
    page.figure(&loss.svg()?, "Mean over the labelled training nodes, by class weights where there are any. What is no number is a gap.");
    let mut metrics: Vec<String> = runs.iter().map(Run::metric).collect();
    metrics.sort();
    metrics.dedup();
    for metric in &metrics {
        scores(page, runs, metric)?;
    }
    Ok(())
}

fn scores(page: &mut Page, runs: &[Run], metric: &str) -> Result<()> {
    let chart = |set: &str, x_label: &str, points: &dyn Fn(&Run) -> Vec<Point>| LineChart {
        title: format!("{set} {metric}"),
        x_label: x_label.to_owned(),
        y_label: metric.to_owned(),
        y_scale: Scale::Linear,
        series: lines(runs, |run| run.metric() == metric, points),
    };
    let validation = chart("Validation", "epoch", &|run| evaluated(run, |epoch| epoch.val));
    page.figure(&validation.svg()?, "In the epochs that were evaluated, in full precision.");
    let test = chart("Test", "epoch", &|run| evaluated(run, |epoch| epoch.test));
    page.figure(&test.svg()?, "In the same epochs.");
    let by_time =
        chart("Validation", "seconds of training", &|run| over_time(run, |epoch| epoch.val));
    page.figure(&by_time.svg()?, "Over the time that epochs took, evaluation apart.");
    Ok(())
}

/// Logarithmic where the values are far apart.
fn scale_of(series: &[Line]) -> Scale {
    let values = series.iter().flat_map(|line| &line.points).map(|&(_, value)| value);
    let finite = values.filter(|value| value.is_finite());
    let (low, high) =
        finite.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    if low > 0.0 && high / low > WIDE { Scale::Logarithmic } else { Scale::Linear }
}

/// Bars of one kind: a value a run.
fn bars(name: &str, runs: &[Run], value: impl Fn(&Run) -> Option<f64>) -> Bars {
    Bars { name: name.to_owned(), values: runs.iter().map(value).collect() }
}

/// Adds where the time of epochs went.
pub(super) fn times(page: &mut Page, runs: &[Run]) -> Result<()> {
    let groups: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
    let within = BarChart {
        title: "What an epoch is made of".to_owned(),
        y_label: "ms an epoch".to_owned(),
        groups: groups.clone(),
        bars: vec![
            bars("computing", runs, |run| run.mean(|epoch| epoch.times.compute_ms)),
            bars("waiting for rows", runs, |run| run.mean(|epoch| epoch.times.blocked_ms)),
            bars("all-reduce", runs, |run| run.mean(|epoch| epoch.times.reduce_ms)),
        ],
        arrangement: Arrangement::Stacked,
    };
    page.figure(&within.svg()?, "The thread that computes: means over ranks and epochs.");
    let beside = BarChart {
        title: "What goes on beside it".to_owned(),
        y_label: "ms an epoch".to_owned(),
        groups,
        bars: vec![
            bars("encoding", runs, |run| run.mean(|epoch| epoch.times.encode_ms)),
            bars("decoding", runs, |run| run.mean(|epoch| epoch.times.decode_ms)),
            bars("network", runs, |run| run.mean(|epoch| epoch.times.network_ms)),
            bars("hidden, of these three", runs, |run| run.mean(|epoch| epoch.times.hidden_ms)),
        ],
        arrangement: Arrangement::Grouped,
    };
    page.figure(&beside.svg()?, "The thread that exchanges: means over ranks and epochs.");
    let series = lines(runs, |_| true, |run| over_epochs(run, |epoch| epoch.epoch_ms));
    let epochs = LineChart {
        title: "Time of each epoch".to_owned(),
        x_label: "epoch".to_owned(),
        y_label: "ms".to_owned(),
        y_scale: scale_of(&series),
        series,
    };
    page.figure(&epochs.svg()?, "Without evaluation.");
    Ok(())
}

/// Adds what was sent against fp32.
pub(super) fn bytes(page: &mut Page, runs: &[Run]) -> Result<()> {
    let mb = |n_bytes: Option<u64>| n_bytes.map(|n_bytes| n_bytes as f64 / 1e6);
    let chart = BarChart {
        title: "Halo rows of an epoch".to_owned(),
        y_label: "MB".to_owned(),
        groups: runs.iter().map(|run| run.name.clone()).collect(),
        bars: vec![
            bars("sent, metadata included", runs, |run| mb(run.figures.sent_bytes())),
            bars("in fp32", runs, |run| mb(run.figures.fp32_bytes_per_epoch)),
        ],
        arrangement: Arrangement::Grouped,
    };
    let unknown = runs.iter().any(|run| run.figures.fp32_bytes_per_epoch.is_none());
    let caption = if unknown {
        "Sums over the ranks. What fp32 would send is known of finished runs only."
    } else {
        "Sums over the ranks."
    };
    page.figure(&chart.svg()?, caption);
    Ok(())
}

/// Adds how busy each rank was.
pub(super) fn ranks(page: &mut Page, runs: &[Run]) -> Result<()> {
    for run in runs {
        let ranks = run.rank_means();
        if !(2..=MAX_RANKS).contains(&ranks.len()) {
            continue;
        }
        let values = |value: fn(&super::ranks::RankMeans) -> Option<f64>| {
            ranks.iter().map(value).collect::<Vec<_>>()
        };
        let named = |name: &str, values| Bars { name: name.to_owned(), values };
        let chart = BarChart {
            title: format!("Ranks of {}", run.name),
            y_label: "ms an epoch".to_owned(),
            groups: (0..ranks.len()).map(|rank| format!("rank {rank}")).collect(),
            bars: vec![
                named("computing", values(|rank| rank.compute_ms)),
                named("waiting for rows", values(|rank| rank.blocked_ms)),
                named("all-reduce", values(|rank| rank.reduce_ms)),
            ],
            arrangement: Arrangement::Stacked,
        };
        page.figure(&chart.svg()?, "Means over epochs.");
    }
    Ok(())
}
