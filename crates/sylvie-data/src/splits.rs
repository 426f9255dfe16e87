//! Splits, read and drawn.

use std::io::Read;

use sylvie_graph::{Labels, Role, Split};
use sylvie_random::{Coordinates, Sequence, Stream};

use crate::error::{DataError, Place};
use crate::npy::{Kind, Npy};
use crate::split_rule::SplitRule;

/// Training nodes a class in a drawn split.
const N_TRAIN_PER_CLASS: usize = 20;
/// Validation nodes a class in a drawn split.
const N_VAL_PER_CLASS: usize = 30;

/// Reads one set: a bool a node, or the numbers of its nodes.
pub(crate) fn read_set(npy: Npy<impl Read>, n_nodes: usize) -> Result<Vec<u32>, DataError> {
    let npy = npy.dims(1)?;
    if npy.kind() == Some(Kind::Bool) {
        let mask = npy.flags()?;
        mask.expect_rows(n_nodes, "one a node")?;
        return Ok(members(&mask.values));
    }
    let ids = npy.ids()?;
    check_ids(&ids.place, &ids.values, n_nodes)?;
    Ok(ids.values)
}

/// Node numbers whose flag is 1.
pub(crate) fn members(mask: &[u8]) -> Vec<u32> {
    (0_u32..).zip(mask).filter(|&(_, &flag)| flag == 1).map(|(id, _)| id).collect()
}

/// Checks that node numbers are below `n_nodes`, each given once, and not a mask's zeros and ones.
pub(crate) fn check_ids(place: &Place, ids: &[u32], n_nodes: usize) -> Result<(), DataError> {
    if ids.len() > 2 && ids.iter().all(|&id| id <= 1) {
        return Err(DataError::LooksLikeMask { place: place.clone(), n_values: ids.len() });
    }
    let mut is_seen = vec![false; n_nodes];
    for (position, &node) in ids.iter().enumerate() {
        let place = || place.clone();
        match is_seen.get_mut(node as usize) {
            Some(is_seen) if *is_seen => {
                return Err(DataError::DuplicateNode { place: place(), position, node });
            }
            Some(is_seen) => *is_seen = true,
            None => {
                let (value, expected) = (node.to_string(), format!("a node below {n_nodes}"));
                return Err(DataError::BadValue { place: place(), position, value, expected });
            }
        }
    }
    Ok(())
}

/// The split of a set that has none: 20 training and 30 validation nodes a class, the rest test; for
/// multi-labels, which have no such convention, [`halves_and_quarters`].
pub(crate) fn draw(labels: &Labels, seed: u64) -> Split {
    let Labels::Single { n_classes, classes } = labels else {
        return halves_and_quarters(labels.n_nodes(), seed);
    };
    per_class(*n_classes, classes, [N_TRAIN_PER_CLASS, N_VAL_PER_CLASS], seed)
}

/// The split that `rule` asks for; `None` for the set's own.
///
/// # Errors
/// Nodes a class where nodes have several, or more of them than leave any to validate and to test.
pub(crate) fn draw_by(
    place: &Place,
    rule: SplitRule,
    labels: &Labels,
    seed: u64,
) -> Result<Option<Split>, DataError> {
    match (rule, labels) {
        (SplitRule::Given, _) => Ok(None),
        (SplitRule::Random { train, val }, _) => Ok(Some(shares(labels, [train, val], seed))),
        (SplitRule::PerClass { train, val }, Labels::Single { n_classes, classes }) => {
            check_classes(place, *n_classes, classes, [train.into(), val.into()])?;
            let counts = [train as usize, val as usize];
            Ok(Some(per_class(*n_classes, classes, counts, seed)))
        }
        (SplitRule::PerClass { .. }, Labels::Multi { .. }) => {
            Err(DataError::NoClassOfItsOwn { place: place.clone() })
        }
    }
}

/// Checks that the largest class has nodes for all three sets. Smaller ones may have too few: all of theirs train.
fn check_classes(
    place: &Place,
    n_classes: u32,
    classes: &[u32],
    [train, val]: [u64; 2],
) -> Result<(), DataError> {
    let mut counts = vec![0_u64; n_classes as usize];
    for &class in classes {
        // Nodes without a class have no counter either.
        counts.get_mut(class as usize).into_iter().for_each(|count| *count += 1);
    }
    let n_largest = counts.into_iter().max().unwrap_or(0);
    if n_largest > train + val {
        return Ok(());
    }
    Err(DataError::ClassesTooSmall { place: place.clone(), train, val, n_largest })
}

fn shares(labels: &Labels, [train, val]: [f64; 2], seed: u64) -> Split {
    let mut nodes = shuffled(labels.n_nodes(), seed);
    nodes.retain(|&node| labels.is_labelled(node as usize));
    let count = |share: f64| (share * nodes.len() as f64).round() as usize;
    let (n_train, n_val) = (count(train), count(val));
    let mut roles = vec![Role::None; labels.n_nodes()];
    for (position, &node) in nodes.iter().enumerate() {
        roles[node as usize] = match position {
            position if position < n_train => Role::Train,
            position if position < n_train + n_val => Role::Val,
            _ => Role::Test,
        };
    }
    Split::new(roles)
}

fn per_class(n_classes: u32, classes: &[u32], [train, val]: [usize; 2], seed: u64) -> Split {
    let mut roles = vec![Role::None; classes.len()];
    let mut n_seen = vec![0_usize; n_classes as usize];
    for node in shuffled(classes.len(), seed) {
        // Nodes without a class have no counter either.
        let Some(n_seen) = n_seen.get_mut(classes[node as usize] as usize) else { continue };
        roles[node as usize] = match *n_seen {
            n if n < train => Role::Train,
            n if n < train + val => Role::Val,
            _ => Role::Test,
        };
        *n_seen += 1;
    }
    Split::new(roles)
}

/// Half of the nodes train, a quarter validates, a quarter tests.
pub(crate) fn halves_and_quarters(n_nodes: usize, seed: u64) -> Split {
    let mut roles = vec![Role::Test; n_nodes];
    for (position, node) in shuffled(n_nodes, seed).into_iter().enumerate() {
        if position < n_nodes / 2 {
            roles[node as usize] = Role::Train;
        } else if position < n_nodes / 2 + n_nodes / 4 {
            roles[node as usize] = Role::Val;
        }
    }
    Split::new(roles)
}

fn shuffled(n_nodes: usize, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0_u32..).take(n_nodes).collect();
    Sequence::new(Coordinates::new(seed, Stream::Split).family(), 0).shuffle(&mut order);
    order
}
