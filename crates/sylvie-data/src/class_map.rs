//! class_map.json, read entry by entry: the file is the largest text of a data set.

use std::fmt;
use std::io::BufReader;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use sylvie_graph::Labels;

use crate::error::{DataError, Place};
use crate::file;
use crate::labels;
use crate::npy::Array;

/// Reads one label for each of `n_nodes` nodes: all integers, or all lists of zeros and ones.
///
/// # Errors
/// No JSON of that form; a node given twice, not at all, or not below `n_nodes`.
pub(crate) fn read_labels(path: &Path, n_nodes: usize) -> Result<Labels, DataError> {
    let file = file::open(path)?;
    let mut entries = Entries::default();
    let mut reader = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, file));
    EntriesSeed(&mut entries)
        .deserialize(&mut reader)
        .and_then(|()| reader.end())
        .map_err(|problem| DataError::Json { path: path.to_owned(), problem })?;
    let order = order_by_node(path, &entries.nodes, n_nodes)?;
    let place = Place::file(path);
    match entries.width {
        None => {
            let classes: Vec<i64> = order.iter().map(|&at| entries.classes[at as usize]).collect();
            labels::single_renumbered(&place, &classes)
        }
        Some(width) => {
            let rows = order.iter().map(|&at| &entries.flags[at as usize * width..][..width]);
            let values = rows.flatten().copied().collect();
            labels::multi(Array { place, shape: vec![n_nodes, width], values })
        }
    }
}

/// For each node the position of its entry.
fn order_by_node(path: &Path, nodes: &[u32], n_nodes: usize) -> Result<Vec<u32>, DataError> {
    let mut order = vec![u32::MAX; n_nodes];
    for (position, &node) in (0_u32..).zip(nodes) {
        let place = || Place::key(path, node.to_string());
        let Some(slot) = order.get_mut(node as usize) else {
            let (value, expected) = (node.to_string(), format!("a node below {n_nodes}"));
            let position = position as usize;
            return Err(DataError::BadValue { place: place(), position, value, expected });
        };
        if *slot != u32::MAX {
            return Err(DataError::DuplicateEntry { place: place() });
        }
        *slot = position;
    }
    match order.iter().position(|&at| at == u32::MAX) {
        None => Ok(order),
        Some(node) => Err(DataError::MissingEntry { place: Place::file(path), node }),
    }
}

/// Entries in the file's order. Either `classes` has one a node, or `flags` has `width` a node.
#[derive(Default)]
struct Entries {
    nodes: Vec<u32>,
    classes: Vec<i64>,
    width: Option<usize>,
    flags: Vec<u8>,
}

struct EntriesSeed<'a>(&'a mut Entries);

impl<'de> DeserializeSeed<'de> for EntriesSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EntriesSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map from node numbers to labels")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let node = key
                .parse()
                .map_err(|_| A::Error::custom(format_args!("`{key}` is not a node number")))?;
            self.0.nodes.push(node);
            map.next_value_seed(LabelSeed { entries: self.0, node })?;
        }
        Ok(())
    }
}

/// One label, appended to the entries.
struct LabelSeed<'a> {
    entries: &'a mut Entries,
    node: u32,
}

impl<'de> DeserializeSeed<'de> for LabelSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for LabelSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer or a list of zeros and ones")
    }

    fn visit_i64<E: Error>(self, class: i64) -> Result<(), E> {
        if self.entries.width.is_some() {
            let node = self.node;
            return Err(E::custom(format_args!(
                "node {node} has an integer, nodes before it lists"
            )));
        }
        self.entries.classes.push(class);
        Ok(())
    }

    fn visit_u64<E: Error>(self, class: u64) -> Result<(), E> {
        let node = self.node;
        let class = i64::try_from(class).map_err(|_| {
            E::custom(format_args!("the class {class} of node {node} is too large"))
        })?;
        self.visit_i64(class)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let node = self.node;
        if !self.entries.classes.is_empty() {
            let message = format_args!("node {node} has a list, nodes before it integers");
            return Err(A::Error::custom(message));
        }
        let begin = self.entries.flags.len();
        while let Some(flag) = list.next_element::<u8>()? {
            if flag > 1 {
                let message = format_args!("the list of node {node} holds {flag}, not 0 or 1");
                return Err(A::Error::custom(message));
            }
            self.entries.flags.push(flag);
        }
        let found = self.entries.flags.len() - begin;
        let expected = *self.entries.width.get_or_insert(found);
        if found != expected {
            let message =
                format_args!("the list of node {node} has {found} values, not {expected}");
            return Err(A::Error::custom(message));
        }
        Ok(())
    }
}
