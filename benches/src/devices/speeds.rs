//! How fast the device copies and multiplies, and each operation against that.

use std::time::Instant;

use anyhow::Result;
use serde_json::json;
use sylvie::cuda::{CudaBackend, Staged};
use sylvie::graph::{Block, Csr};
use sylvie::lowbit::{RowCodec, Width};
use sylvie::random::{Coordinates, Family, Stream};
use sylvie::tensor::{AdamStep, Backend, Mode, Wire};

use super::Finding;

/// Edges that a row reads in the sums measured.
const DEGREE: usize = 16;

struct Speeds<'a> {
    backend: &'a CudaBackend<Staged>,
    n_rounds: usize,
    /// Bytes a second of a copy on the device, once it is known.
    copied: f64,
    findings: Vec<Finding>,
}

impl Speeds<'_> {
    /// Seconds that one round takes: the median of three series.
    fn time(&self, mut run: impl FnMut()) -> Result<f64> {
        let device = self.backend.device();
        run();
        let mut series = Vec::new();
        for _ in 0..3 {
            device.synchronize()?;
            let start = Instant::now();
            (0..self.n_rounds).for_each(|_| run());
            device.synchronize()?;
            series.push(start.elapsed().as_secs_f64() / self.n_rounds as f64);
        }
        series.sort_by(f64::total_cmp);
        Ok(series[1])
    }

    /// Notes an operation that must move at least so many bytes.
    fn note(&mut self, name: &str, n_bytes: usize, run: impl FnMut()) -> Result<()> {
        let seconds = self.time(run)?;
        let rate = n_bytes as f64 / seconds;
        let share = rate / self.copied;
        let text = format!(
            "{:>9.1} us, {:>7.1} GB/s, {:>4.0} % of a copy",
            seconds * 1e6,
            rate / 1e9,
            share * 100.0
        );
        let value = json!({ "seconds": seconds, "bytes": n_bytes, "share_of_copy": share });
        self.findings.push(Finding::new(format!("speed: {name}"), true, text, value));
        Ok(())
    }
}

/// Copies, products, and the operations of training.
///
/// # Errors
/// What the device says.
pub(crate) fn measure(backend: &CudaBackend<Staged>, is_small: bool) -> Result<Vec<Finding>> {
    let n_rounds = if is_small { 1 } else { 20 };
    let mut speeds = Speeds { backend, n_rounds, copied: f64::NAN, findings: Vec::new() };
    copies_and_products(&mut speeds, is_small)?;
    let (n_rows, n_cols) = if is_small { (300, 64) } else { (200_000, 256) };
    by_rows(&mut speeds, n_rows, n_cols)?;
    over_edges(&mut speeds, n_rows, n_cols)?;
    coded(&mut speeds, n_rows, n_cols)?;
    Ok(speeds.findings)
}

fn copies_and_products(speeds: &mut Speeds<'_>, is_small: bool) -> Result<()> {
    let backend = speeds.backend;
    let device = backend.device();
    let n_bytes: usize = if is_small { 1 << 20 } else { 1 << 28 };
    let host = vec![1_u8; n_bytes];
    let from = device.upload(&host)?;
    let mut to = device.allocate(n_bytes)?;
    let seconds = speeds.time(|| device.copy(&from, n_bytes, &mut to).expect("a copy"))?;
    speeds.copied = 2.0 * n_bytes as f64 / seconds;
    let text = format!("{:.1} GB/s read and written", speeds.copied / 1e9);
    speeds.findings.push(Finding::new(
        "speed: copy on the device",
        true,
        text,
        json!(speeds.copied),
    ));
    let mut back = vec![0_u8; n_bytes];
    let up = speeds.time(|| device.write(&host, &mut to).expect("a copy"))?;
    let down = speeds.time(|| device.read(&to, &mut back).expect("a copy"))?;
    for (name, seconds) in [("host to device", up), ("device to host", down)] {
        let rate = n_bytes as f64 / seconds;
        let text = format!("{:.1} GB/s", rate / 1e9);
        speeds.findings.push(Finding::new(
            format!("speed: {name}, staged"),
            true,
            text,
            json!(rate),
        ));
    }
    let n = if is_small { 64 } else { 8192 };
    let a = backend.zeros(n, n);
    let mut out = backend.zeros(n, n);
    let seconds = speeds.time(|| backend.matmul(&a, &a, Mode::Assign, &mut out))?;
    let flops = 2.0 * (n as f64).powi(3) / seconds;
    let text = format!("{:.1} TFLOP/s, {n} x {n} x {n}", flops / 1e12);
    speeds.findings.push(Finding::new("speed: product in f32", true, text, json!(flops)));
    // What a layer multiplies: many rows, few columns.
    let (rows, width) = if is_small { (300, 32) } else { (200_000, 256) };
    let (x, w) = (backend.zeros(rows, width), backend.zeros(width, width));
    let mut out = backend.zeros(rows, width);
    let seconds = speeds.time(|| backend.matmul(&x, &w, Mode::Assign, &mut out))?;
    let share = 2.0 * rows as f64 * (width as f64).powi(2) / seconds / flops;
    let text = format!("{:.1} us, {:.0} % of that rate", seconds * 1e6, share * 100.0);
    speeds.findings.push(Finding::new("speed: product of a layer", true, text, json!(seconds)));
    Ok(())
}

