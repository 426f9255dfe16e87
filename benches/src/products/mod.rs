//! Libraries of dense products at the shapes that training meets, alternated.
//!
//! Each is called as the backend calls its own: on chunks of rows, every thread on chunks of its own. Times
//! are those that the threads had a processor for.

mod libraries;

use std::ffi::OsString;

use anyhow::{Result, ensure};
use clap::Args;

use crate::ops::machine::on_threads;
use crate::rounds::median;
use libraries::{Blas, Factor, Library};

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct ProductsArguments {
    /// Rows of the matrices.
    #[arg(long, default_value_t = 100_000)]
    rows: usize,
    /// Rows multiplied at once.
    #[arg(long, default_value_t = 512)]
    chunk_rows: usize,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// A BLAS to load, by its path or a name that the loader knows; left out where it is not there.
    #[arg(long, default_value = "libopenblas.so.0")]
    blas: Vec<OsString>,
    /// Rounds of which medians are taken.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// Rows whose share of the gradient of weights is one product.
const PARTIAL_ROWS: usize = 4096;

/// How the factors of a product lie.
#[derive(Clone, Copy)]
enum Kind {
    /// Rows times weights.
    Rows,
    /// Rows times transposed weights.
    RowsTransposed,
    /// Transposed rows times rows.
    Weights,
}

/// A product of training: a matrix of `n_inner` columns, and one of `n_cols` beside or after it.
struct Shape {
    name: &'static str,
    kind: Kind,
    n_inner: usize,
    n_cols: usize,
}

const SHAPES: [Shape; 7] = [
    Shape { name: "rows times weights", kind: Kind::Rows, n_inner: 128, n_cols: 128 },
    Shape { name: "features times weights", kind: Kind::Rows, n_inner: 100, n_cols: 128 },
    Shape { name: "rows times weights of classes", kind: Kind::Rows, n_inner: 128, n_cols: 47 },
    Shape { name: "the same, 4 heads", kind: Kind::Rows, n_inner: 128, n_cols: 188 },
    Shape { name: "gradient times weights", kind: Kind::RowsTransposed, n_inner: 128, n_cols: 128 },
    Shape { name: "gradient of weights", kind: Kind::Weights, n_inner: 128, n_cols: 128 },
    Shape { name: "the same, of classes", kind: Kind::Weights, n_inner: 128, n_cols: 47 },
];

/// The matrices of a shape.
struct Case {
    rows: Vec<f32>,
    other: Vec<f32>,
    out: Vec<f32>,
}

impl Shape {
    fn n_operations(&self, n_rows: usize) -> f64 {
        2.0 * n_rows as f64 * (self.n_inner * self.n_cols) as f64
    }

    fn case(&self, n_rows: usize) -> Case {
        let filled = |n: usize| (0..n).map(|at| (at * 7919 % 1000) as f32 / 500.0 - 1.0).collect();
        let (n_other, n_out) = match self.kind {
            Kind::Rows | Kind::RowsTransposed => (self.n_inner, n_rows),
            Kind::Weights => (n_rows, self.n_inner * n_rows.div_ceil(PARTIAL_ROWS)),
        };
        Case {
            rows: filled(n_rows * self.n_inner),
            other: filled(n_other * self.n_cols),
            out: vec![0.0; n_out * self.n_cols],
        }
    }

    /// Multiplies on several threads; the seconds that they had a processor for, together.
    fn run(&self, library: &Library, arguments: &ProductsArguments, case: &mut Case) -> f64 {
        let Case { rows, other, out } = case;
        let (n_inner, n_cols) = (self.n_inner, self.n_cols);
        let mut chunks: Vec<(Factor<'_>, Factor<'_>, &mut [f32])> = match self.kind {
            Kind::Rows | Kind::RowsTransposed => {
                let weights = match self.kind {
                    Kind::Rows => Factor::new(other, n_cols),
                    _ => Factor::new(other, n_inner).transposed(),
                };
                let rows = rows.chunks(arguments.chunk_rows * n_inner);
                let out = out.chunks_mut(arguments.chunk_rows * n_cols);
                rows.zip(out).map(|(x, out)| (Factor::new(x, n_inner), weights, out)).collect()
            }
            Kind::Weights => {
                let rows = rows.chunks(PARTIAL_ROWS * n_inner);
                let others = other.chunks(PARTIAL_ROWS * n_cols);
                let factors = rows.zip(others).zip(out.chunks_mut(n_inner * n_cols));
                let factor = |((x, y), out)| {
                    (Factor::new(x, n_inner).transposed(), Factor::new(y, n_cols), out)
                };
                factors.map(factor).collect()
            }
        };
        let n_chunks = chunks.len().div_ceil(arguments.threads);
        let shares = chunks.chunks_mut(n_chunks).map(|share| {
            move || share.iter_mut().for_each(|(a, b, out)| library.product(*a, *b, out))
        });
        on_threads(shares)
    }
}

/// The libraries that there are.
fn libraries(arguments: &ProductsArguments) -> Vec<Library> {
    let mut libraries = vec![Library::Gemm, Library::MatrixMultiply];
    #[cfg(feature = "faer")]
    libraries.push(Library::Faer);
    for path in &arguments.blas {
        match Blas::load(path) {
            Ok(blas) => libraries.push(Library::Blas(blas)),
            Err(error) => println!("without {}: {error:#}", path.to_string_lossy()),
        }
    }
    libraries
}

/// Measures and prints a table: for each shape the speeds of all libraries.
///
/// # Errors
/// No rows or no threads, or a library whose product is not the first one's.
pub(crate) fn measure(arguments: &ProductsArguments) -> Result<()> {
    let sizes = [arguments.rows, arguments.chunk_rows, arguments.threads];
    ensure!(sizes.iter().all(|&size| size > 0), "rows, rows at once and threads above 0");
    let libraries = libraries(arguments);
    println!(
        "{} rows, {} at once, {} threads; GFLOP/s a thread, medians of {} rounds, processor time\n",
        arguments.rows, arguments.chunk_rows, arguments.threads, arguments.rounds
    );
    let names: Vec<String> = libraries.iter().map(Library::name).collect();
    println!("| product | {} |", names.join(" | "));
    println!("|---|{}", "---|".repeat(names.len()));
    for shape in &SHAPES {
        let mut case = shape.case(arguments.rows);
        let mut times_s = vec![Vec::new(); libraries.len()];
        let mut expected: Option<Vec<f32>> = None;
        for round in 0..=arguments.rounds {
            for (library, times_s) in libraries.iter().zip(&mut times_s) {
                let time_s = shape.run(library, arguments, &mut case);
                if round > 0 {
                    times_s.push(time_s);
                    continue;
                }
                let expected = expected.get_or_insert_with(|| case.out.clone());
                let is_close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-3 * a.abs().max(1.0);
                ensure!(
                    expected.iter().zip(&case.out).all(is_close),
                    "{}: {} gives another product",
                    shape.name,
                    library.name()
                );
            }
        }
        let n_operations = shape.n_operations(arguments.rows);
        let speed = |times_s| format!("{:.1}", n_operations / median(times_s) / 1e9);
        let speeds: Vec<String> = times_s.into_iter().map(speed).collect();
        println!("| {} | {} |", shape.name, speeds.join(" | "));
    }
    Ok(())
}
