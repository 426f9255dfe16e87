//! Dense products.

use sylvie_tensor::{Backend, Mode};

use super::{Host, assert_close};

/// Sizes of the three dimensions of a product.
const SIZES: [(usize, usize, usize); 8] = [
    (1, 1, 1),
    (0, 3, 2),
    (3, 0, 2),
    (3, 2, 0),
    (5, 7, 3),
    (33, 12, 70),
    (130, 65, 4),
    (600, 9, 17),
];

/// `a b`, `a^T b` and `a b^T`, assigned and added.
pub fn dense_products<B: Backend>(backend: &B) {
    for (case, (m, k, n)) in SIZES.into_iter().enumerate() {
        let seed = case as u64 * 10;
        for mode in [Mode::Assign, Mode::Add] {
            let before = Host::random(seed, m, n);
            let kept = if mode == Mode::Add { 1.0 } else { 0.0 };
            let expect = |value: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
                let places = (0..m).flat_map(|i| (0..n).map(move |j| (i, j)));
                places.map(|(i, j)| kept * before.at(i, j) + value(i, j)).collect()
            };
            let what = |name: &str| format!("{name}, {m} x {k} x {n}, {mode:?}");

            let (a, b) = (Host::random(seed + 1, m, k), Host::random(seed + 2, k, n));
            let mut out = before.on(backend);
            backend.matmul(&a.on(backend), &b.on(backend), mode, &mut out);
            let exact = expect(&|i, j| (0..k).map(|p| a.at(i, p) * b.at(p, j)).sum());
            assert_close(backend, &out, &exact, &what("a b"));

            let a = Host::random(seed + 3, k, m);
            let mut out = before.on(backend);
            backend.matmul_tn(&a.on(backend), &b.on(backend), mode, &mut out);
            let exact = expect(&|i, j| (0..k).map(|p| a.at(p, i) * b.at(p, j)).sum());
            assert_close(backend, &out, &exact, &what("a^T b"));

            let (a, b) = (Host::random(seed + 4, m, k), Host::random(seed + 5, n, k));
            let mut out = before.on(backend);
            backend.matmul_nt(&a.on(backend), &b.on(backend), mode, &mut out);
            let exact = expect(&|i, j| (0..k).map(|p| a.at(i, p) * b.at(j, p)).sum());
            assert_close(backend, &out, &exact, &what("a b^T"));
        }
    }
}