fn by_rows(speeds: &mut Speeds<'_>, n_rows: usize, n_cols: usize) -> Result<()> {
    let backend = speeds.backend;
    let size = n_rows * n_cols * size_of::<f32>();
    let values: Vec<f32> = (0..n_rows * n_cols).map(|i| (i % 1009) as f32 / 500.0 - 1.0).collect();
    let y = backend.upload(n_rows, n_cols, &values);
    let mut x = backend.upload(n_rows, n_cols, &values);
    let factors = backend.upload(n_rows, 1, &vec![1.0; n_rows]);
    let (mut gain, mut offset) =
        (backend.upload(1, n_cols, &vec![1.0; n_cols]), backend.zeros(1, n_cols));
    let keys = backend.upload_index(&(0..n_rows as u32).collect::<Vec<_>>());
    speeds.note("scale_rows", 2 * size, || backend.scale_rows(&factors, &mut x))?;
    speeds.note("add_scaled_rows", 3 * size, || backend.add_scaled_rows(&y, &factors, &mut x))?;
    speeds.note("smooth", 3 * size, || backend.smooth(0.9, &y, &mut x))?;
    speeds.note("column_sums", size, || backend.column_sums(&y, Mode::Assign, &mut offset))?;
    speeds.note("relu", 2 * size, || backend.relu(&mut x))?;
    speeds.note("dropout", 2 * size, || {
        backend.dropout(0.5, family(Stream::Dropout), &keys, &mut x)
    })?;
    let mut saved = backend.layer_norm(&gain, &offset, &mut x);
    // Reads the rows once, writes them and the normalised ones.
    speeds.note("layer_norm", 3 * size, || saved = backend.layer_norm(&gain, &offset, &mut x))?;
    let kept = backend.copy(&gain);
    speeds.note("layer_norm_backward", 5 * size, || {
        let saved = (&saved.0, &saved.1);
        backend.layer_norm_backward(&kept, saved, &mut x, &mut gain, &mut offset);
    })?;
    let (mut first, mut second) = (backend.zeros(n_rows, n_cols), backend.zeros(n_rows, n_cols));
    let step = AdamStep {
        learning_rate: 0.01,
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-8,
        weight_decay: 0.0,
        step: 1,
    };
    speeds.note("adam", 7 * size, || backend.adam(&step, &y, (&mut first, &mut second), &mut x))
}

fn over_edges(speeds: &mut Speeds<'_>, n_rows: usize, n_cols: usize) -> Result<()> {
    let backend = speeds.backend;
    let pairs: Vec<(u32, u32)> = (0..n_rows)
        .flat_map(|row| {
            (0..DEGREE).map(move |i| (row as u32, ((row * 7919 + i * 104_729) % n_rows) as u32))
        })
        .collect();
    let block = Block {
        owner: 0,
        column_ids: (0..n_rows as u32).collect(),
        column_degrees: vec![0; n_rows],
        rows: (0..n_rows as u32).collect(),
        edges: Csr::from_pairs(n_rows, n_rows, &pairs)?,
    };
    let adjacency = backend.upload_block(&block);
    let row_bytes = n_cols * size_of::<f32>();
    let moved = block.edges.n_edges() * (row_bytes + 4) + 2 * n_rows * row_bytes;
    let x = backend.zeros(n_rows, n_cols);
    let mut out = backend.zeros(n_rows, n_cols);
    speeds.note("aggregate", moved, || backend.aggregate(&adjacency, None, &x, &mut out))?;
    speeds.note("aggregate_transposed", moved, || {
        backend.aggregate_transposed(&adjacency, None, &x, &mut out);
    })?;
    let n_heads = 4;
    let scores = backend.zeros(n_rows, n_heads);
    let mut state = backend.attention_begin(&x, &scores, &scores);
    speeds.note("attention_add_block", moved, || {
        backend.attention_add_block(&adjacency, &x, &scores, &scores, &mut state);
    })
}

fn coded(speeds: &mut Speeds<'_>, n_rows: usize, n_cols: usize) -> Result<()> {
    let backend = speeds.backend;
    let values: Vec<f32> = (0..n_rows * n_cols).map(|i| (i % 1009) as f32 / 500.0 - 1.0).collect();
    let x = backend.upload(n_rows, n_cols, &values);
    let keys = backend.upload_index(&(0..n_rows as u32).collect::<Vec<_>>());
    let mut out = backend.zeros(n_rows, n_cols);
    for width in [Width::One, Width::Four, Width::F16, Width::F32] {
        let codec = RowCodec::new(width);
        let n_bytes = 4 * n_rows * n_cols + codec.message_bytes(n_rows, n_cols);
        let mut message = Some(backend.bytes_from_host(Vec::new()));
        speeds.note(&format!("encode at {width}, to the host"), n_bytes, || {
            let spare = message.take().expect("given back each time");
            let encoded =
                backend.encode_all_rows(codec, &x, &keys, family(Stream::Rounding), spare);
            message = Some(encoded.expect("finite rows"));
        })?;
        let message = message.expect("given back");
        speeds.note(&format!("decode at {width}, from the host"), n_bytes, || {
            backend.decode_rows(codec, &message, &mut out).expect("a message");
        })?;
    }
    Ok(())
}

fn family(stream: Stream) -> Family {
    Coordinates::new(1, stream).family()
}
