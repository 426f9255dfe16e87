//! Each operation of a training epoch against the time that its bytes and its arithmetic take.
//!
//! The machine is measured in the same rounds: a copy, a gather of rows with nothing done to them, and a
//! product of matrices that fit a cache. An operation's floor is the longer of its bytes at the copy's (or
//! the gather's) speed and its arithmetic at the product's. Times are those that the threads had a
//! processor for, divided by their number, so that waiting for other programs is left out; sharing memory
//! with them is not.

mod gathered;
pub(crate) mod machine;

use std::cell::RefCell;

use anyhow::{Result, ensure};
use clap::Args;
use sylvie::data::{self, ReadOptions};
use sylvie::graph::Assignment;
use sylvie::partition::{NodeOrder, build_parts};
use sylvie::random::{Coordinates, Stream};
use sylvie::tensor::{
    Attention, AttentionGrads, AttentionRows, Backend, CpuBackend, CpuMatrix, Gather as Rows, Mode,
    SumFactors,
};

use crate::rounds::median;
use machine::{Gather, Speeds, Yardsticks, processor_s};

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct OpsArguments {
    /// Graph, as `sylvie train` takes it.
    #[arg(long, default_value = "synthetic:nodes=100000,degree=50")]
    data: String,
    /// Columns of a hidden layer; a multiple of 4, the number of heads.
    #[arg(long, default_value_t = 128)]
    columns: usize,
    /// Columns of the last layer.
    #[arg(long, default_value_t = 47)]
    classes: usize,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Order of nodes: given, cluster or auto.
    #[arg(long, default_value_t = NodeOrder::Auto)]
    order: NodeOrder,
    /// Rounds of which medians are taken.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// Heads of attention.
const N_HEADS: usize = 4;

/// What an operation moves and computes.
struct Work {
    /// Bytes of rows in order, read and written.
    streamed_bytes: f64,
    /// Bytes of gathered rows, hidden ones and those of classes.
    gathered_bytes: [f64; 2],
    /// Additions and products.
    n_operations: f64,
}

/// An operation: its name, its work, and what to run.
struct Operation<'a> {
    name: &'static str,
    work: Work,
    run: Box<dyn FnMut() + 'a>,
}

/// An operation's times in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) name: &'static str,
    /// What its bytes and its arithmetic take.
    pub(crate) floor_ms: f64,
    pub(crate) time_ms: f64,
}

impl OpsArguments {
    /// What a look at a machine needs.
    pub(crate) fn overview() -> Self {
        let data = "synthetic:nodes=30000,degree=30".to_owned();
        let order = NodeOrder::Auto;
        Self { data, columns: 128, classes: 47, threads: 2, order, rounds: 3 }
    }
}

/// Measures, prints, and gives what it printed.
///
/// # Errors
/// A graph that cannot be read.
pub(crate) fn measure(arguments: &OpsArguments) -> Result<Vec<Measured>> {
    ensure!(arguments.columns.is_multiple_of(N_HEADS), "columns that {N_HEADS} heads can share");
    let dataset = data::read(&arguments.data, &ReadOptions::default())?;
    let assignment = Assignment::new(1, vec![0; dataset.n_nodes()])?;
    let assignment = arguments.order.apply(&dataset.graph, assignment);
    let part = build_parts(&dataset.graph, &assignment, None).remove(0);
    let block = part.own_block();
    println!(
        "{} nodes, {} edges, order {}, {} threads; medians of {} rounds, processor time a thread",
        part.n_local(),
        block.edges.n_edges(),
        arguments.order,
        arguments.threads,
        arguments.rounds
    );
    let backend = CpuBackend::try_new(arguments.threads)?;
    let edges = backend.upload_block(block);
    let bench = Bench::new(&backend, &edges, &part.own_ids, arguments, block.edges.n_edges());
    let gathers = [arguments.columns, arguments.classes].map(|n_cols| Gather::new(block, n_cols));
    let mut yardsticks = Yardsticks::new(&backend, gathers, arguments.threads);
    let mut operations = bench.sums();
    operations.extend(bench.gathered()?);
    operations.extend(bench.products());
    operations.extend(bench.rows());
    let names = ["attention, 4 heads", "its backward"];
    operations.extend(bench.attention(names, &bench.x, &bench.x));
    let names = ["attention, 4 heads of classes", "its backward, heads averaged"];
    operations.extend(bench.attention(names, &bench.heads, &bench.classes));
    let mut times_s = vec![Vec::new(); operations.len()];
    for round in 0..=arguments.rounds {
        yardsticks.run(round > 0);
        for (operation, times_s) in operations.iter_mut().zip(&mut times_s) {
            let before = processor_s();
            (operation.run)();
            if round > 0 {
                times_s.push((processor_s() - before) / arguments.threads as f64);
            }
        }
    }
    Ok(table(yardsticks.speeds(), operations, times_s))
}

