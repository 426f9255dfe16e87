//! Sums over rows and columns, against f64, and LayerNorm.

use sylvie_kernels::{
    ATTENTION_SCORES, ATTENTION_SCORES_BACKWARD, ATTENTION_WEIGHT_SUMS, COLUMN_PRODUCTS,
    COLUMN_SUMS, HEAD_DOTS, LAYER_NORM, LAYER_NORM_BACKWARD, SUM_F64, SUM_VALUES, TILE_ROWS,
};
use sylvie_kernels_emulated::{Argument, Buffer};
use sylvie_tensor::{Backend as _, CpuBackend};

use crate::ways::{
    WIDTHS, Way, assert_close, assert_near, assert_same_bits, every_way, numbers, u32_of, way,
};

/// Further passes over the sums of tiles, the last of which adds to `out`.
fn finish_sums(way: Way, mut sums: Buffer, mut n_rows: usize, n_cols: usize, out: &Buffer) {
    loop {
        let n_tiles = n_rows.div_ceil(TILE_ROWS as usize);
        let next = Buffer::new(4 * n_tiles * n_cols, 0);
        let (to, adds) = if n_tiles == 1 { (out, 1) } else { (&next, 0) };
        let pointers = [Argument::from(&sums), Argument::from(to)];
        let arguments =
            [&pointers[..], &[u32_of(n_rows), u32_of(n_cols), Argument::U32(adds)]].concat();
        way.run(&COLUMN_SUMS, (n_rows, n_cols), &arguments);
        if n_tiles == 1 {
            return;
        }
        (sums, n_rows) = (next, n_tiles);
    }
}

fn column_sums_f64(
    n_cols: usize,
    before: &[f32],
    value: impl Fn(usize, usize) -> f64,
    n_rows: usize,
) -> Vec<f64> {
    let sum = |c| f64::from(before[c]) + (0..n_rows).map(|row| value(row, c)).sum::<f64>();
    (0..n_cols).map(sum).collect()
}

#[test]
fn columns_are_summed() {
    for (turn, (n_rows, n_cols)) in
        [(1, 1), (7, 5), (40, 41), (512, 8), (513, 3), (700, 130), (1, 260), (1300, 4)]
            .into_iter()
            .enumerate()
    {
        let (x, y) = (numbers(1, n_rows * n_cols), numbers(2, n_rows * n_cols));
        let before = numbers(3, n_cols);
        let at = 4 * (turn % 2);
        let out = Buffer::from_values(&before);
        finish_sums(way(turn), Buffer::at_offset(&x, at), n_rows, n_cols, &out);
        let expected =
            column_sums_f64(n_cols, &before, |row, c| f64::from(x[row * n_cols + c]), n_rows);
        assert_close(&out.values(), &expected, n_rows as f64, "column sums");

        let out = Buffer::from_values(&before);
        let n_tiles = n_rows.div_ceil(TILE_ROWS as usize);
        let sums = Buffer::new(4 * n_tiles * n_cols, 0);
        let (device_x, device_y) = (Buffer::at_offset(&x, at), Buffer::from_values(&y));
        let pointers = [&device_x, &device_y, &sums].map(Argument::from);
        let arguments =
            [&pointers[..], &[u32_of(n_rows), u32_of(n_cols), Argument::U32(0)]].concat();
        way(turn).run(&COLUMN_PRODUCTS, (n_rows, n_cols), &arguments);
        finish_sums(way(turn), sums, n_tiles, n_cols, &out);
        let product = |row, c| f64::from(x[row * n_cols + c]) * f64::from(y[row * n_cols + c]);
        let expected = column_sums_f64(n_cols, &before, product, n_rows);
        assert_close(&out.values(), &expected, n_rows as f64, "column products");
    }
}

#[test]
fn the_grid_changes_no_bit_of_a_sum() {
    let (n_rows, n_cols) = (1100, 132);
    let x = numbers(4, n_rows * n_cols);
    let sums = |way: Way| {
        let out = Buffer::from_values(&vec![0.0_f32; n_cols]);
        finish_sums(way, Buffer::from_values(&x), n_rows, n_cols, &out);
        out.values::<f32>()
    };
    let expected = sums(way(0));
    every_way(|way| assert_same_bits(&sums(way), &expected, "column sums"));
}

