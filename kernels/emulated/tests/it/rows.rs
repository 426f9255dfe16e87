//! Work on rows that has the CPU backend's very bits.

use sylvie_graph::SparseMatrix;
use sylvie_kernels::{
    ADAM, ADD_BIAS, ADD_SCALED_ROWS, AFFINE_RELU, DROPOUT, GATHER_ROWS, HEAD_MEAN,
    HEAD_MEAN_BACKWARD, RELU, RELU_BACKWARD, SCALE_ROWS, SCATTER_ADD, SCATTER_ADD_IN_ORDER, SMOOTH,
    SPARSE_DROPOUT,
};
use sylvie_kernels_emulated::{Argument, Buffer};
use sylvie_random::{Coordinates, Family, Pass, Stream};
use sylvie_tensor::{AdamStep, Backend as _, CpuBackend, Mode};

use crate::ways::{WIDTHS, assert_same_bits, every_way, numbers, some_rows, u32_of, way, words};

fn cpu() -> CpuBackend {
    CpuBackend::new(1)
}

#[test]
fn gathered_and_scattered_rows() {
    let (n_rows, n_all) = (20, 33);
    for (turn, n_cols) in WIDTHS.into_iter().enumerate() {
        let all = numbers(1, n_all * n_cols);
        let list = some_rows(2, n_rows, n_all);
        let device_list = Buffer::from_values(&list);
        for at in [0, 4] {
            let device_all = Buffer::at_offset(&all, at);
            let out = Buffer::new(4 * n_rows * n_cols, 0);
            let shape = [u32_of(n_rows), u32_of(n_cols)];
            let lists = [Argument::from(&device_all), Argument::from(&device_list)];
            let arguments = [&lists[..], &[Argument::from(&out)], &shape].concat();
            way(turn).run(&GATHER_ROWS, (n_rows, n_cols), &arguments);
            let expected: Vec<f32> = list
                .iter()
                .flat_map(|&row| &all[row as usize * n_cols..][..n_cols])
                .copied()
                .collect();
            assert_same_bits(&out.values(), &expected, "gathered rows");

            let backend = cpu();
            let x = numbers(3, n_rows * n_cols);
            let mut sums = backend.upload(n_all, n_cols, &all);
            backend.scatter_add(&backend.upload(n_rows, n_cols, &x), &list, &mut sums);
            let device_x = Buffer::from_values(&x);
            let lists = [Argument::from(&device_x), Argument::from(&device_list)];
            let arguments = [&lists[..], &[Argument::from(&device_all)], &shape].concat();
            way(turn).run(&SCATTER_ADD, (n_rows, n_cols), &arguments);
            assert_same_bits(&device_all.values(), sums.values(), "scattered rows");
        }
    }
}

#[test]
fn rows_that_repeat_are_added_in_order() {
    let (list, n_cols) = ([3_u32, 0, 3, 3, 1], 7);
    let (x, all) = (numbers(4, list.len() * n_cols), numbers(5, 4 * n_cols));
    let mut expected = all.clone();
    for (i, &row) in list.iter().enumerate() {
        for column in 0..n_cols {
            expected[row as usize * n_cols + column] += x[i * n_cols + column];
        }
    }
    every_way(|way| {
        let (x, out, rows) =
            (Buffer::from_values(&x), Buffer::from_values(&all), Buffer::from_values(&list));
        let pointers = [Argument::from(&x), Argument::from(&rows), Argument::from(&out)];
        let arguments = [&pointers[..], &[u32_of(list.len()), u32_of(n_cols)]].concat();
        way.run(&SCATTER_ADD_IN_ORDER, (1, n_cols), &arguments);
        assert_same_bits(&out.values(), &expected, "rows that repeat");
    });
}

