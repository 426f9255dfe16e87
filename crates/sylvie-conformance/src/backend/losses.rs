//! Losses and the optimiser.

use sylvie_tensor::{AdamStep, Backend};

use super::{Host, TOLERANCE, assert_close, numbers, some_of};

fn assert_loss(found: f64, exact: f64, what: &str) {
    let error = (found - exact).abs();
    assert!(error <= TOLERANCE * exact.abs().max(1.0), "{what}: {found} instead of {exact}");
}

/// Both losses and their gradients, on some of the rows.
pub fn losses<B: Backend>(backend: &B) {
    for (n_rows, n_classes) in [(1, 1), (0, 3), (40, 7), (300, 41), (5, 130), (9000, 2)] {
        let what = |name: &str| format!("{name}, {n_rows} rows of {n_classes}");
        let logits = Host::random(1, n_rows, n_classes);
        let rows = some_of(2, n_rows);
        let classes = numbers(3, rows.len(), n_classes);
        let (mut loss, mut gradient) = (0.0, vec![0.0; n_rows * n_classes]);
        for (&row, &class) in rows.iter().zip(&classes) {
            let row = row as usize;
            let exponentials: Vec<f64> = logits.row(row).iter().map(|v| v.exp()).collect();
            let sum: f64 = exponentials.iter().sum();
            loss += sum.ln() - logits.at(row, class as usize);
            for (j, e) in exponentials.iter().enumerate() {
                let hit = if j == class as usize { 1.0 } else { 0.0 };
                gradient[row * n_classes + j] = e / sum - hit;
            }
        }
        let (rows_on, classes_on) = (backend.upload_index(&rows), backend.upload_index(&classes));
        let mut found = Host::random(9, n_rows, n_classes).on(backend);
        let logits_on = logits.on(backend);
        let sum = backend.softmax_cross_entropy(&logits_on, &rows_on, &classes_on, &mut found);
        assert_loss(sum, loss, &what("softmax_cross_entropy"));
        assert_close(backend, &found, &gradient, &what("gradient of softmax_cross_entropy"));

        let mut targets = Host::random(4, rows.len(), n_classes);
        targets.values.iter_mut().for_each(|v| *v = if *v > 0.0 { 1.0 } else { 0.0 });
        let (mut loss, mut gradient) = (0.0, vec![0.0; n_rows * n_classes]);
        for (i, &row) in rows.iter().enumerate() {
            for j in 0..n_classes {
                let (x, t) = (logits.at(row as usize, j), targets.at(i, j));
                loss += ((1.0 + x.exp()).ln() - x * t) / n_classes as f64;
                let sigmoid = 1.0 / (1.0 + (-x).exp());
                gradient[row as usize * n_classes + j] = (sigmoid - t) / n_classes as f64;
            }
        }
        let mut found = Host::random(9, n_rows, n_classes).on(backend);
        let targets_on = targets.on(backend);
        let sum = backend.binary_cross_entropy(&logits_on, &rows_on, &targets_on, &mut found);
        assert_loss(sum, loss, &what("binary_cross_entropy"));
        assert_close(backend, &found, &gradient, &what("gradient of binary_cross_entropy"));
    }
}

/// Three steps of Adam.
pub fn adam<B: Backend>(backend: &B) {
    for (n_rows, n_cols) in [(1, 1), (7, 5), (33, 129)] {
        let weights = Host::random(1, n_rows, n_cols);
        let zeros = || backend.zeros(n_rows, n_cols);
        let (mut found, mut first, mut second) = (weights.on(backend), zeros(), zeros());
        let mut exact = weights.doubles();
        let (mut m, mut v) = (vec![0.0; exact.len()], vec![0.0; exact.len()]);
        for step in 1..=3 {
            let settings = AdamStep {
                learning_rate: 0.01,
                beta1: 0.9,
                beta2: 0.999,
                epsilon: 1e-8,
                weight_decay: 0.02,
                step,
            };
            let gradient = Host::random(10 + u64::from(step), n_rows, n_cols);
            let [beta1, beta2, rate, epsilon, decay] = [
                settings.beta1,
                settings.beta2,
                settings.learning_rate,
                settings.epsilon,
                settings.weight_decay,
            ]
            .map(f64::from);
            for (place, weight) in exact.iter_mut().enumerate() {
                let g = f64::from(gradient.values[place]) + decay * *weight;
                m[place] = beta1 * m[place] + (1.0 - beta1) * g;
                v[place] = beta2 * v[place] + (1.0 - beta2) * g * g;
                let corrected = m[place] / (1.0 - beta1.powi(step as i32));
                let root = (v[place] / (1.0 - beta2.powi(step as i32))).sqrt();
                *weight -= rate * corrected / (root + epsilon);
            }
            let moments = (&mut first, &mut second);
            backend.adam(&settings, &gradient.on(backend), moments, &mut found);
        }
        assert_close(backend, &found, &exact, &format!("adam, {n_rows} x {n_cols}"));
    }
}
