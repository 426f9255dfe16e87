//! What the machine can do: copies, gathers and products.
// Asking for memory ahead of time is a call that the language calls unsafe.
#![allow(unsafe_code)]

use std::fs;
use std::hint::black_box;
use std::thread;

use sylvie::graph::Block;
use sylvie::tensor::{Backend, CpuBackend, CpuMatrix, Mode};

use crate::rounds::median;

/// Rows and columns of the matrices whose product is measured: three of them fit a cache.
const SQUARE: usize = 256;
/// Bytes of the array that is copied.
const COPIED_BYTES: usize = 256 << 20;
/// Edges ahead of which a row is asked for.
const AHEAD: usize = 16;
/// Values of a cache line.
const LINE: usize = 16;

/// Seconds that the threads of this process have had a processor for.
pub(crate) fn processor_s() -> f64 {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ns = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    ns.sum::<f64>() / 1e9
}

/// Asks for the cache line that holds `x[at]`.
fn prefetch(x: &[f32], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint that reads nothing, wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(x.as_ptr().wrapping_add(at).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (x, at);
}

/// Rows to gather: those that a graph's edges lead to.
pub(crate) struct Gather<'a> {
    rows: &'a [u32],
    n_rows: usize,
    n_cols: usize,
}

impl<'a> Gather<'a> {
    pub(crate) fn new(block: &'a Block, n_cols: usize) -> Self {
        Self { rows: block.edges.indices(), n_rows: block.edges.n_cols(), n_cols }
    }

    /// One value of each cache line of some of the rows.
    fn run(&self, x: &[f32], range: std::ops::Range<usize>) -> f32 {
        // Rows that do not begin at a line mostly end in one more.
        let last = if self.n_cols.is_multiple_of(LINE) { 0 } else { self.n_cols - 1 };
        let mut sum = 0.0;
        for edge in range {
            if let Some(&row) = self.rows.get(edge + AHEAD) {
                let row = row as usize * self.n_cols;
                for at in (row..row + self.n_cols).step_by(LINE) {
                    prefetch(x, at);
                }
                prefetch(x, row + last);
            }
            let row = self.rows[edge] as usize * self.n_cols;
            for at in (row..row + self.n_cols).step_by(LINE) {
                sum += x[at];
            }
            sum += x[row + last];
        }
        sum
    }
}

/// Bytes and operations a second.
pub(crate) struct Speeds {
    /// Bytes read and bytes written, together.
    pub(crate) copy: f64,
    /// Bytes of gathered rows, hidden ones and those of classes.
    pub(crate) gathers: [f64; 2],
    /// Additions and products.
    pub(crate) product: f64,
}

/// The machine's own speeds, measured round after round.
pub(crate) struct Yardsticks<'a> {
    backend: &'a CpuBackend,
    gathers: [(Gather<'a>, CpuMatrix); 2],
    n_threads: usize,
    from: Vec<f32>,
    to: Vec<f32>,
    square: CpuMatrix,
    tall: CpuMatrix,
    product: CpuMatrix,
    times_s: [Vec<f64>; 4],
}

impl<'a> Yardsticks<'a> {
    pub(crate) fn new(backend: &'a CpuBackend, gathers: [Gather<'a>; 2], n_threads: usize) -> Self {
        let n = COPIED_BYTES / 4;
        // So many products of square matrices that every thread has several.
        let n_tall = 64 * SQUARE;
        let filled = |n_rows, n_cols| backend.upload(n_rows, n_cols, &vec![0.5; n_rows * n_cols]);
        Self {
            backend,
            n_threads,
            from: vec![0.5; n],
            to: vec![0.0; n],
            square: filled(SQUARE, SQUARE),
            tall: filled(n_tall, SQUARE),
            product: filled(n_tall, SQUARE),
            gathers: gathers.map(|gather| {
                let x = filled(gather.n_rows, gather.n_cols);
                (gather, x)
            }),
            times_s: Default::default(),
        }
    }

    /// Runs each once; `counts` unless it is to warm up.
    pub(crate) fn run(&mut self, counts: bool) {
        let n_threads = self.n_threads;
        let step = self.from.len().div_ceil(n_threads);
        let pairs = self.to.chunks_mut(step).zip(self.from.chunks(step));
        let copies = pairs.map(|(to, from)| move || black_box(to).copy_from_slice(from));
        let copy_s = on_threads(copies);
        let [wide_s, narrow_s] = self.gathers.each_ref().map(|(gather, x)| {
            let n_edges = gather.rows.len();
            let step = n_edges.div_ceil(n_threads);
            on_threads((0..n_threads).map(|index| {
                let range = (index * step).min(n_edges)..((index + 1) * step).min(n_edges);
                move || {
                    black_box(gather.run(x.values(), range));
                }
            }))
        });
        let before = processor_s();
        self.backend.matmul(&self.tall, &self.square, Mode::Assign, &mut self.product);
        let product_s = processor_s() - before;
        if counts {
            for (all, time_s) in self.times_s.iter_mut().zip([copy_s, wide_s, narrow_s, product_s])
            {
                all.push(time_s / n_threads as f64);
            }
        }
    }

    /// The medians.
    pub(crate) fn speeds(self) -> Speeds {
        let [copy_s, wide_s, narrow_s, product_s] = self.times_s.map(median);
        let bytes = self.gathers.map(|(gather, _)| (gather.rows.len() * gather.n_cols * 4) as f64);
        let n_operations = 2.0 * (self.tall.values().len() * SQUARE) as f64;
        Speeds {
            copy: 2.0 * COPIED_BYTES as f64 / copy_s,
            gathers: [bytes[0] / wide_s, bytes[1] / narrow_s],
            product: n_operations / product_s,
        }
    }
}

/// Runs each work on a thread of its own; the seconds that they had a processor for, together.
pub(crate) fn on_threads<W: FnOnce() + Send>(works: impl Iterator<Item = W>) -> f64 {
    thread::scope(|scope| {
        let timed = |work: W| {
            let before = thread_s();
            work();
            thread_s() - before
        };
        let running: Vec<_> = works.map(|work| scope.spawn(move || timed(work))).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_default()).sum()
    })
}

/// Seconds that the calling thread has had a processor for.
fn thread_s() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok());
    ns.unwrap_or_default() / 1e9
}