#[test]
fn doubles_are_summed() {
    for (turn, n) in [1, 255, 4096, 4097, 10_000].into_iter().enumerate() {
        let x: Vec<f64> = numbers(5, n).into_iter().map(f64::from).collect();
        let n_sums = n.div_ceil(SUM_VALUES as usize);
        let (device, sums, out) =
            (Buffer::from_values(&x), Buffer::new(8 * n_sums, 0), Buffer::new(8, 0));
        way(turn).run(
            &SUM_F64,
            (1, n),
            &[Argument::from(&device), Argument::from(&sums), Argument::U64(n as u64)],
        );
        let arguments = [Argument::from(&sums), Argument::from(&out), Argument::U64(n_sums as u64)];
        way(turn).run(&SUM_F64, (1, n_sums), &arguments);
        let (found, expected) = (out.values::<f64>()[0], x.iter().sum::<f64>());
        assert!((found - expected).abs() < 1e-9, "{found} instead of {expected}");
    }
}

/// The products of heads, in f64.
fn dots(x: &[f32], y: &[f32], width: usize) -> Vec<f64> {
    let dot = |(a, b): (&[f32], &[f32])| {
        a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    };
    x.chunks_exact(width).zip(y.chunks_exact(width)).map(dot).collect()
}

#[test]
fn scores_and_products_of_heads() {
    let n_rows = 11;
    for (turn, width) in WIDTHS.into_iter().enumerate() {
        for n_heads in [1, 3] {
            let n = n_rows * n_heads * width;
            let (x, y, weights) = (numbers(6, n), numbers(7, n), numbers(8, n_heads * width));
            let shape = [u32_of(n_rows), u32_of(n_heads), u32_of(width)];
            let all = (n_rows * n_heads, width);
            let at = 4 * (turn % 2);
            let (device_x, device_y) = (Buffer::at_offset(&x, at), Buffer::from_values(&y));
            let (device_weights, out) =
                (Buffer::from_values(&weights), Buffer::new(4 * n_rows * n_heads, 0));

            let pointers = [&device_x, &device_y, &out].map(Argument::from);
            way(turn).run(&HEAD_DOTS, all, &[&pointers[..], &shape].concat());
            assert_close(
                &out.values(),
                &dots(&x, &y, width),
                1.0 + width as f64 / 4.0,
                "dots of heads",
            );

            let pointers = [&device_x, &device_weights, &out].map(Argument::from);
            way(turn).run(&ATTENTION_SCORES, all, &[&pointers[..], &shape].concat());
            let repeated = weights.repeat(n_rows);
            assert_close(
                &out.values(),
                &dots(&x, &repeated, width),
                1.0 + width as f64 / 4.0,
                "scores",
            );

            // Backward: with respect to rows, bit for bit, and to weights.
            let backend = CpuBackend::new(1);
            let dscores = numbers(9, n_rows * n_heads);
            let mut dx = backend.upload(n_rows, n_heads * width, &y);
            let mut dweights = backend.upload(n_heads, width, &weights);
            let x_matrix = backend.upload(n_rows, n_heads * width, &x);
            let dscore_matrix = backend.upload(n_rows, n_heads, &dscores);
            let weight_matrix = backend.upload(n_heads, width, &weights);
            backend.attention_scores_backward(
                &x_matrix,
                &weight_matrix,
                &dscore_matrix,
                &mut dx,
                &mut dweights,
            );
            let device_dscores = Buffer::from_values(&dscores);
            let pointers = [&device_weights, &device_dscores, &device_y].map(Argument::from);
            way(turn).run(&ATTENTION_SCORES_BACKWARD, all, &[&pointers[..], &shape].concat());
            assert_same_bits(&device_y.values(), dx.values(), "gradients of rows");
            let out = Buffer::from_values(&weights);
            let pointers = [&device_x, &device_dscores, &out].map(Argument::from);
            let arguments = [&pointers[..], &shape, &[Argument::U32(1)]].concat();
            way(turn).run(&ATTENTION_WEIGHT_SUMS, (n_rows, n_heads * width), &arguments);
            assert_near(
                &out.values(),
                dweights.values(),
                n_rows as f64 / 4.0,
                "gradients of score weights",
            );
        }
    }
}

