//! Attention over edges, as the CPU backend.

use sylvie_kernels::{
    ATTENTION_ADD_BLOCK, ATTENTION_BEGIN, ATTENTION_COLUMNS_BACKWARD, ATTENTION_FINISH,
    ATTENTION_ROWS_BACKWARD, ATTENTION_SELF_BACKWARD,
};
use sylvie_kernels_emulated::{Argument, Buffer};
use sylvie_tensor::{AttentionGrads, AttentionRows, Backend as _, CpuBackend, CpuMatrix};

use crate::sparse::{DeviceBlock, device_block};
use crate::ways::{Way, assert_near, every_way, numbers, u32_of, way};

/// Rows, columns of a block, heads and their width.
#[derive(Clone, Copy)]
struct Shape {
    n_local: usize,
    n_columns: usize,
    n_heads: usize,
    width: usize,
}

impl Shape {
    fn arguments(self, n_rows: usize) -> [Argument; 3] {
        [u32_of(n_rows), u32_of(self.n_heads), u32_of(self.width)]
    }
    fn items(self, n_rows: usize) -> (usize, usize) {
        (n_rows * self.n_heads, self.width)
    }
}

/// Scores of which some take no part, and some are large.
fn scores(seed: u64, n_rows: usize, n_heads: usize) -> Vec<f32> {
    let mut scores = numbers(seed, n_rows * n_heads);
    for (place, score) in scores.iter_mut().enumerate() {
        *score = match place % 11 {
            3 => f32::NEG_INFINITY,
            5 => *score * 60.0,
            _ => *score * 3.0,
        };
    }
    scores
}

/// Own rows and those of a block, each with values and source scores; the rows' target scores and their gradients.
struct Inputs {
    own: (Vec<f32>, Vec<f32>),
    block: (Vec<f32>, Vec<f32>),
    target: Vec<f32>,
    dy: Vec<f32>,
}

fn inputs(shape: Shape) -> Inputs {
    let Shape { n_local, n_columns, n_heads, width } = shape;
    // What takes no part may hold anything.
    let values = |seed, n_rows: usize, sources: &[f32]| {
        let mut values = numbers(seed, n_rows * n_heads * width);
        for (head, source) in values.chunks_exact_mut(width).zip(sources) {
            if *source == f32::NEG_INFINITY {
                head.fill(f32::NAN);
            }
        }
        values
    };
    let (own_source, source) = (scores(1, n_local, n_heads), scores(2, n_columns, n_heads));
    let target: Vec<f32> = numbers(5, n_local * n_heads).iter().map(|v| 2.0 * v).collect();
    Inputs {
        own: (values(3, n_local, &own_source), own_source),
        block: (values(4, n_columns, &source), source),
        target,
        dy: numbers(6, n_local * n_heads * width),
    }
}

/// The CPU backend's results: log of sums, means, and gradients of the own part and of the block.
struct Expected {
    log_sum: CpuMatrix,
    means: CpuMatrix,
    dot: CpuMatrix,
    own: [CpuMatrix; 3],
    block: [CpuMatrix; 3],
}

fn expected(shape: Shape, device: &DeviceBlock, inputs: &Inputs) -> Expected {
    let Shape { n_local, n_columns, n_heads, width } = shape;
    let cpu = CpuBackend::new(1);
    let matrix = |n_rows, n_cols, values: &[f32]| cpu.upload(n_rows, n_cols, values);
    let own = matrix(n_local, n_heads * width, &inputs.own.0);
    let own_source = matrix(n_local, n_heads, &inputs.own.1);
    let block = matrix(n_columns, n_heads * width, &inputs.block.0);
    let source = matrix(n_columns, n_heads, &inputs.block.1);
    let target = matrix(n_local, n_heads, &inputs.target);
    let dy = matrix(n_local, n_heads * width, &inputs.dy);
    let adjacency = cpu.upload_block(&device.block);
    let mut state = cpu.attention_begin(&own, &own_source, &target);
    cpu.attention_add_block(&adjacency, &block, &source, &target, &mut state);
    cpu.attention_finish(&mut state);
    let dot = cpu.head_dots(&dy, &state.values, n_heads);
    let zeros = |n_rows| {
        [
            cpu.zeros(n_rows, n_heads * width),
            cpu.zeros(n_rows, n_heads),
            cpu.zeros(n_local, n_heads),
        ]
    };
    let rows = AttentionRows { log_sum: &state.max, dot: &dot, dy: &dy };
    let mut own_grads = zeros(n_local);
    let [values, own_dsource, own_dtarget] = &mut own_grads;
    let grads = AttentionGrads { values, source: own_dsource, target: own_dtarget };
    cpu.attention_self_backward(&own, &own_source, &target, rows, grads);
    let mut block_grads = zeros(n_columns);
    let [values, dsource, dtarget] = &mut block_grads;
    let grads = AttentionGrads { values, source: dsource, target: dtarget };
    cpu.attention_block_backward(&adjacency, &block, &source, &target, rows, grads);
    Expected { log_sum: state.max, means: state.values, dot, own: own_grads, block: block_grads }
}

