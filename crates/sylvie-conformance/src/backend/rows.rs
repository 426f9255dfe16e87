//! Work on one row at a time.

use sylvie_random::Stream;
use sylvie_tensor::{Backend, CpuBackend, Mode};

use super::{Host, assert_close, draws, some_of};

/// Rows and columns.
const SHAPES: [(usize, usize); 7] =
    [(1, 1), (0, 4), (7, 3), (33, 64), (260, 5), (600, 33), (3, 130)];

/// Factors, biases, sums of columns, rows added where they belong, averages, ReLU, copies.
pub fn rows_moved_and_summed<B: Backend>(backend: &B) {
    for (n_rows, n_cols) in SHAPES {
        let what = |name: &str| format!("{name}, {n_rows} x {n_cols}");
        let (x, y) = (Host::random(1, n_rows, n_cols), Host::random(2, n_rows, n_cols));
        let each = |value: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
            let places = (0..n_rows).flat_map(|i| (0..n_cols).map(move |j| (i, j)));
            places.map(|(i, j)| value(i, j)).collect()
        };
        let on_device = x.on(backend);
        assert_eq!(backend.shape(&on_device), (n_rows, n_cols));
        assert_eq!(backend.download(&backend.copy(&on_device)), x.values, "{}", what("a copy"));
        assert_eq!(backend.download(&backend.zeros(n_rows, n_cols)), vec![0.0; n_rows * n_cols]);

        let factors = Host::random(3, n_rows, 1);
        let mut out = x.on(backend);
        backend.scale_rows(&factors.on(backend), &mut out);
        assert_close(
            backend,
            &out,
            &each(&|i, j| factors.at(i, 0) * x.at(i, j)),
            &what("scale_rows"),
        );
        let mut out = y.on(backend);
        backend.add_scaled_rows(&on_device, &factors.on(backend), &mut out);
        let exact = each(&|i, j| y.at(i, j) + factors.at(i, 0) * x.at(i, j));
        assert_close(backend, &out, &exact, &what("add_scaled_rows"));
        let bias = Host::random(4, 1, n_cols);
        let mut out = x.on(backend);
        backend.add_bias(&bias.on(backend), &mut out);
        assert_close(backend, &out, &each(&|i, j| x.at(i, j) + bias.at(0, j)), &what("add_bias"));
        for mode in [Mode::Assign, Mode::Add] {
            let kept = if mode == Mode::Add { 1.0 } else { 0.0 };
            let mut out = bias.on(backend);
            backend.column_sums(&on_device, mode, &mut out);
            let column = |j: usize| (0..n_rows).map(|i| x.at(i, j)).sum::<f64>();
            let exact: Vec<f64> = (0..n_cols).map(|j| kept * bias.at(0, j) + column(j)).collect();
            assert_close(backend, &out, &exact, &what("column_sums"));
        }
        let places = some_of(5, n_rows);
        let some = Host::random(6, places.len(), n_cols);
        let mut out = y.on(backend);
        backend.scatter_add(&some.on(backend), &backend.upload_index(&places), &mut out);
        let added = |i: usize| places.binary_search(&(i as u32));
        let exact = each(&|i, j| y.at(i, j) + added(i).map_or(0.0, |p| some.at(p, j)));
        assert_close(backend, &out, &exact, &what("scatter_add"));

        let mut out = y.on(backend);
        backend.smooth(0.7, &on_device, &mut out);
        // Multiplications and an addition, each rounded: the same bits everywhere.
        let average = |(x, y): (&f32, &f32)| 0.7_f32 * y + (1.0 - 0.7_f32) * x;
        let exact: Vec<f32> = x.values.iter().zip(&y.values).map(average).collect();
        assert_eq!(backend.download(&out), exact, "{}", what("smooth"));

        let mut out = x.on(backend);
        backend.relu(&mut out);
        let positive: Vec<f32> = x.values.iter().map(|x| x.max(0.0)).collect();
        assert_eq!(backend.download(&out), positive, "{}", what("relu"));
        let mut dy = y.on(backend);
        backend.relu_backward(&out, &mut dy);
        let exact: Vec<f32> = positive
            .iter()
            .zip(&y.values)
            .map(|(&x, &dy)| if x > 0.0 { dy } else { 0.0 })
            .collect();
        assert_eq!(backend.download(&dy), exact, "{}", what("relu_backward"));
    }
    let mut not_a_number = backend.upload(1, 2, &[f32::NAN, -1.0]);
    backend.relu(&mut not_a_number);
    let found = backend.download(&not_a_number);
    assert!(found[0].is_nan() && found[1] == 0.0, "ReLU of a NaN and of -1: {found:?}");
}