struct Normalised {
    y: Vec<f64>,
    unit: Vec<f64>,
    inverse: Vec<f64>,
}

fn layer_norm_f64(x: &[f32], gain: &[f32], offset: &[f32]) -> Normalised {
    let n_cols = gain.len();
    let mut all = Normalised { y: Vec::new(), unit: Vec::new(), inverse: Vec::new() };
    for row in x.chunks_exact(n_cols) {
        let row: Vec<f64> = row.iter().map(|&v| f64::from(v)).collect();
        let mean = row.iter().sum::<f64>() / n_cols as f64;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n_cols as f64;
        let inverse = 1.0 / (variance + f64::from(1e-5_f32)).sqrt();
        all.inverse.push(inverse);
        for (column, v) in row.iter().enumerate() {
            let unit = (v - mean) * inverse;
            all.unit.push(unit);
            all.y.push(unit * f64::from(gain[column]) + f64::from(offset[column]));
        }
    }
    all
}

#[test]
fn rows_are_normalised_and_back() {
    let n_rows = 21;
    for (turn, n_cols) in WIDTHS.into_iter().enumerate() {
        let x: Vec<f32> = numbers(10, n_rows * n_cols).iter().map(|v| 3.0 * v + 0.5).collect();
        let (gain, offset) = (numbers(11, n_cols), numbers(12, n_cols));
        let expected = layer_norm_f64(&x, &gain, &offset);
        let at = 4 * (turn % 2);
        let y = Buffer::at_offset(&x, at);
        let (unit, inverse) = (Buffer::new(4 * x.len(), 0), Buffer::new(4 * n_rows, 0));
        let (device_gain, device_offset) =
            (Buffer::from_values(&gain), Buffer::from_values(&offset));
        let pointers = [&device_gain, &device_offset, &y, &unit, &inverse].map(Argument::from);
        let shape = [u32_of(n_rows), u32_of(n_cols)];
        way(turn).run(&LAYER_NORM, (n_rows, n_cols), &[&pointers[..], &shape].concat());
        // A row of one column is its own mean: what is left of it is rounding.
        assert_close(&y.values(), &expected.y, 1.0, "normalised rows");
        assert_close(&unit.values(), &expected.unit, 1.0, "rows before gain and offset");
        assert_close(&inverse.values(), &expected.inverse, 0.0, "inverse deviations");

        let dy = numbers(13, n_rows * n_cols);
        let (unit, inverse) = (unit.values::<f32>(), inverse.values::<f32>());
        let mut gradient = Vec::new();
        for row in 0..n_rows {
            let at = row * n_cols..(row + 1) * n_cols;
            let scaled: Vec<f64> = dy[at.clone()]
                .iter()
                .zip(&gain)
                .map(|(&d, &g)| f64::from(d) * f64::from(g))
                .collect();
            let unit: Vec<f64> = unit[at].iter().map(|&u| f64::from(u)).collect();
            let mean = scaled.iter().sum::<f64>() / n_cols as f64;
            let projection =
                scaled.iter().zip(&unit).map(|(d, u)| d * u).sum::<f64>() / n_cols as f64;
            let inverse = f64::from(inverse[row]);
            gradient.extend(
                scaled.iter().zip(&unit).map(|(d, u)| (d - mean - u * projection) * inverse),
            );
        }
        let largest = inverse.iter().fold(1.0_f64, |a, &b| a.max(f64::from(b)));
        let (device_unit, device_inverse) =
            (Buffer::from_values(&unit), Buffer::from_values(&inverse));
        let out = Buffer::at_offset(&dy, at);
        let pointers = [&device_gain, &device_unit, &device_inverse, &out].map(Argument::from);
        way(turn).run(&LAYER_NORM_BACKWARD, (n_rows, n_cols), &[&pointers[..], &shape].concat());
        assert_close(&out.values(), &gradient, largest, "gradients through LayerNorm");
    }
}
