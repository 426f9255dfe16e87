//! Edges of a planted graph, each pair once, by the planted numbers.

use std::ops::Range;

use rayon::prelude::*;
use sylvie_random::Sequence;

use super::planting::Planting;
use super::settings::Settings;
use super::{Purpose, family};

/// Long edges drawn by one sequence.
const CHUNK: usize = 4096;
/// How likely a long edge stays in its class.
const SAME_CLASS: f64 = 0.8;
/// Most of a community's pairs that are edges.
const MAX_DENSITY: f64 = 0.9;
/// Draws an edge may take before a crowded community is left with fewer.
const MAX_TRIES: usize = 40;

/// Draws the edges inside communities, then the long ones.
pub(super) fn draw(settings: &Settings, planting: &Planting) -> Vec<(u32, u32)> {
    let local: Vec<Vec<(u32, u32)>> = planting
        .communities
        .par_iter()
        .zip(0_u32..planting.communities.len() as u32)
        .map(|(community, index)| draw_local(settings, planting, community, index))
        .collect();
    let n_long = (half_degrees(settings) * (1.0 - settings.locality)).round() as usize;
    let ends = LongEnds::new(settings, planting);
    let long: Vec<Vec<(u32, u32)>> = (0..n_long.div_ceil(CHUNK))
        .into_par_iter()
        .map(|chunk| {
            let n_edges = CHUNK.min(n_long - chunk * CHUNK);
            let draws = Sequence::new(family(settings.seed, Purpose::LongEdges), chunk as u32);
            draw_long(settings, planting, &ends, n_edges, draws)
        })
        .collect();
    [local.concat(), long.concat()].concat()
}

fn half_degrees(settings: &Settings) -> f64 {
    f64::from(settings.nodes) * f64::from(settings.degree) / 2.0
}

/// Distinct pairs of a community, drawn by the square roots of weights until there are enough.
fn draw_local(
    settings: &Settings,
    planting: &Planting,
    community: &Range<u32>,
    index: u32,
) -> Vec<(u32, u32)> {
    let size = community.len();
    let n_pairs = size * (size - 1) / 2;
    let share = size as f64 / f64::from(settings.nodes);
    let wanted = half_degrees(settings) * share * settings.locality;
    let n_edges = (wanted.round() as usize).min((n_pairs as f64 * MAX_DENSITY) as usize);
    let nodes = community.start as usize..community.end as usize;
    let ladder = Ladder::new(planting.weights[nodes].iter().map(|weight| weight.sqrt()));
    let mut draws = Sequence::new(family(settings.seed, Purpose::LocalEdges), index);
    let mut is_taken = vec![false; size * size];
    let mut edges = Vec::with_capacity(n_edges);
    for _ in 0..n_edges * MAX_TRIES {
        if edges.len() == n_edges {
            break;
        }
        let (a, b) = (ladder.draw(&mut draws), ladder.draw(&mut draws));
        let cell = a.min(b) * size + a.max(b);
        if a != b && !is_taken[cell] {
            is_taken[cell] = true;
            edges.push((community.start + a as u32, community.start + b as u32));
        }
    }
    edges
}

/// Where long edges may end.
struct LongEnds {
    anywhere: Ladder,
    /// Nodes of each class, and their weights.
    by_class: Vec<(Vec<u32>, Ladder)>,
}

impl LongEnds {
    fn new(settings: &Settings, planting: &Planting) -> Self {
        let mut members = vec![Vec::new(); settings.classes as usize];
        for (node, &class) in (0_u32..).zip(&planting.classes) {
            members[class as usize].push(node);
        }
        let by_class = members.into_iter().map(|nodes| {
            let ladder = Ladder::new(nodes.iter().map(|&node| planting.weights[node as usize]));
            (nodes, ladder)
        });
        Self {
            anywhere: Ladder::new(planting.weights.iter().copied()),
            by_class: by_class.collect(),
        }
    }
}

/// From a node drawn evenly to one drawn by weight, of its class more often than not.
fn draw_long(
    settings: &Settings,
    planting: &Planting,
    ends: &LongEnds,
    n_edges: usize,
    mut draws: Sequence,
) -> Vec<(u32, u32)> {
    let mut edges = Vec::with_capacity(n_edges);
    for _ in 0..n_edges {
        let from = draws.below(settings.nodes);
        let to = if draws.next_f64() < SAME_CLASS {
            let (nodes, ladder) = &ends.by_class[planting.classes[from as usize] as usize];
            nodes[ladder.draw(&mut draws)]
        } else {
            ends.anywhere.draw(&mut draws) as u32
        };
        edges.push((from, to));
    }
    edges
}

/// Running sums of weights, to draw positions by weight.
struct Ladder {
    sums: Vec<f64>,
}

impl Ladder {
    fn new(weights: impl Iterator<Item = f64>) -> Self {
        let sums = weights.scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self { sums: sums.collect() }
    }

    /// # Panics
    /// If there are no weights.
    fn draw(&self, draws: &mut Sequence) -> usize {
        let last = self.sums.len() - 1;
        let height = draws.next_f64() * self.sums[last];
        self.sums.partition_point(|&sum| sum <= height).min(last)
    }
}
