//! The words that describe a generated graph.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::error::DataError;

/// The word that stands for a generated graph.
pub(super) const WORD: &str = "synthetic";

/// Most feature values, and most edges, of a graph: memory of one machine.
const MAX_VALUES: u64 = 1 << 33;

/// Whether `source` asks for a generated graph.
pub(crate) fn is_synthetic(source: &str) -> bool {
    source.strip_prefix(WORD).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

/// What graph to generate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settings {
    /// Nodes.
    pub(super) nodes: u32,
    /// Mean number of neighbours of a node.
    pub(super) degree: u32,
    /// Features a node.
    pub(super) features: u32,
    /// Classes.
    pub(super) classes: u32,
    /// Share of the edges inside communities.
    pub(super) locality: f64,
    /// Seed of everything but the split.
    pub(super) seed: u64,
    /// Whether nodes have several classes.
    pub(super) multi: bool,
    /// Share of the labels that say nothing of their community, beyond those that never do.
    pub(super) noise: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            nodes: 20_000,
            degree: 20,
            features: 64,
            classes: 10,
            locality: 0.9,
            seed: 1,
            multi: false,
            noise: 0.0,
        }
    }
}

impl FromStr for Settings {
    type Err = DataError;

    /// Reads `synthetic` or `synthetic:key=value,...`; keys left out keep their defaults.
    fn from_str(source: &str) -> Result<Self, DataError> {
        let mut settings = Self::default();
        let rest = match source.strip_prefix(WORD) {
            Some("") => return Ok(settings),
            Some(rest) => rest.strip_prefix(':'),
            None => None,
        };
        let Some(rest) = rest else {
            let (what, given, choices) =
                ("synthetic graph", source.to_owned(), "synthetic, synthetic:key=value,...");
            return Err(DataError::UnknownWord { what, given, choices });
        };
        let mut seen = Vec::new();
        for word in rest.split(',') {
            let Some((key, value)) = word.split_once('=') else {
                return Err(setting(word, "", "key=value, the pairs joined by commas"));
            };
            if seen.contains(&key) {
                return Err(setting(key, value, "each key once"));
            }
            seen.push(key);
            settings.set(key, value)?;
        }
        settings.check()?;
        Ok(settings)
    }
}

impl Settings {
    fn set(&mut self, key: &str, value: &str) -> Result<(), DataError> {
        match key {
            "nodes" => self.nodes = number(key, value, 4..=100_000_000)?,
            "degree" => self.degree = number(key, value, 0..=1000)?,
            "features" => self.features = number(key, value, 1..=65_536)?,
            "classes" => self.classes = number(key, value, 2..=4096)?,
            "locality" => self.locality = number(key, value, 0.0..=1.0)?,
            "seed" => self.seed = number(key, value, 0..=u64::MAX)?,
            "multi" => self.multi = number(key, value, 0..=1)? == 1,
            "noise" => self.noise = number(key, value, 0.0..=1.0)?,
            _ => {
                let (what, given) = ("setting of a synthetic graph", key.to_owned());
                let choices = "nodes, degree, features, classes, locality, seed, multi, noise";
                return Err(DataError::UnknownWord { what, given, choices });
            }
        }
        Ok(())
    }

    /// Checks what no single setting tells.
    fn check(&self) -> Result<(), DataError> {
        let nodes = u64::from(self.nodes);
        for (key, value) in [("degree", self.degree), ("classes", self.classes)] {
            if u64::from(value) >= nodes {
                let expected = format!("less than the {nodes} nodes");
                return Err(setting(key, &value.to_string(), &expected));
            }
        }
        for (key, value) in [("degree", self.degree), ("features", self.features)] {
            if nodes * u64::from(value) > MAX_VALUES {
                let expected = format!("at most {} with {nodes} nodes", MAX_VALUES / nodes);
                return Err(setting(key, &value.to_string(), &expected));
            }
        }
        if self.multi && nodes * u64::from(self.classes) > MAX_VALUES {
            let expected = format!("at most {} with {nodes} nodes", MAX_VALUES / nodes);
            return Err(setting("classes", &self.classes.to_string(), &expected));
        }
        Ok(())
    }
}

fn number<T: FromStr + PartialOrd + Display>(
    key: &str,
    value: &str,
    range: RangeInclusive<T>,
) -> Result<T, DataError> {
    value.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        setting(key, value, &format!("a number from {} to {}", range.start(), range.end()))
    })
}

fn setting(key: &str, value: &str, expected: &str) -> DataError {
    let (key, value, expected) = (key.to_owned(), value.to_owned(), expected.to_owned());
    DataError::Setting { key, value, expected }
}