#[test]
fn factors_and_biases() {
    let n_rows = 37;
    for (turn, n_cols) in WIDTHS.into_iter().enumerate() {
        let backend = cpu();
        let (x, y) = (numbers(6, n_rows * n_cols), numbers(7, n_rows * n_cols));
        let (factors, bias) = (numbers(8, n_rows), numbers(9, n_cols));
        let device_factors = Buffer::from_values(&factors);
        let factors = backend.upload(n_rows, 1, &factors);
        let shape = [u32_of(n_rows), u32_of(n_cols)];
        let at = 4 * (turn % 2);

        let mut expected = backend.upload(n_rows, n_cols, &x);
        backend.scale_rows(&factors, &mut expected);
        let out = Buffer::at_offset(&x, at);
        let arguments =
            [&[Argument::from(&device_factors), Argument::from(&out)][..], &shape].concat();
        way(turn).run(&SCALE_ROWS, (n_rows, n_cols), &arguments);
        assert_same_bits(&out.values(), expected.values(), "scaled rows");

        let mut expected = backend.upload(n_rows, n_cols, &y);
        backend.add_scaled_rows(&backend.upload(n_rows, n_cols, &x), &factors, &mut expected);
        let (device_x, out) = (Buffer::from_values(&x), Buffer::at_offset(&y, at));
        let pointers =
            [Argument::from(&device_x), Argument::from(&device_factors), Argument::from(&out)];
        way(turn).run(&ADD_SCALED_ROWS, (n_rows, n_cols), &[&pointers[..], &shape].concat());
        assert_same_bits(&out.values(), expected.values(), "rows added with factors");

        let mut expected = backend.upload(n_rows, n_cols, &x);
        backend.add_bias(&backend.upload(1, n_cols, &bias), &mut expected);
        let (device_bias, out) = (Buffer::from_values(&bias), Buffer::at_offset(&x, at));
        let arguments =
            [&[Argument::from(&device_bias), Argument::from(&out)][..], &shape].concat();
        way(turn).run(&ADD_BIAS, (n_rows, n_cols), &arguments);
        assert_same_bits(&out.values(), expected.values(), "a bias");

        let gain = numbers(14, n_cols);
        let host = |x: &[f32], n_rows: usize| backend.upload(n_rows, n_cols, x);
        let expected = backend.affine_relu(&host(&gain, 1), &host(&bias, 1), &host(&x, n_rows));
        let (device_gain, device_x) = (Buffer::from_values(&gain), Buffer::from_values(&x));
        let out = Buffer::at_offset(&vec![7.0_f32; x.len()], at);
        let buffers = [&device_gain, &device_bias, &device_x, &out].map(Argument::from);
        way(turn).run(&AFFINE_RELU, (n_rows, n_cols), &[&buffers[..], &shape].concat());
        assert_same_bits(&out.values(), expected.values(), "gain, offset and relu");
    }
}

#[test]
fn values_one_by_one() {
    for (turn, n) in [1, 3, 4, 5, 1023, 1024, 1025, 3001].into_iter().enumerate() {
        let backend = cpu();
        let mut x = numbers(10, n);
        x[0] = f32::NAN;
        x[n / 2] = -0.0;
        let y = numbers(11, n);
        let n_values = Argument::U64(n as u64);
        let at = 4 * (turn % 3);

        let mut expected = backend.upload(1, n, &x);
        backend.relu(&mut expected);
        let out = Buffer::at_offset(&x, at);
        way(turn).run(&RELU, (1, n), &[Argument::from(&out), n_values]);
        assert_same_bits(&out.values(), expected.values(), "relu");

        let mut gradient = backend.upload(1, n, &y);
        backend.relu_backward(&expected, &mut gradient);
        let device_y = Buffer::from_values(expected.values());
        let out = Buffer::at_offset(&y, at);
        way(turn).run(
            &RELU_BACKWARD,
            (1, n),
            &[Argument::from(&device_y), Argument::from(&out), n_values],
        );
        assert_same_bits(&out.values(), gradient.values(), "relu backward");

        let mut expected = backend.upload(1, n, &y);
        backend.smooth(0.95, &backend.upload(1, n, &x), &mut expected);
        let (device_x, out) = (Buffer::from_values(&x), Buffer::at_offset(&y, at));
        let arguments =
            [Argument::from(&device_x), Argument::from(&out), n_values, Argument::F32(0.95)];
        way(turn).run(&SMOOTH, (1, n), &arguments);
        assert_same_bits(&out.values(), expected.values(), "a moving average");
    }
}

fn draws() -> Family {
    Coordinates::new(77, Stream::Dropout).at(4, 1, Pass::Forward).family()
}

/// The family, and threshold and scale of a rate.
fn dropout_arguments(rate: f32) -> Vec<Argument> {
    let threshold = (rate * 65_536.0).round() as u32;
    let draws = draws();
    let words = [draws.key[0], draws.key[1], draws.epoch, draws.tag, threshold];
    let scale = Argument::F32(65_536.0 / (65_536 - threshold) as f32);
    words.into_iter().map(Argument::U32).chain([scale]).collect()
}

#[test]
fn dropout_of_rows_and_of_sparse_values() {
    let n_rows = 23;
    let keys = words(12, n_rows);
    let device_keys = Buffer::from_values(&keys);
    for (turn, n_cols) in WIDTHS.into_iter().enumerate() {
        let backend = cpu();
        let x = numbers(13, n_rows * n_cols);
        for rate in [0.0, 0.5, 0.9] {
            let mut expected = backend.upload(n_rows, n_cols, &x);
            backend.dropout(rate, draws(), &keys, &mut expected);
            let out = Buffer::at_offset(&x, 4 * (turn % 2));
            let shape = [u32_of(n_rows), u32_of(n_cols)];
            let pointers = [Argument::from(&device_keys), Argument::from(&out)];
            let arguments = [&pointers[..], &shape, &dropout_arguments(rate)].concat();
            way(turn).run(&DROPOUT, (n_rows, n_cols), &arguments);
            assert_same_bits(&out.values(), expected.values(), "dropout");
        }
    }
}

