//! `cargo xtask bench` alone: some of everything in two minutes, as a table and a page.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use sylvie_report::{Arrangement, BarChart, Bars};

use crate::codec::{self, Plan, Speed};
use crate::ops::{self, Measured, OpsArguments};
use crate::paper::compare::{self, table};
use crate::paper::page::{Preface, page};
use crate::paper::record::{FIGURES, Record, figures_csv, today};
use crate::paper::section::{Figure, Section, number};
use crate::policies::report::Row;
use crate::policies::{self, PoliciesArguments, surroundings};

/// What is done with the figures.
#[derive(Debug, Args)]
pub(crate) struct OverviewArguments {
    /// An earlier record, or its figures.csv, to compare with.
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Folder of records [default: target/bench].
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Measures the codec, the operations of an epoch and the policies, and writes a page.
///
/// # Errors
/// An earlier record that cannot be read, a training that fails, files that cannot be written.
pub(crate) fn measure(arguments: &OverviewArguments) -> Result<()> {
    let before = arguments.compare.as_deref().map(compare::read).transpose()?;
    let surroundings = surroundings::describe();
    println!("{surroundings}\n");
    let codec = codec_section(&codec::measure(&Plan::overview()));
    let ops = ops_section(&ops::measure(&OpsArguments::overview())?);
    let policies = policies_section(&policies::measure(&PoliciesArguments::overview())?);
    let sections = [codec, ops, policies];
    let figures: Vec<&Figure> = sections.iter().flat_map(|section| &section.figures).collect();
    println!("\n| figure | value | unit |\n|---|---|---|");
    for Figure { name, value, unit } in &figures {
        println!("| {name} | {value:.3} | {unit} |");
    }
    if let Some(before) = &before {
        println!("\n| figure | before | now | now / before |\n|---|---|---|---|");
        for row in table(before, &figures).rows {
            println!("| {} | {} | {} | {} |", row[0], row[1], row[2], row[3]);
        }
    }
    let default = || Path::new(crate::paper::BENCHES).join("../target/bench");
    let parent = arguments.out.clone().unwrap_or_else(default);
    let record = Record::create(&parent, &format!("{}-overview", today()))?;
    record.write(FIGURES, &figures_csv(&figures))?;
    record.write("machine.txt", &format!("{surroundings}\n"))?;
    let notes =
        ["Medians of a few rounds: a look at a machine, not a measurement to be quoted."
            .to_owned()];
    let preface = Preface { title: "Overview", surroundings: &surroundings, notes: &notes };
    record
        .write("report.html", &page(&preface, &Default::default(), &sections, before.as_ref()))?;
    println!("\npage: {}", record.folder.join("report.html").display());
    Ok(())
}

fn section(heading: &str) -> Section {
    Section { heading: heading.to_owned(), ..Section::default() }
}

fn codec_section(speeds: &[Speed]) -> Section {
    let mut section = section("The codec");
    let rows = speeds.iter().map(|speed| {
        let [rate, ratio] = [speed.gb_per_s, speed.ratio].map(|value| number(Some(value), 2));
        vec![speed.n_cols.to_string(), speed.name.clone(), rate, ratio]
    });
    let headings = ["columns", "operation", "GB/s", "over its yardstick"];
    let caption = "GB/s of f32, one thread, out of cache; the yardstick is a copy of the same array, or for what is gathered a sum \
                   over the same rows.";
    section.table(caption, &headings, rows.collect());
    for Speed { n_cols, name, ratio, .. } in speeds {
        let n_cols = n_cols.to_string();
        section.figure(&["codec", &n_cols, name], Some(*ratio), "of its yardstick");
    }
    section
}

fn ops_section(operations: &[Measured]) -> Section {
    let mut section = section("Operations of an epoch");
    let rows = operations.iter().map(|operation| {
        let Measured { name, floor_ms, time_ms } = operation;
        let [floor, time] = [floor_ms, time_ms].map(|ms| number(Some(*ms), 2));
        vec![(*name).to_owned(), floor, time, number(Some(floor_ms / time_ms), 2)]
    });
    let headings = ["operation", "floor, ms", "measured, ms", "floor / measured"];
    section.table("What bytes and arithmetic take, and what is taken.", &headings, rows.collect());
    for Measured { name, floor_ms, time_ms } in operations {
        section.figure(&["ops", name], Some(floor_ms / time_ms), "of its floor");
    }
    section
}

fn policies_section(policies: &[Row]) -> Section {
    let mut section = section("Exchange policies");
    let rows = policies.iter().map(|row| {
        let times = [1e3 * row.measured_s, 1e3 * row.predicted_s];
        let [measured, predicted] = times.map(|ms| number(Some(ms), 1));
        let (name, throughput) = (row.policy.clone(), number(Some(row.throughput), 2));
        vec![name, measured, predicted, throughput]
    });
    let headings = ["policy", "epoch, ms", "predicted, ms", "throughput"];
    let caption = "SAGE on a small generated graph over a modelled link on which computation is 1.5 % of an epoch in full precision; \
                   throughput over that of full precision.";
    section.table(caption, &headings, rows.collect());
    let chart = BarChart {
        title: "throughput over full precision".to_owned(),
        y_label: "times".to_owned(),
        groups: policies.iter().map(|row| row.policy.clone()).collect(),
        bars: vec![Bars {
            name: "throughput".to_owned(),
            values: policies.iter().map(|row| Some(row.throughput)).collect(),
        }],
        arrangement: Arrangement::Grouped,
    };
    section.chart(chart.svg(), "Throughput of each policy.");
    for row in policies {
        section.figure(&["policies", &row.policy], Some(row.throughput), "times fp32");
    }
    section
}
