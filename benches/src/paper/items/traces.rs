//! One epoch of each policy, step by step.

use sylvie::pipeline::{Activity, Lane as Place, Preset, Span};
use sylvie_report::{Lane, LaneSpan, Timeline};

use crate::paper::section::{Case, Context, Section, number, percent};
use crate::policies::report::Row;
use crate::policies::walk::waits;

pub(super) fn section(context: Context<'_>) -> Section {
    let Context { item, results, .. } = context;
    let mut section = Section::default();
    for (cell, layout) in context.places() {
        let mut rows = Vec::new();
        for policy in &item.policies {
            let row = results.row(cell, layout, &policy.name);
            rows.push(vec![
                policy.name.clone(),
                number(row.map(|row| 1e3 * row.measured_s), 1),
                percent(row.map(still)),
            ]);
            let Some(row) = row else { continue };
            let name = format!("{}, {}", context.name(cell, layout), policy.name);
            let chart = Timeline { title: name.clone(), lanes: lanes(&row.last_epoch) };
            let caption =
                format!("{name}: the last epoch measured. Each picture has its own scale of time.");
            section.chart(chart.svg(), &caption);
        }
        let headings = ["policy", "epoch, ms", "standing still for rows"];
        section.table(&context.name(cell, layout), &headings, rows);
    }
    shorter(context, &mut section);
    section
}

/// The share of an epoch that the thread that computes waits for rows.
fn still(row: &Row) -> f64 {
    let times = row.times;
    times.blocked_ms / (times.compute_ms + times.blocked_ms + times.reduce_ms)
}

/// A lane for each thread of each rank, and one for what travels to it.
fn lanes(ranks: &[Vec<Span>]) -> Vec<Lane> {
    let begin = ranks.iter().flatten().map(|span| span.start).min().unwrap_or_default();
    let ms = |time: std::time::Duration| 1e3 * time.saturating_sub(begin).as_secs_f64();
    let places = [
        (Place::Compute, "computes"),
        (Place::Communication, "communicates"),
        (Place::Network, "network"),
    ];
    let lane = |(rank, spans): (usize, &Vec<Span>), (place, word): (Place, &str)| {
        let spans = spans.iter().filter(|span| span.lane == place).map(|span| LaneSpan {
            start_ms: ms(span.start),
            end_ms: ms(span.end),
            kind: kind(span.activity).to_owned(),
        });
        Lane { name: format!("rank {rank} {word}"), spans: spans.collect() }
    };
    let ranks = ranks.iter().enumerate();
    ranks.flat_map(|rank| places.map(|place| lane(rank, place))).collect()
}

fn kind(activity: Activity) -> &'static str {
    match activity {
        Activity::Step(step) if waits(step) => "standing still",
        Activity::Step(_) => "computing",
        Activity::Encode(..) => "quantising",
        Activity::Decode(..) => "dequantising",
        Activity::Transfer(..) => "rows travel",
        Activity::Sum(_) => "sums of weight gradients",
    }
}

fn shorter(context: Context<'_>, section: &mut Section) {
    let item = context.item;
    let (Some(waiting), Some(hiding)) = (item.named(Preset::SylvieS), item.named(Preset::SylvieA))
    else {
        return;
    };
    let cases = context.places().into_iter().map(|(cell, layout)| {
        let of = |name| context.results.row(cell, layout, name).map(still);
        let (waiting, hiding) = (of(waiting), of(hiding));
        Case {
            name: context.name(cell, layout),
            holds: waiting.zip(hiding).map(|(waiting, hiding)| hiding < waiting),
            found: format!("{} against {}", percent(hiding), percent(waiting)),
        }
    });
    let claim = format!("{hiding} hides what {waiting} waits for");
    section.claim(
        item,
        &claim,
        "it stands still for rows a smaller share of the epoch",
        cases.collect(),
    );
}
