//! The codec against a copy of the same array, and against a gather-sum over the same rows.

use std::cell::RefCell;
use std::hint::black_box;

use clap::ValueEnum;
use sylvie_lowbit::{Plain, RowCodec, Width};
use sylvie_random::{Coordinates, Family, Sequence, Stream};

use crate::rounds::{Subject, medians_s};

/// What is measured.
pub(crate) struct Plan {
    pub(crate) n_cols: Vec<usize>,
    pub(crate) widths: Vec<Width>,
    pub(crate) operations: Vec<Operation>,
    /// Size of the array of rows: several times the last cache, and large enough for a copy to go past
    /// the caches, which the C library does from some size on.
    pub(crate) n_bytes: usize,
    n_rounds: usize,
}

/// What is done with rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Operation {
    /// All rows, in order.
    Encode,
    /// All rows, in shuffled order.
    Gather,
    /// Into memory that is larger than the caches.
    Decode,
    /// The same, past the caches.
    Stream,
    /// Added to rows, in order.
    Add,
    /// Added to rows in shuffled order.
    Scatter,
    /// Encoding at one bit by the plain version.
    Plain,
}

impl Plan {
    pub(crate) fn full() -> Self {
        Self {
            n_cols: vec![32, 64, 100, 128, 256, 512, 602, 1024],
            widths: vec![Width::One, Width::Two, Width::Four, Width::Eight],
            operations: Operation::value_variants().to_vec(),
            n_bytes: 256 << 20,
            n_rounds: 9,
        }
    }

    pub(crate) fn quick() -> Self {
        Self { n_cols: vec![128, 256], n_rounds: 5, ..Self::full() }
    }

    /// What a look at a machine needs: one bit, what is done to every exchanged row.
    pub(crate) fn overview() -> Self {
        let operations =
            vec![Operation::Encode, Operation::Gather, Operation::Decode, Operation::Add];
        Self { widths: vec![Width::One], operations, ..Self::quick() }
    }
}

/// How fast something is done with rows.
#[derive(Clone, Debug)]
pub(crate) struct Speed {
    pub(crate) n_cols: usize,
    pub(crate) name: String,
    /// Of f32, in GB/s.
    pub(crate) gb_per_s: f64,
    /// Over that of the yardstick.
    pub(crate) ratio: f64,
}

/// Measures, prints, and gives what it printed.
pub(crate) fn measure(plan: &Plan) -> Vec<Speed> {
    println!("one thread, {} MiB of f32, bf16 metadata;", plan.n_bytes >> 20);
    println!("GB/s of f32 and, in brackets, the ratio to the yardstick of the column:");
    println!("copy, or for what is gathered or scattered a sum over the same rows");
    let of = |&n_cols: &usize| Rows::new(plan.n_bytes / 4 / n_cols, n_cols).measure(plan);
    plan.n_cols.iter().flat_map(of).collect()
}

/// A matrix, a shuffled order of its rows, and places for results.
struct Rows {
    n_rows: usize,
    n_cols: usize,
    x: Vec<f32>,
    out: RefCell<Vec<f32>>,
    ids: Vec<u32>,
    draws: Family,
}

impl Rows {
    fn new(n_rows: usize, n_cols: usize) -> Self {
        let draws = Coordinates::new(1, Stream::Rounding).family();
        let mut sequence = Sequence::new(Coordinates::new(1, Stream::Generator).family(), 0);
        let mut ids: Vec<u32> = (0..n_rows as u32).collect();
        sequence.shuffle(&mut ids);
        // A few megabytes of random values, over and over.
        let values: Vec<f32> =
            (0..1 << 20).map(|_| (sequence.next_u32() as f32) / 2e9 - 1.0).collect();
        let x = values.iter().copied().cycle().take(n_rows * n_cols).collect();
        let out = RefCell::new(vec![0.5; n_rows * n_cols]);
        Self { n_rows, n_cols, x, out, ids, draws }
    }

