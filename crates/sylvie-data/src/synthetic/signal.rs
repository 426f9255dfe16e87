//! Features: a faint signal of the class under noise.

use rayon::prelude::*;
use sylvie_random::Family;

use super::planting::Planting;
use super::settings::Settings;
use super::{Purpose, family};

/// Length of a class's signal over the noise's deviation, for each unit of [`spread`].
const SIGNAL: f64 = 1.0;

/// Features of the nodes with planted numbers `nodes`, in that order.
///
/// # Layout
/// `nodes x features`, row-major.
pub(super) fn features(settings: &Settings, planting: &Planting, nodes: &[u32]) -> Vec<f32> {
    let width = settings.features as usize;
    let signals = class_signals(settings);
    let noise = family(settings.seed, Purpose::Noise);
    let mut values = vec![0.0; nodes.len() * width];
    values.par_chunks_exact_mut(width).zip(nodes).for_each(|(row, &node)| {
        fill_bell(&noise, node, row);
        if settings.multi {
            for (signal, &has) in signals.chunks_exact(width).zip(planting.class_set(node)) {
                if has == 1 {
                    add(row, signal);
                }
            }
        } else {
            let class = planting.classes[node as usize] as usize;
            add(row, &signals[class * width..][..width]);
        }
    });
    values
}

fn add(row: &mut [f32], signal: &[f32]) {
    for (value, &signal) in row.iter_mut().zip(signal) {
        *value += signal;
    }
}

/// One direction a class, all of one length.
fn class_signals(settings: &Settings) -> Vec<f32> {
    let width = settings.features as usize;
    let directions = family(settings.seed, Purpose::ClassSignals);
    let mut signals = vec![0.0; settings.classes as usize * width];
    for (class, signal) in (0_u32..).zip(signals.chunks_exact_mut(width)) {
        fill_bell(&directions, class, signal);
        let norm = signal.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        let scale = SIGNAL * spread(settings.classes) / norm.max(f64::MIN_POSITIVE);
        for value in signal {
            *value = (f64::from(*value) * scale) as f32;
        }
    }
    signals
}

/// About how far the largest of `n_classes` draws of noise lies out: `sqrt(ln n)`, by the bits of `n`
/// because a logarithm is rounded differently on different machines.
fn spread(n_classes: u32) -> f64 {
    const LN_2: f64 = std::f64::consts::LN_2;
    let bits = n_classes.ilog2();
    let rest = f64::from(n_classes) / f64::from(1_u32 << bits) - 1.0;
    ((f64::from(bits) + rest) * LN_2).sqrt()
}

/// Bell-shaped noise of mean 0 and variance 1: the sum of a word's four bytes.
fn fill_bell(family: &Family, node: u32, row: &mut [f32]) {
    // Four uniform bytes have the mean 510 and the variance 4 * (256^2 - 1) / 12.
    const MEAN: f32 = 510.0;
    const DEVIATION: f32 = 147.801_22;
    for (block, values) in (0_u32..).zip(row.chunks_mut(4)) {
        for (value, word) in values.iter_mut().zip(family.block(node, block)) {
            let sum: u32 = word.to_le_bytes().map(u32::from).iter().sum();
            *value = (sum as f32 - MEAN) / DEVIATION;
        }
    }
}