/// What LayerNorm and ReLU left, made of its rows again.
fn rows_made_again<B: Backend>(backend: &B) {
    for (n_rows, n_cols) in SHAPES {
        let x = Host::random(7, n_rows, n_cols);
        let (gain, offset) = (Host::random(8, 1, n_cols), Host::random(9, 1, n_cols));
        let found = backend.affine_relu(&gain.on(backend), &offset.on(backend), &x.on(backend));
        // A multiplication and an addition, each rounded: the same bits everywhere.
        let value = |(at, x): (usize, &f32)| {
            (x * gain.values[at % n_cols] + offset.values[at % n_cols]).max(0.0)
        };
        let exact: Vec<f32> = x.values.iter().enumerate().map(value).collect();
        assert_eq!(backend.download(&found), exact, "affine_relu, {n_rows} x {n_cols}");
    }
}

/// LayerNorm and its gradients.
pub fn layer_norm<B: Backend>(backend: &B) {
    rows_made_again(backend);
    for (n_rows, n_cols) in SHAPES {
        let what = |name: &str| format!("{name}, {n_rows} x {n_cols}");
        let (x, dy) = (Host::random(1, n_rows, n_cols), Host::random(2, n_rows, n_cols));
        let (gain, offset) = (Host::random(3, 1, n_cols), Host::random(4, 1, n_cols));
        let (mut normal, mut inverse) = (Vec::new(), Vec::new());
        for i in 0..n_rows {
            let row = x.row(i);
            let mean = row.iter().sum::<f64>() / n_cols as f64;
            let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n_cols as f64;
            inverse.push(1.0 / (variance + 1e-5).sqrt());
            normal.extend(row.iter().map(|v| (v - mean) * inverse[i]));
        }
        let exact: Vec<f64> = normal
            .iter()
            .enumerate()
            .map(|(place, v)| v * gain.at(0, place % n_cols) + offset.at(0, place % n_cols))
            .collect();
        let mut out = x.on(backend);
        let gain_on = gain.on(backend);
        let (kept, deviations) = backend.layer_norm(&gain_on, &offset.on(backend), &mut out);
        // One column has no variance, and a rounding of its mean is multiplied by 316.
        if n_cols > 1 {
            assert_close(backend, &out, &exact, &what("layer_norm"));
            assert_close(backend, &kept, &normal, &what("normalised rows"));
        }
        assert_close(backend, &deviations, &inverse, &what("inverse deviations"));
        let (mut dx, mut dgain, mut doffset) = (Vec::new(), vec![0.0; n_cols], vec![0.0; n_cols]);
        for i in 0..n_rows {
            let normal = &normal[i * n_cols..(i + 1) * n_cols];
            let scaled: Vec<f64> = (0..n_cols).map(|j| dy.at(i, j) * gain.at(0, j)).collect();
            let mean = scaled.iter().sum::<f64>() / n_cols as f64;
            let projection = super::dot(&scaled, normal) / n_cols as f64;
            for j in 0..n_cols {
                dx.push((scaled[j] - mean - normal[j] * projection) * inverse[i]);
                dgain[j] += dy.at(i, j) * normal[j];
                doffset[j] += dy.at(i, j);
            }
        }
        let mut found = dy.on(backend);
        let (mut gains, mut offsets) = (bias_of(backend, n_cols), bias_of(backend, n_cols));
        let saved = (&kept, &deviations);
        backend.layer_norm_backward(&gain_on, saved, &mut found, &mut gains, &mut offsets);
        if n_cols > 1 {
            assert_close(backend, &found, &dx, &what("layer_norm_backward"));
            assert_close(backend, &gains, &dgain, &what("gradient of the gain"));
        }
        assert_close(backend, &offsets, &doffset, &what("gradient of the offset"));
    }
}

/// A row that must be assigned.
fn bias_of<B: Backend>(backend: &B, n_cols: usize) -> B::Matrix {
    backend.upload(1, n_cols, &vec![9.0; n_cols])
}

/// The mask is that of the CPU backend, bit for bit: no draw depends on the machine.
pub fn dropout<B: Backend>(backend: &B) {
    let cpu = CpuBackend::new(1);
    for (n_rows, n_cols) in SHAPES {
        let x = Host::random(1, n_rows, n_cols);
        let keys: Vec<u32> = (0..n_rows as u32).map(|row| row * 77 + 5).collect();
        for rate in [0.0, 0.1, 0.5, 0.9999] {
            let family = draws(Stream::Dropout, 9);
            let mut expected = x.on(&cpu);
            cpu.dropout(rate, family, &keys, &mut expected);
            let mut found = x.on(backend);
            backend.dropout(rate, family, &backend.upload_index(&keys), &mut found);
            let (found, expected) = (backend.download(&found), cpu.download(&expected));
            assert!(found == expected, "dropout of {rate}, {n_rows} x {n_cols}");
        }
    }
}