    fn measure(&self, plan: &Plan) -> Vec<Speed> {
        let messages: Vec<_> =
            plan.widths.iter().map(|&width| RefCell::new(self.encoded(width))).collect();
        let mut subjects = vec![
            Subject::new("copy", || {
                self.out.borrow_mut().copy_from_slice(&self.x);
            }),
            Subject::new("fill", || {
                self.out.borrow_mut().fill(0.5);
            }),
            Subject::new("gather-sum", || {
                black_box(self.gathered_sum());
            }),
        ];
        let [copy, gather_sum] = [0, subjects.len() - 1];
        let mut yardsticks = vec![copy; subjects.len()];
        for (&width, message) in plan.widths.iter().zip(&messages) {
            for &operation in &plan.operations {
                if operation == Operation::Plain && width != Width::One {
                    continue;
                }
                subjects.push(self.subject(operation, RowCodec::new(width), message));
                let is_gathered = matches!(operation, Operation::Gather | Operation::Scatter);
                yardsticks.push(if is_gathered { gather_sum } else { copy });
            }
        }
        let times_s = medians_s(&mut subjects, plan.n_rounds);
        let n_bytes = (self.n_rows * self.n_cols * 4) as f64;
        println!("\n{} columns", self.n_cols);
        let mut speeds = Vec::new();
        for ((subject, time_s), yardstick) in subjects.iter().zip(&times_s).zip(yardsticks) {
            let (gb_per_s, ratio) = (n_bytes / time_s / 1e9, times_s[yardstick] / time_s);
            println!("  {:<30} {gb_per_s:6.2} GB/s  ({ratio:.2})", subject.name);
            speeds.push(Speed { n_cols: self.n_cols, name: subject.name.clone(), gb_per_s, ratio });
        }
        speeds
    }

    fn encoded(&self, width: Width) -> Vec<u8> {
        let codec = RowCodec::new(width);
        let mut message = vec![0; codec.message_bytes(self.n_rows, self.n_cols)];
        codec
            .encode_all(&self.x, self.n_cols, &self.ids, self.draws, &mut message)
            .expect("finite rows");
        message
    }

    fn subject<'a>(
        &'a self,
        operation: Operation,
        codec: RowCodec,
        message: &'a RefCell<Vec<u8>>,
    ) -> Subject<'a> {
        let (x, n_cols, ids, draws) = (&self.x, self.n_cols, &self.ids, self.draws);
        let name = |what: &str| format!("{} bit: {what}", codec.width);
        match operation {
            Operation::Encode => Subject::new(name("encode"), move || {
                let out = &mut message.borrow_mut();
                codec.encode_all(x, n_cols, ids, draws, out).expect("finite rows");
            }),
            Operation::Gather => Subject::new(name("gather-encode"), move || {
                let out = &mut message.borrow_mut();
                codec.encode_rows(x, n_cols, ids, ids, draws, out).expect("finite rows");
            }),
            Operation::Decode => Subject::new(name("decode"), move || {
                let (message, out) = (message.borrow(), &mut self.out.borrow_mut());
                codec.decode_rows(&message, n_cols, out).expect("just encoded");
            }),
            Operation::Stream => Subject::new(name("decode, streaming"), move || {
                let (message, out) = (message.borrow(), &mut self.out.borrow_mut());
                codec.decode_rows_streaming(&message, n_cols, out).expect("just encoded");
            }),
            Operation::Add => {
                let in_order = (0..self.n_rows as u32).collect();
                Subject::new(name("decode and add"), self.adding(codec, message, in_order))
            }
            Operation::Scatter => {
                let add = self.adding(codec, message, ids.clone());
                Subject::new(name("decode and add, shuffled"), add)
            }
            Operation::Plain => Subject::new(name("encode, plain version"), move || {
                let out = &mut message.borrow_mut();
                Plain(codec).encode_all(x, n_cols, ids, draws, out).expect("finite rows");
            }),
        }
    }

    /// Adds each row of a message to the row named.
    fn adding<'a>(
        &'a self,
        codec: RowCodec,
        message: &'a RefCell<Vec<u8>>,
        row_ids: Vec<u32>,
    ) -> impl FnMut() + 'a {
        move || {
            let (message, out) = (message.borrow(), &mut self.out.borrow_mut());
            codec.decode_add_rows(&message, self.n_cols, &row_ids, out).expect("just encoded");
        }
    }

    /// The sum of the rows in shuffled order.
    fn gathered_sum(&self) -> Vec<f32> {
        let mut sums = vec![0.0; self.n_cols];
        for &id in &self.ids {
            let row = &self.x[id as usize * self.n_cols..][..self.n_cols];
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += value;
            }
        }
        sums
    }
}
