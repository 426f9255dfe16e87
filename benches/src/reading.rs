//! How fast data sets are read from a warm cache, against the bytes alone.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Args;
use sylvie::data::{Format, ReadOptions, read, write};

use crate::rounds::median;

#[derive(Debug, Args)]
pub(crate) struct ReadingArguments {
    /// Rounds, of which medians are taken.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// A tenth of the size.
    #[arg(long)]
    quick: bool,
}

/// A generated set, and what of it is counted.
struct Case {
    name: &'static str,
    source: String,
    format: Format,
    /// The file whose bytes alone are the yardstick.
    file: &'static str,
    /// Edges where they are what takes time; else the file's bytes count.
    counts_edges: bool,
}

fn cases(scale: u32) -> [Case; 3] {
    let wide = format!("synthetic:nodes={},degree=1,features=512,classes=2", 20_000 * scale);
    let dense = format!("synthetic:nodes={},degree=50,features=1,classes=2", 40_000 * scale);
    [
        Case {
            name: "features of 512 columns in npy",
            source: wide,
            format: Format::Arrays,
            file: "feat.npy",
            counts_edges: false,
        },
        Case {
            name: "edges in an npz of scipy",
            source: dense.clone(),
            format: Format::GraphSaint,
            file: "adj_full.npz",
            counts_edges: true,
        },
        Case {
            name: "edges in a gzipped csv",
            source: dense,
            format: Format::Ogb,
            file: "raw/edge.csv.gz",
            counts_edges: true,
        },
    ]
}

/// Writes each set, reads it in rounds, and prints medians.
///
/// # Errors
/// No room for the files, or a system that does not tell a process's time.
pub(crate) fn measure(arguments: &ReadingArguments) -> Result<()> {
    let scratch = std::env::temp_dir().join(format!("sylvie-reading-{}", std::process::id()));
    let outcome = measure_in(&scratch, arguments);
    fs::remove_dir_all(&scratch).context("the files that were read")?;
    outcome
}

fn measure_in(scratch: &Path, arguments: &ReadingArguments) -> Result<()> {
    println!("whole sets: files to a cleaned and checked graph, by all threads; medians");
    for (index, case) in cases(if arguments.quick { 2 } else { 20 }).into_iter().enumerate() {
        let folder = scratch.join(index.to_string());
        let dataset = read(&case.source, &ReadOptions::default())?;
        write(&dataset, case.format, &folder)?;
        let n_stored = dataset.graph.n_edges() / if case.format == Format::Ogb { 2 } else { 1 };
        drop(dataset);
        let (mut bytes_s, mut cpu_s, mut wall_s) = (Vec::new(), Vec::new(), Vec::new());
        let path = folder.to_str().context("a scratch folder in UTF-8")?;
        let mut n_bytes = 0;
        for _ in 0..arguments.rounds.max(1) {
            let start = Instant::now();
            n_bytes = read_bytes(&folder.join(case.file))?;
            bytes_s.push(start.elapsed().as_secs_f64());
            let (start, before) = (Instant::now(), process_s()?);
            read(path, &ReadOptions::default())?;
            cpu_s.push(process_s()? - before);
            wall_s.push(start.elapsed().as_secs_f64());
        }
        let [bytes_s, cpu_s, wall_s] = [bytes_s, cpu_s, wall_s].map(median);
        let (count, unit) = match case.counts_edges {
            true => (n_stored as f64 / 1e6, "M stored edges"),
            false => (n_bytes as f64 / 1e9, "GB"),
        };
        println!(
            "{}: {count:.2} {unit}; CPU {cpu_s:.2} s, {:.2} {unit}/s of CPU; wall {wall_s:.2} s, {:.2} {unit}/s; \
             the file's {:.0} MB alone {bytes_s:.2} s",
            case.name,
            count / cpu_s.max(0.01),
            count / wall_s.max(0.01),
            n_bytes as f64 / 1e6,
        );
    }
    Ok(())
}

fn read_bytes(path: &Path) -> Result<usize> {
    let mut file = File::open(path)?;
    let (mut piece, mut n_bytes) = (vec![0; 1 << 18], 0);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(n_bytes),
            n_read => n_bytes += n_read,
        }
    }
}

/// User and system time of this process in seconds, to a hundredth.
fn process_s() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat").context("this system's /proc/self/stat")?;
    // The name of the program, in parentheses, may hold blanks.
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<f64>().ok());
    let total = ticks(11).zip(ticks(12)).context("times in /proc/self/stat")?;
    Ok((total.0 + total.1) / 100.0)
}
