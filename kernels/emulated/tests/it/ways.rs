//! Ways to run a kernel that must make no difference, and what results are compared by.

use sylvie_kernels::{ACCEPTED, Kernel, Refusal, refusal};
use sylvie_kernels_emulated::{Argument, Buffer, LaunchError, Order, launch_grid};

/// An order of lanes and blocks, and a grid: the kernel's own, or a single block for all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    order: Order,
    n_blocks: Option<u32>,
}

const WAYS: [Way; 4] = [
    Way { order: Order::Forward, n_blocks: None },
    Way { order: Order::Backward, n_blocks: Some(1) },
    Way { order: Order::Shuffled(7), n_blocks: Some(2) },
    Way { order: Order::Shuffled(12_345), n_blocks: None },
];

impl Way {
    /// Launches a kernel, which must find nothing wrong.
    #[track_caller]
    pub(crate) fn run(self, kernel: &Kernel, shape: (usize, usize), arguments: &[Argument]) {
        self.try_run(kernel, shape, arguments).unwrap_or_else(|e| panic!("{self:?}: {e}"));
    }

    /// Launches a kernel.
    pub(crate) fn try_run(
        self,
        kernel: &Kernel,
        (n_rows, width): (usize, usize),
        arguments: &[Argument],
    ) -> Result<(), LaunchError> {
        let Some(mut grid) = kernel.launch(n_rows as u64, width as u64) else { return Ok(()) };
        grid.grid[0] = self.n_blocks.unwrap_or(grid.grid[0]);
        launch_grid(kernel, grid, arguments, self.order)
    }
}

/// Calls `check` for every way.
pub(crate) fn every_way(check: impl Fn(Way)) {
    WAYS.into_iter().for_each(check);
}

/// A way that takes turns with the others, for checks that run many times.
pub(crate) fn way(turn: usize) -> Way {
    WAYS[turn % WAYS.len()]
}

/// Widths around the places where lanes, vectors and tiles end.
pub(crate) const WIDTHS: [usize; 14] = [1, 2, 3, 4, 5, 8, 15, 16, 17, 41, 64, 100, 132, 260];

/// Numbers in [-1, 1), by a seed.
pub(crate) fn numbers(seed: u64, n: usize) -> Vec<f32> {
    words(seed, n).into_iter().map(|word| (word >> 8) as f32 / 8_388_608.0 - 1.0).collect()
}

/// Random bits, by a seed.
pub(crate) fn words(seed: u64, n: usize) -> Vec<u32> {
    let coordinates = sylvie_random::Coordinates::new(seed, sylvie_random::Stream::Generator);
    let mut sequence = sylvie_random::Sequence::new(coordinates.family(), 0);
    (0..n).map(|_| sequence.next_u32()).collect()
}

/// A list of `n` distinct rows below `n_rows`, in no order.
pub(crate) fn some_rows(seed: u64, n: usize, n_rows: usize) -> Vec<u32> {
    let mut rows: Vec<u32> = (0..n_rows as u32).collect();
    let coordinates = sylvie_random::Coordinates::new(seed, sylvie_random::Stream::Sampling);
    sylvie_random::Sequence::new(coordinates.family(), 1).shuffle(&mut rows);
    rows.truncate(n);
    rows
}

pub(crate) fn u32_of(n: usize) -> Argument {
    Argument::U32(u32::try_from(n).expect("small shapes"))
}

/// A status word, and what it says afterwards.
pub(crate) struct Status(Buffer);

impl Status {
    pub(crate) fn new() -> Self {
        Self(Buffer::from_values(&[ACCEPTED]))
    }
    pub(crate) fn argument(&self) -> Argument {
        Argument::from(&self.0)
    }
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        refusal(self.0.values::<u64>()[0])
    }
}

/// Holds two lists of floats to the same bits, any NaN for any other.
#[track_caller]
pub(crate) fn assert_same_bits(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: number of values");
    for (place, (a, b)) in found.iter().zip(expected).enumerate() {
        let same = a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        assert!(same, "{what}, value {place}: {a:e} instead of {b:e}");
    }
}

/// Holds values to 1e-5 of the larger of a value and `scale`, the size of what was summed for it.
#[track_caller]
pub(crate) fn assert_close(found: &[f32], expected: &[f64], scale: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: number of values");
    for (place, (&a, &b)) in found.iter().zip(expected).enumerate() {
        let a = f64::from(a);
        let is_close = a == b || (a - b).abs() <= 1e-5 * b.abs().max(scale);
        assert!(is_close, "{what}, value {place}: {a:e} instead of {b:e}");
    }
}

/// The same of single-precision references.
#[track_caller]
pub(crate) fn assert_near(found: &[f32], expected: &[f32], scale: f64, what: &str) {
    let expected: Vec<f64> = expected.iter().map(|&v| f64::from(v)).collect();
    assert_close(found, &expected, scale, what);
}
