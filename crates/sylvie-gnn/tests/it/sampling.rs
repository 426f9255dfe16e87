//! Halo rows left out, and halo rows that stand for others.

use sylvie_gnn::{ModelKind, Weights};
use sylvie_graph::{Block, Csr, PartGraph};
use sylvie_tensor::CpuBackend;

use crate::blocks::{Case, Outcome, WIDTH_IN, alternate, networks, part};
use crate::{KINDS, assert_close, dropout};

fn assert_same(found: &Outcome, expected: &Outcome, what: &str) {
    assert_close(&found.y, &expected.y, 1e-5, &format!("{what}: output"));
    assert_close(&found.own, &expected.own, 1e-5, &format!("{what}: own gradient"));
    for (found, expected) in found.halo.iter().zip(&expected.halo) {
        assert_close(found, expected, 1e-5, &format!("{what}: halo gradient"));
    }
    for (found, expected) in found.weights.iter().zip(&expected.weights) {
        assert_close(found, expected, 1e-5, &format!("{what}: weight gradient"));
    }
}

/// The block with other edges, given as (local row, column); its columns stay.
fn with_edges(block: &Block, edges: &[(u32, u32)]) -> Block {
    let mut rows: Vec<u32> = edges.iter().map(|&(row, _)| row).collect();
    rows.sort_unstable();
    rows.dedup();
    let mut edges = edges.to_vec();
    edges.sort_unstable();
    let end = |row: &u32| edges.partition_point(|(reader, _)| reader <= row) as u64;
    let indptr = std::iter::once(0).chain(rows.iter().map(end)).collect();
    let columns = edges.iter().map(|&(_, column)| column).collect();
    let edges = Csr::new(block.column_ids.len(), indptr, columns).expect("edges");
    Block { rows, edges, ..block.clone() }
}

fn edges(block: &Block) -> Vec<(u32, u32)> {
    let rows = block.rows.iter().enumerate();
    rows.flat_map(|(place, &row)| block.edges.row(place).iter().map(move |&u| (row, u))).collect()
}

/// The part without the edges of halo columns whose factor is 0.
fn without_dropped(part: &PartGraph, factors: &[Option<Vec<f32>>]) -> PartGraph {
    let mut part = part.clone();
    for (block, factors) in part.blocks[1..].iter_mut().zip(factors) {
        if let Some(factors) = factors {
            let is_kept = |edge: &(u32, u32)| factors[edge.1 as usize] != 0.0;
            let kept: Vec<(u32, u32)> = edges(block).into_iter().filter(is_kept).collect();
            *block = with_edges(block, &kept);
        }
    }
    part
}

#[test]
fn a_dropped_row_is_a_row_without_edges() {
    for kind in KINDS {
        for network in &networks(kind) {
            for (seed, dropout) in [(1, None), (2, Some(dropout(0.4, 1))), (3, None)] {
                let part = part(seed);
                let n_rows = |block: usize| part.blocks[1 + block].column_ids.len();
                // Some rows of one block; all of both.
                for factors in [
                    vec![alternate(n_rows(0), 1.0), None],
                    vec![Some(vec![0.0; n_rows(0)]), Some(vec![0.0; n_rows(1)])],
                ] {
                    let what = format!("{kind}, seed {seed}");
                    let mut sampled = Case { dropout, ..Case::new(network, &part) };
                    sampled.factors.clone_from(&factors);
                    let smaller = without_dropped(&part, &factors);
                    let cut = Case { dropout, ..Case::new(network, &smaller) };
                    let (sampled, cut) = (sampled.outcome(), cut.outcome());
                    assert_same(&sampled, &cut, &what);
                    for (gradients, factors) in sampled.halo.iter().zip(&factors) {
                        let rows = gradients.chunks_exact(WIDTH_IN).zip(factors.iter().flatten());
                        for (gradient, _) in rows.filter(|(_, factor)| **factor == 0.0) {
                            assert_eq!(gradient, [0.0; WIDTH_IN], "{what}: a dropped row");
                        }
                    }
                }
            }
        }
    }
}

/// The part with each halo column of the first block twice, one copy after the other.
fn with_twins(part: &PartGraph) -> PartGraph {
    let mut part = part.clone();
    let block = &mut part.blocks[1];
    let twice = |values: &[u32]| values.iter().flat_map(|&v| [v, v]).collect::<Vec<u32>>();
    let both: Vec<(u32, u32)> =
        edges(block).into_iter().flat_map(|(row, u)| [(row, 2 * u), (row, 2 * u + 1)]).collect();
    block.column_ids = twice(&block.column_ids);
    block.column_degrees = twice(&block.column_degrees);
    *block = with_edges(block, &both);
    part
}

/// One row of factor 2 is two rows, in every sum, attention's two included.
#[test]
fn a_row_of_factor_two_counts_twice() {
    for kind in KINDS {
        for network in &networks(kind) {
            for (seed, dropout) in [(1, None), (2, Some(dropout(0.4, 1)))] {
                let part = part(seed);
                let mut weighed = Case { dropout, ..Case::new(network, &part) };
                weighed.factors[0] = Some(vec![2.0; part.blocks[1].column_ids.len()]);
                let twins = with_twins(&part);
                let mut twice = Case { dropout, ..Case::new(network, &twins) };
                let rows = weighed.halo[0].chunks_exact(WIDTH_IN);
                twice.halo[0] = rows.flat_map(|row| [row, row].concat()).collect();
                twice.halo[1].clone_from(&weighed.halo[1]);
                let mut twice = twice.outcome();
                let pairs = twice.halo[0].chunks_exact(2 * WIDTH_IN);
                let sum = |pair: &[f32]| {
                    let (a, b) = pair.split_at(WIDTH_IN);
                    a.iter().zip(b).map(|(a, b)| a + b).collect::<Vec<f32>>()
                };
                twice.halo[0] = pairs.flat_map(sum).collect();
                assert_same(&weighed.outcome(), &twice, &format!("{kind}, seed {seed}"));
            }
        }
    }
}