#[test]
fn dropout_of_sparse_values_is_that_of_their_places() {
    let (n_rows, n_cols) = (19, 90);
    let (mut indptr, mut columns) = (vec![0_u64], Vec::new());
    for row in 0..n_rows {
        columns.extend(
            (0..n_cols as u32).filter(|c| (c * 7 + row as u32).is_multiple_of(1 + row as u32 % 5)),
        );
        indptr.push(columns.len() as u64);
    }
    let values = numbers(14, columns.len());
    let keys = words(15, n_rows);
    let backend = cpu();
    let sparse = SparseMatrix::new(n_cols, &indptr, &columns, &values).unwrap();
    let dropped = backend.sparse_dropout(0.4, draws(), &keys, &backend.upload_sparse(&sparse));
    let identity: Vec<f32> =
        (0..n_cols * n_cols).map(|i| f32::from(i % (n_cols + 1) == 0)).collect();
    let mut dense = backend.zeros(n_rows, n_cols);
    backend.sparse_matmul(
        &dropped,
        &backend.upload(n_cols, n_cols, &identity),
        Mode::Assign,
        &mut dense,
    );
    let rows = (0..n_rows).flat_map(|row| vec![row; (indptr[row + 1] - indptr[row]) as usize]);
    let places = rows.zip(&columns).map(|(row, &column)| row * n_cols + column as usize);
    let expected: Vec<f32> = places.map(|place| dense.values()[place]).collect();
    every_way(|way| {
        let (indptr, columns) = (Buffer::from_values(&indptr), Buffer::from_values(&columns));
        let (keys, values) = (Buffer::from_values(&keys), Buffer::from_values(&values));
        let out = Buffer::new(4 * expected.len(), 0);
        let pointers = [&indptr, &columns, &keys, &values, &out].map(Argument::from);
        let arguments = [&pointers[..], &[u32_of(n_rows)], &dropout_arguments(0.4)].concat();
        way.run(&SPARSE_DROPOUT, (n_rows, 128), &arguments);
        let found: Vec<f32> = out.values::<f32>().iter().map(|v| v + 0.0).collect();
        assert_same_bits(&found, &expected, "sparse dropout");
    });
}

#[test]
fn means_of_heads() {
    let n_rows = 13;
    for (turn, width) in [1, 4, 7, 16, 130].into_iter().enumerate() {
        for n_heads in [1, 2, 5] {
            let backend = cpu();
            let x = numbers(16, n_rows * n_heads * width);
            let shape = [u32_of(n_rows), u32_of(n_heads), u32_of(width)];
            let expected = backend.head_mean(&backend.upload(n_rows, n_heads * width, &x), n_heads);
            let (device, out) = (Buffer::from_values(&x), Buffer::new(4 * n_rows * width, 0));
            let arguments = [&[Argument::from(&device), Argument::from(&out)][..], &shape].concat();
            way(turn).run(&HEAD_MEAN, (n_rows, width), &arguments);
            assert_same_bits(&out.values(), expected.values(), "means of heads");

            let dy = &x[..n_rows * width];
            // The host's heads share what each has a copy of here.
            let shared = backend.head_mean_backward(&backend.upload(n_rows, width, dy), n_heads);
            let rows = shared.values().chunks_exact(width);
            let expected: Vec<f32> = rows.flat_map(|row| row.repeat(n_heads)).collect();
            let (device, out) =
                (Buffer::from_values(dy), Buffer::new(4 * n_rows * n_heads * width, 0));
            let arguments = [&[Argument::from(&device), Argument::from(&out)][..], &shape].concat();
            way(turn).run(&HEAD_MEAN_BACKWARD, (n_rows, width), &arguments);
            assert_same_bits(&out.values(), &expected, "gradients of heads");
        }
    }
}

#[test]
fn steps_of_adam() {
    let backend = cpu();
    for (turn, n) in [1, 6, 2050].into_iter().enumerate() {
        let mut weights = backend.upload(1, n, &numbers(17, n));
        let (mut first, mut second) = (backend.zeros(1, n), backend.zeros(1, n));
        let device = [&weights, &first, &second].map(|m| Buffer::from_values(m.values()));
        for step in 1..4 {
            let gradient = numbers(18 + u64::from(step), n);
            let (beta1, beta2) = (0.9_f32, 0.999_f32);
            let settings = AdamStep {
                learning_rate: 0.01,
                beta1,
                beta2,
                epsilon: 1e-8,
                weight_decay: 5e-4,
                step,
            };
            let moments = (&mut first, &mut second);
            backend.adam(&settings, &backend.upload(1, n, &gradient), moments, &mut weights);
            let correction = |beta: f32| 1.0 - f64::from(beta).powi(step as i32);
            let step_size = (f64::from(0.01_f32) / correction(beta1)) as f32;
            let root2 = correction(beta2).sqrt() as f32;
            let device_gradient = Buffer::from_values(&gradient);
            let [w, m, v] = device.each_ref().map(Argument::from);
            let pointers = [Argument::from(&device_gradient), m, v, w, Argument::U64(n as u64)];
            let numbers = [beta1, beta2, step_size, root2, 1e-8, 5e-4].map(Argument::F32);
            way(turn).run(&ADAM, (1, n), &[&pointers[..], &numbers].concat());
        }
        for (device, matrix) in device.iter().zip([&weights, &first, &second]) {
            assert_same_bits(&device.values(), matrix.values(), "Adam");
        }
    }
}