/// Prints the operations beside what the machine can do.
fn table(speeds: Speeds, operations: Vec<Operation<'_>>, times_s: Vec<Vec<f64>>) -> Vec<Measured> {
    println!(
        "copy {:.1} GB/s read and written, gather {:.1} GB/s and of rows of classes {:.1} GB/s, product {:.1} GFLOP/s\n",
        speeds.copy / 1e9,
        speeds.gathers[0] / 1e9,
        speeds.gathers[1] / 1e9,
        speeds.product / 1e9
    );
    println!(
        "| operation | MB in order | MB gathered | GFLOP | floor, ms | measured, ms | floor / measured |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut measured = Vec::new();
    for (operation, times_s) in operations.into_iter().zip(times_s) {
        let Work { streamed_bytes, gathered_bytes, n_operations } = operation.work;
        let [hidden, classes] = gathered_bytes;
        let gathered_s = hidden / speeds.gathers[0] + classes / speeds.gathers[1];
        let memory_s = streamed_bytes / speeds.copy + gathered_s;
        let floor_s = memory_s.max(n_operations / speeds.product);
        let time_s = median(times_s);
        println!(
            "| {} | {:.0} | {:.0} | {:.2} | {:.1} | {:.1} | {:.2} |",
            operation.name,
            streamed_bytes / 1e6,
            (hidden + classes) / 1e6,
            n_operations / 1e9,
            floor_s * 1e3,
            time_s * 1e3,
            floor_s / time_s
        );
        let name = operation.name;
        measured.push(Measured { name, floor_ms: 1e3 * floor_s, time_ms: 1e3 * time_s });
    }
    measured
}

/// Matrices to run operations on.
struct Bench<'a> {
    backend: &'a CpuBackend,
    /// The same with sums over bf16 rows.
    rounding: CpuBackend,
    edges: &'a <CpuBackend as Backend>::Adjacency,
    keys: Vec<u32>,
    /// Of every node: hidden rows, rows of classes and of as many heads, factors.
    x: CpuMatrix,
    classes: CpuMatrix,
    heads: CpuMatrix,
    factors: CpuMatrix,
    square: CpuMatrix,
    narrow: CpuMatrix,
    bias: CpuMatrix,
    n_edges: usize,
}

impl<'a> Bench<'a> {
    fn new(
        backend: &'a CpuBackend,
        edges: &'a <CpuBackend as Backend>::Adjacency,
        keys: &[u32],
        arguments: &OpsArguments,
        n_edges: usize,
    ) -> Self {
        let (n, columns, classes) = (keys.len(), arguments.columns, arguments.classes);
        let filled = |n_rows: usize, n_cols: usize| {
            let values = (0..n_rows * n_cols).map(|at| (at * 7919 % 1000) as f32 / 500.0 - 1.0);
            backend.upload(n_rows, n_cols, &values.collect::<Vec<f32>>())
        };
        let rounding = backend.gathering(Rows::Bf16).unwrap_or_else(|| backend.clone());
        Self {
            backend,
            rounding,
            edges,
            keys: keys.to_vec(),
            x: filled(n, columns),
            classes: filled(n, classes),
            heads: filled(n, N_HEADS * classes),
            factors: filled(n, 1),
            square: filled(columns, columns),
            narrow: filled(columns, classes),
            bias: filled(1, columns),
            n_edges,
        }
    }

    /// Bytes of `n_matrices` matrices as large as `x`.
    fn bytes(x: &CpuMatrix, n_matrices: usize) -> f64 {
        (n_matrices * x.values().len() * 4) as f64
    }

    /// Work of a sum over all edges of rows of `x`.
    fn sum(&self, x: &CpuMatrix) -> Work {
        let gathered = (self.n_edges * x.n_cols()) as f64;
        let index_bytes = (self.n_edges * 4) as f64;
        let is_hidden = x.n_cols() != self.classes.n_cols();
        Work {
            streamed_bytes: Self::bytes(x, 1) + index_bytes,
            gathered_bytes: if is_hidden { [4.0 * gathered, 0.0] } else { [0.0, 4.0 * gathered] },
            n_operations: 2.0 * gathered,
        }
    }

    /// Work on rows in order: `n_matrices` as large as the hidden rows.
    fn pass(&self, n_matrices: usize) -> Work {
        Work {
            streamed_bytes: Self::bytes(&self.x, n_matrices),
            gathered_bytes: [0.0; 2],
            n_operations: 0.0,
        }
    }