fn zeros(n: usize) -> Buffer {
    Buffer::from_values(&vec![0.0_f32; n])
}

fn check(way: Way, shape: Shape, offset: usize) {
    let Shape { n_local, n_columns, n_heads, width } = shape;
    let device = device_block(7, n_local, n_columns, 4);
    let inputs = inputs(shape);
    let expected = expected(shape, &device, &inputs);
    let (own, own_source) =
        (Buffer::at_offset(&inputs.own.0, offset), Buffer::from_values(&inputs.own.1));
    let (block, source) =
        (Buffer::at_offset(&inputs.block.0, offset), Buffer::from_values(&inputs.block.1));
    let target = Buffer::from_values(&inputs.target);
    let [max, sum] = [(); 2].map(|()| Buffer::new(4 * n_local * n_heads, 0));
    let sums = Buffer::new(4 * n_local * n_heads * width, 0);
    let n_positions = device.block.rows.len();

    let pointers = [&own, &own_source, &target, &max, &sum, &sums].map(Argument::from);
    way.run(
        &ATTENTION_BEGIN,
        shape.items(n_local),
        &[&pointers[..], &shape.arguments(n_local)].concat(),
    );
    let lists = [&device.indptr, &device.columns, &device.rows].map(Argument::from);
    let pointers = [&block, &source, &target, &max, &sum, &sums].map(Argument::from);
    let arguments = [&lists[..], &pointers, &shape.arguments(n_positions)].concat();
    way.run(&ATTENTION_ADD_BLOCK, shape.items(n_positions), &arguments);
    let pointers = [&max, &sum, &sums].map(Argument::from);
    way.run(
        &ATTENTION_FINISH,
        shape.items(n_local),
        &[&pointers[..], &shape.arguments(n_local)].concat(),
    );
    assert_near(&max.values(), expected.log_sum.values(), 1.0, "logs of sums");
    assert_near(&sums.values(), expected.means.values(), 1.0, "means");

    let (log_sum, dot) = (
        Buffer::from_values(expected.log_sum.values()),
        Buffer::from_values(expected.dot.values()),
    );
    let dy = Buffer::from_values(&inputs.dy);
    let rows = [&log_sum, &dot, &dy].map(Argument::from);
    let scale = width as f64;
    let [dvalues, dsource, dtarget] =
        [n_local * n_heads * width, n_local * n_heads, n_local * n_heads].map(zeros);
    let columns = [&own, &own_source, &target].map(Argument::from);
    let grads = [&dvalues, &dsource, &dtarget].map(Argument::from);
    let arguments = [&columns[..], &rows, &grads, &shape.arguments(n_local)].concat();
    way.run(&ATTENTION_SELF_BACKWARD, shape.items(n_local), &arguments);
    for (found, expected) in [dvalues, dsource, dtarget].iter().zip(&expected.own) {
        assert_near(&found.values(), expected.values(), scale, "gradients of own rows");
    }

    let [dvalues, dsource, dtarget] =
        [n_columns * n_heads * width, n_columns * n_heads, n_local * n_heads].map(zeros);
    let dscores = Buffer::new(4 * device.n_edges * n_heads, 0);
    let lists = [&device.column_indptr, &device.readers].map(Argument::from);
    let columns = [&block, &source, &target].map(Argument::from);
    let grads = [&dvalues, &dsource, &dscores].map(Argument::from);
    let arguments = [&lists[..], &columns, &rows, &grads, &shape.arguments(n_columns)].concat();
    way.run(&ATTENTION_COLUMNS_BACKWARD, shape.items(n_columns), &arguments);
    let pointers =
        [&device.indptr, &device.to_columns, &device.rows, &dscores, &dtarget].map(Argument::from);
    let arguments = [&pointers[..], &[u32_of(n_positions), u32_of(n_heads)]].concat();
    way.run(&ATTENTION_ROWS_BACKWARD, (n_positions, n_heads), &arguments);
    for (found, expected) in [dvalues, dsource, dtarget].iter().zip(&expected.block) {
        assert_near(&found.values(), expected.values(), scale, "gradients of a block");
    }
}

#[test]
fn heads_of_every_width() {
    for (turn, width) in [1, 3, 4, 7, 8, 16, 33, 64, 128, 131].into_iter().enumerate() {
        for n_heads in [1, 3] {
            check(way(turn), Shape { n_local: 14, n_columns: 19, n_heads, width }, 4 * (turn % 2));
        }
    }
}

#[test]
fn every_order_and_grid() {
    every_way(|way| check(way, Shape { n_local: 21, n_columns: 40, n_heads: 2, width: 8 }, 0));
}
