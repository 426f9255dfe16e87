//! Communities, classes and weights of nodes, before any edge.

use std::ops::Range;

use sylvie_random::{Sequence, unit_f64};

use super::settings::Settings;
use super::{Purpose, family};

/// Smallest community, in nodes, whatever the degree.
const MIN_COMMUNITY: u32 = 16;
/// How likely a node has its community's class, where no noise is asked for.
const PURITY: f64 = 0.92;
/// How likely a community has a class besides its own, with multi-labels.
const EXTRA_CLASS: f64 = 0.2;
/// How likely a node lacks a class of its community, with multi-labels and without noise.
const MISSING_CLASS: f64 = 0.1;
/// How likely a node has a class that its community lacks, with multi-labels.
const STRAY_CLASS: f64 = 0.02;

/// Nodes in the order of their communities.
pub(super) struct Planting {
    /// Node ranges, one after the other.
    pub(super) communities: Vec<Range<u32>>,
    /// The class of each node; with multi-labels, its community's first class.
    pub(super) classes: Vec<u32>,
    /// How much each node draws edges: 1 at least, by a power law.
    pub(super) weights: Vec<f64>,
    /// With multi-labels, `nodes x classes` of 0 and 1.
    class_sets: Vec<u8>,
    n_classes: usize,
}

impl Planting {
    /// Draws everything.
    pub(super) fn draw(settings: &Settings) -> Self {
        let communities = draw_communities(settings);
        let mut planting = Self {
            communities,
            classes: Vec::with_capacity(settings.nodes as usize),
            weights: (0..settings.nodes).map(|node| draw_weight(settings, node)).collect(),
            class_sets: Vec::new(),
            n_classes: settings.classes as usize,
        };
        for (index, community) in (0_u32..).zip(planting.communities.clone()) {
            let main_class = index % settings.classes;
            if settings.multi {
                planting.push_class_sets(settings, index, main_class, community);
            } else {
                planting.push_classes(settings, main_class, community);
            }
        }
        planting
    }

    /// Zeros and ones, one a class, of a node; empty without multi-labels.
    pub(super) fn class_set(&self, node: u32) -> &[u8] {
        if self.class_sets.is_empty() {
            return &[];
        }
        &self.class_sets[node as usize * self.n_classes..][..self.n_classes]
    }

    fn push_classes(&mut self, settings: &Settings, main_class: u32, community: Range<u32>) {
        for node in community {
            let mut draws = Sequence::new(family(settings.seed, Purpose::Labels), node);
            let is_typical = draws.next_f64() < PURITY * (1.0 - settings.noise);
            let class = if is_typical { main_class } else { draws.below(settings.classes) };
            self.classes.push(class);
        }
    }

    fn push_class_sets(
        &mut self,
        settings: &Settings,
        index: u32,
        main_class: u32,
        community: Range<u32>,
    ) {
        let mut draws = Sequence::new(family(settings.seed, Purpose::Communities), index + 1);
        let shared: Vec<bool> = (0..settings.classes)
            .map(|class| draws.next_f64() < EXTRA_CLASS || class == main_class)
            .collect();
        let missing = MISSING_CLASS + (1.0 - MISSING_CLASS) * settings.noise;
        for node in community {
            let mut draws = Sequence::new(family(settings.seed, Purpose::Labels), node);
            let has = shared.iter().map(|&shared| {
                let draw = draws.next_f64();
                if shared { draw >= missing } else { draw < STRAY_CLASS }
            });
            self.class_sets.extend(has.map(u8::from));
            self.classes.push(main_class);
        }
    }
}

/// Ranges of two to four times the degree, so that the edges inside fit well; the last takes the rest.
fn draw_communities(settings: &Settings) -> Vec<Range<u32>> {
    let smallest = (2 * settings.degree).max(MIN_COMMUNITY);
    let mut draws = Sequence::new(family(settings.seed, Purpose::Communities), 0);
    let mut communities = Vec::new();
    let mut begin = 0;
    while begin < settings.nodes {
        let size = smallest + draws.below(smallest + 1);
        let left = settings.nodes - begin;
        let end = if left < size + smallest { settings.nodes } else { begin + size };
        communities.push(begin..end);
        begin = end;
    }
    communities
}

/// `u^(-3/4)` for uniform `u`: a power law of exponent 7/3, by square roots, which every machine
/// rounds alike. The largest of n is about `n^(3/4)`, and no draw goes beyond it.
fn draw_weight(settings: &Settings, node: u32) -> f64 {
    let words = family(settings.seed, Purpose::Weights).block(node, 0);
    let uniform = unit_f64(words[0], words[1]).max(1.0 / f64::from(settings.nodes));
    1.0 / (uniform.sqrt() * uniform.sqrt().sqrt())
}
