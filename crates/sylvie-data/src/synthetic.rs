//! Generated graphs: planted communities, skewed degrees, features that say little on their own.
//!
//! Nodes live in small communities (tens of nodes) that hold the share `locality` of the edges. A
//! community has a class, which most of its nodes share. Inside it, ends of edges are drawn by a mild
//! power law; the other edges go anywhere, mostly to nodes of the same class, by a heavier one, which
//! makes hubs. Node numbers are shuffled, so that a contiguous partition finds nothing.
//!
//! Every draw is a function of the seed, the purpose and its position, so that the graph does not
//! depend on the number of threads; only exactly rounded operations turn draws into values.

mod edges;
mod planting;
mod settings;
mod signal;

use std::path::Path;

use sylvie_graph::{DenseMatrix, Features, Labels};
use sylvie_random::{Coordinates, Family, Pass, Sequence, Stream};

use crate::error::{DataError, Place};
use crate::raw::Raw;
use crate::splits::halves_and_quarters;
use planting::Planting;
use settings::Settings;

pub(crate) use settings::is_synthetic;

/// What a family of draws is for.
#[derive(Clone, Copy)]
enum Purpose {
    Communities,
    Weights,
    Labels,
    LocalEdges,
    LongEdges,
    Order,
    ClassSignals,
    Noise,
}

fn family(seed: u64, purpose: Purpose) -> Family {
    Coordinates::new(seed, Stream::Generator).at(0, purpose as u8, Pass::Forward).family()
}

/// Generates the graph that `source` describes, split into halves and quarters by `split_seed`.
///
/// # Cost
/// Linear in nodes times features and in edges; parallel but for the cleaning that follows.
/// # Errors
/// A setting that is unknown, unreadable or out of range.
pub(crate) fn generate(source: &str, split_seed: u64) -> Result<Raw, DataError> {
    let settings: Settings = source.parse()?;
    let planting = Planting::draw(&settings);
    let ids = shuffled_ids(&settings);
    let mut edges = edges::draw(&settings, &planting);
    for (source, target) in &mut edges {
        *source = ids[*source as usize];
        *target = ids[*target as usize];
    }
    let place = Place::file(Path::new(source));
    let mut nodes = vec![0_u32; ids.len()];
    for (node, &id) in (0_u32..).zip(&ids) {
        nodes[id as usize] = node;
    }
    let rows = signal::features(&settings, &planting, &nodes);
    let features = DenseMatrix::new(ids.len(), settings.features as usize, rows)
        .map_err(DataError::graph(&place))?;
    let labels = labels(&settings, &planting, &nodes).map_err(DataError::graph(&place))?;
    Ok(Raw {
        name: settings::WORD.to_owned(),
        edges_at: place,
        edges,
        features: Features::Dense(features),
        labels,
        split: halves_and_quarters(ids.len(), split_seed),
    })
}

/// For each planted node its number in the graph.
fn shuffled_ids(settings: &Settings) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..settings.nodes).collect();
    Sequence::new(family(settings.seed, Purpose::Order), 0).shuffle(&mut ids);
    ids
}

fn labels(
    settings: &Settings,
    planting: &Planting,
    nodes: &[u32],
) -> Result<Labels, sylvie_graph::GraphError> {
    if !settings.multi {
        let classes = nodes.iter().map(|&node| planting.classes[node as usize]).collect();
        return Labels::single(settings.classes, classes);
    }
    let values = nodes.iter().flat_map(|&node| planting.class_set(node)).copied().collect();
    Labels::multi(settings.classes, values)
}

#[cfg(test)]
mod tests {
    use super::edges;
    use super::planting::Planting;
    use super::settings::Settings;

    #[test]
    fn communities_are_small_and_hold_the_share_of_edges_asked_for() {
        for locality in ["0.5", "0.9", "1"] {
            let source = format!("synthetic:locality={locality}");
            let settings: Settings = source.parse().unwrap();
            let planting = Planting::draw(&settings);
            assert!(planting.communities.iter().all(|community| community.len() <= 120));
            let edges = edges::draw(&settings, &planting);
            let mut community_of = vec![0; settings.nodes as usize];
            for (index, community) in planting.communities.iter().enumerate() {
                for node in community.clone() {
                    community_of[node as usize] = index;
                }
            }
            let is_local =
                |&&(s, t): &&(u32, u32)| community_of[s as usize] == community_of[t as usize];
            let share = edges.iter().filter(is_local).count() as f64 / edges.len() as f64;
            assert!((share - settings.locality).abs() < 0.02, "{share} at {locality}");
        }
    }
}