    fn sums(&self) -> Vec<Operation<'_>> {
        let Self { backend, edges, .. } = self;
        let factors = SumFactors {
            column: Some(&self.factors),
            own: Some(&self.factors),
            row: Some(&self.factors),
        };
        let back = SumFactors { row: None, ..factors };
        let plain = SumFactors { column: None, own: None, row: Some(&self.factors) };
        let n = self.keys.len();
        vec![
            operation("sum over neighbours, GCN", self.sum(&self.x), move || {
                backend.aggregated(edges, factors, &self.x, n);
            }),
            operation("sum over neighbours, SAGE", self.sum(&self.x), move || {
                backend.aggregated(edges, plain, &self.x, n);
            }),
            operation("its backward, GCN", self.sum(&self.x), move || {
                backend.aggregated_transposed(edges, back, &self.x, n);
            }),
            operation("sum over neighbours of classes", self.sum(&self.classes), move || {
                backend.aggregated(edges, factors, &self.classes, n);
            }),
        ]
    }

    /// Work of a product of `m x k` and `k x n`, or of those dimensions in another order.
    fn product(m: usize, k: usize, n: usize) -> Work {
        let bytes = 4 * (m * k + k * n + m * n);
        Work {
            streamed_bytes: bytes as f64,
            gathered_bytes: [0.0; 2],
            n_operations: 2.0 * (m * k) as f64 * n as f64,
        }
    }

    fn products(&self) -> Vec<Operation<'_>> {
        let Self { backend, x, .. } = self;
        let (n, columns, classes) = (x.n_rows(), x.n_cols(), self.classes.n_cols());
        vec![
            operation("rows times weights, with bias", Self::product(n, columns, columns), {
                let mut y = backend.zeros(n, columns);
                move || backend.matmul_bias(x, &self.square, Mode::Assign, &self.bias, &mut y)
            }),
            operation("rows times weights of classes", Self::product(n, columns, classes), {
                let mut y = backend.zeros(n, classes);
                move || backend.matmul(x, &self.narrow, Mode::Assign, &mut y)
            }),
            operation("gradient times weights", Self::product(n, columns, columns), move || {
                backend.matmul_nt_scaled(x, &self.square, &self.factors);
            }),
            operation("gradient of weights", Self::product(columns, n, columns), {
                let mut dw = backend.zeros(columns, columns);
                move || backend.matmul_tn(x, x, Mode::Assign, &mut dw)
            }),
        ]
    }

    fn rows(&self) -> Vec<Operation<'_>> {
        let Self { backend, x, bias, .. } = self;
        let draws = Coordinates::new(1, Stream::Dropout).family();
        let columns = x.n_cols();
        let y = RefCell::new(backend.copy(x));
        let saved = RefCell::new(backend.layer_norm(bias, bias, &mut y.borrow_mut()));
        let mut dy = backend.copy(x);
        let forward = move |y: &mut CpuMatrix| backend.layer_norm_relu(bias, bias, y);
        let (mut dgain, mut doffset) = (backend.zeros(1, columns), backend.zeros(1, columns));
        let saved_norm = saved.into_inner();
        vec![
            operation("dropout, a copy", self.pass(2), move || {
                backend.dropped(0.5, draws, &self.keys, x);
            }),
            operation("LayerNorm and ReLU", self.pass(3), move || {
                forward(&mut y.borrow_mut());
            }),
            operation("their backward", self.pass(3), move || {
                let saved = (&saved_norm.0, &saved_norm.1);
                let grads = (&mut dgain, &mut doffset);
                backend.layer_norm_relu_backward((bias, bias), saved, &mut dy, grads);
            }),
        ]
    }

    /// Attention over rows `x` of all heads, and its backward from `dy`, which may be what heads share.
    fn attention<'b>(
        &'b self,
        [name, backward]: [&'static str; 2],
        x: &'b CpuMatrix,
        dy: &'b CpuMatrix,
    ) -> Vec<Operation<'b>> {
        let Self { backend, edges, .. } = self;
        let n = x.n_rows();
        let weights = backend.upload(N_HEADS, x.n_cols() / N_HEADS, &x.values()[..x.n_cols()]);
        let source = backend.attention_scores(x, &weights);
        let mut state = backend.attention_begin(x, &source, &source);
        backend.attention_add_block(edges, x, &source, &source, &mut state);
        backend.attention_finish(&mut state);
        let Attention { max: log_sum, values, .. } = state;
        let dot = backend.head_dots(dy, &values, N_HEADS);
        let scores = backend.copy(&source);
        let mut dvalues = backend.zeros(n, x.n_cols());
        let (mut dsource, mut dtarget) = (backend.zeros(n, N_HEADS), backend.zeros(n, N_HEADS));
        let forward = self.sum(x);
        let back = Work {
            streamed_bytes: forward.streamed_bytes,
            n_operations: 2.0 * forward.n_operations,
            ..self.sum(dy)
        };
        vec![
            operation(name, forward, move || {
                let mut state = backend.attention_begin(x, &source, &source);
                backend.attention_add_block(edges, x, &source, &source, &mut state);
                backend.attention_finish(&mut state);
            }),
            operation(backward, back, move || {
                let rows = AttentionRows { log_sum: &log_sum, dot: &dot, dy };
                let grads = AttentionGrads {
                    values: &mut dvalues,
                    source: &mut dsource,
                    target: &mut dtarget,
                };
                backend.attention_block_backward(edges, x, &scores, &scores, rows, grads);
            }),
        ]
    }
}

fn operation<'a>(name: &'static str, work: Work, run: impl FnMut() + 'a) -> Operation<'a> {
    Operation { name, work, run: Box::new(run) }
}