/// One weighed sum over the rows that row `row` of `case` reads: (factor, degree, row) of each.
fn readings<'a>(case: &'a Case<'_>, row: usize) -> Vec<(f64, f64, &'a [f32])> {
    let mut found = Vec::new();
    for (index, block) in case.part.blocks.iter().enumerate() {
        let (x, factors) = match index {
            0 => (&case.own, None),
            _ => (&case.halo[index - 1], case.factors[index - 1].as_ref()),
        };
        for (_, u) in edges(block).into_iter().filter(|&(reader, _)| reader as usize == row) {
            let u = u as usize;
            let factor = factors.map_or(1.0, |factors| f64::from(factors[u]));
            let degree = f64::from(block.column_degrees[u]);
            found.push((factor, degree, &x[u * WIDTH_IN..][..WIDTH_IN]));
        }
    }
    found
}

fn product(x: &[f64], w: &[f32]) -> Vec<f64> {
    let n_cols = w.len() / x.len();
    let column = |j| x.iter().enumerate().map(|(i, x)| x * f64::from(w[i * n_cols + j])).sum();
    (0..n_cols).map(column).collect()
}

fn doubles(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&value| f64::from(value)).collect()
}

/// The output of a last layer by its formula, in double precision.
fn by_formula(case: &Case<'_>, kind: ModelKind, tensors: &[Vec<f32>], row: usize) -> Vec<f64> {
    let own = doubles(&case.own[row * WIDTH_IN..][..WIDTH_IN]);
    let degree = f64::from(case.part.degrees[row]);
    let read = readings(case, row);
    let weighed = |weight: &dyn Fn(f64, f64) -> f64, start: Vec<f64>| {
        read.iter().fold(start, |sum, &(factor, degree, x)| {
            let weight = weight(factor, degree);
            sum.iter().zip(x).map(|(sum, &x)| sum + weight * f64::from(x)).collect()
        })
    };
    match kind {
        ModelKind::Gcn => {
            let root = (degree + 1.0).sqrt();
            let start = own.iter().map(|x| x / (root * root)).collect();
            let sum = weighed(&|factor, of| factor / (root * (of + 1.0).sqrt()), start);
            product(&sum, &tensors[0])
        }
        ModelKind::Sage => {
            let mean = weighed(&|factor, _| factor / degree.max(1.0), vec![0.0; WIDTH_IN]);
            let pairs = product(&own, &tensors[0]).into_iter().zip(product(&mean, &tensors[1]));
            pairs.map(|(own, mean)| own + mean).collect()
        }
        ModelKind::Gat => {
            let width = tensors[1].len() / 2;
            let target = product(&own, &tensors[0]);
            let mut y = vec![0.0; width];
            for head in 0..2 {
                let part = head * width..(head + 1) * width;
                let score = |z: &[f64], a: &[f32]| -> f64 {
                    z[part.clone()]
                        .iter()
                        .zip(&a[part.clone()])
                        .map(|(z, &a)| z * f64::from(a))
                        .sum()
                };
                let of_target = score(&target, &tensors[2]);
                let (mut sum, mut values) = (0.0, vec![0.0; width]);
                let selves = [(1.0, 0.0, &case.own[row * WIDTH_IN..][..WIDTH_IN])];
                for &(factor, _, x) in selves.iter().chain(&read) {
                    let z = product(&doubles(x), &tensors[0]);
                    let raw = score(&z, &tensors[1]) + of_target;
                    let leaky = if raw > 0.0 { raw } else { 0.2 * raw };
                    let weight = (leaky + f64::ln(factor)).exp();
                    sum += weight;
                    for (value, z) in values.iter_mut().zip(&z[part.clone()]) {
                        *value += weight * z;
                    }
                }
                y.iter_mut().zip(&values).for_each(|(y, value)| *y += value / sum / 2.0);
            }
            y
        }
    }
}

#[test]
fn sampled_layers_are_their_formulas() {
    let backend = CpuBackend::new(1);
    for kind in KINDS {
        let network = &networks(kind)[1];
        let n_first = network.config().tensors(0).len();
        let tensors = Weights::glorot(&backend, network.config(), 4).to_host(&backend);
        for (seed, rate) in [(1, 0.1_f32), (2, 0.3), (3, 0.75)] {
            let part = part(seed);
            let mut case = Case::new(network, &part);
            for (factors, block) in case.factors.iter_mut().zip(part.halo_blocks()) {
                *factors = alternate(block.column_ids.len(), 1.0 / rate);
            }
            let rows = 0..part.n_local();
            let expected = rows.flat_map(|row| by_formula(&case, kind, &tensors[n_first..], row));
            let expected: Vec<f32> = expected.map(|value| value as f32).collect();
            assert_close(&case.outcome().y, &expected, 1e-5, &format!("{kind} at rate {rate}"));
        }
    }
}
