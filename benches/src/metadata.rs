//! What the type of zero points and scales costs: error and bytes, kind of row by kind of row.

use sylvie_lowbit::{MetadataType, RowCodec, Width};
use sylvie_random::{Coordinates, Sequence, Stream};

const N_ROWS: usize = 2000;
const N_COLS: usize = 128;

/// Prints a table of root-mean-square errors, relative to that with `f32` metadata.
pub(crate) fn measure() {
    println!(
        "root-mean-square error over that with f32 metadata; {N_ROWS} rows of {N_COLS} columns"
    );
    println!("| rows | bits | f32 | bf16 | f16 |");
    println!("|---|---|---|---|---|");
    for (name, value) in kinds() {
        let mut sequence =
            Sequence::new(Coordinates::new(2, Stream::Generator).family(), name.len() as u32);
        let rows: Vec<f32> =
            (0..N_ROWS * N_COLS).map(|_| value(normal(&mut sequence)) as f32).collect();
        for width in [Width::One, Width::Two, Width::Four, Width::Eight] {
            let error = |metadata| squared_error(RowCodec { width, metadata }, &rows);
            let exact = error(MetadataType::F32).expect("f32 metadata holds every row");
            let ratios = MetadataType::ALL.map(|metadata| match error(metadata) {
                Some(error) => format!("{:.3}", (error / exact).sqrt()),
                None => "refused".to_owned(),
            });
            println!("| {name} | {width} | {} |", ratios.join(" | "));
        }
    }
    for metadata in MetadataType::ALL {
        let codec = RowCodec { width: Width::One, metadata };
        println!("{metadata}: {} bytes a row at 1 bit", codec.message_bytes(1, N_COLS));
    }
}

/// A kind of row: its name, and its values as a function of a normal variable.
type Kind = (&'static str, fn(f64) -> f64);

fn kinds() -> [Kind; 8] {
    [
        ("LayerNorm output", |z| z),
        ("ReLU of it", |z| z.max(0.0)),
        ("offset 10, deviation 1", |z| 10.0 + z),
        ("offset 1000, deviation 1", |z| 1000.0 + z),
        ("gradients, range about 1e-5", |z| 2e-6 * z),
        ("gradients, range about 1e-7", |z| 2e-8 * z),
        ("gradients, range about 1e-9", |z| 2e-10 * z),
        ("huge, about 1e30", |z| 2e29 * z),
    ]
}

/// A standard normal number (Box and Muller).
fn normal(sequence: &mut Sequence) -> f64 {
    let radius = (-2.0 * (1.0 - sequence.next_f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * sequence.next_f64()).cos()
}

/// The expected squared error of all rows; `None` where one is refused.
fn squared_error(codec: RowCodec, rows: &[f32]) -> Option<f64> {
    rows.chunks(N_COLS).map(|row| codec.expected_squared_error(row).ok()).sum()
}
