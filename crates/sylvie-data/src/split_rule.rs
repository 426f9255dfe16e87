//! Splits that are drawn in the place of a set's own.

use std::fmt;
use std::str::FromStr;

use crate::error::DataError;

/// Which nodes train, validate and test.
///
/// # Example
/// ```
/// use sylvie_data::{ReadOptions, SplitRule, read};
/// use sylvie_graph::Role;
///
/// let split: SplitRule = "per-class:20,30".parse()?;
/// let options = ReadOptions { split, split_seed: 3, ..ReadOptions::default() };
/// let dataset = read("synthetic:nodes=400,degree=6,features=4,classes=4", &options)?;
/// assert_eq!(dataset.split.count(Role::Train), 4 * 20);
/// # Ok::<(), sylvie_data::DataError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum SplitRule {
    /// As the data set says; where it says nothing, drawn by its format's custom.
    #[default]
    Given,
    /// Drawn from the labelled nodes: these shares of them train and validate, the rest tests.
    Random {
        /// Share that trains, above 0.
        train: f64,
        /// Share that validates, above 0.
        val: f64,
    },
    /// Drawn from the nodes of each class: so many train and validate, the rest tests.
    PerClass {
        /// Nodes of each class that train.
        train: u32,
        /// Nodes of each class that validate.
        val: u32,
    },
}

impl SplitRule {
    /// The words, for messages.
    pub const CHOICES: &str =
        "given|random:TRAIN,VALIDATION (shares)|per-class:TRAIN,VALIDATION (nodes)";
}

impl fmt::Display for SplitRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given => f.pad("given"),
            Self::Random { train, val } => f.pad(&format!("random:{train},{val}")),
            Self::PerClass { train, val } => f.pad(&format!("per-class:{train},{val}")),
        }
    }
}

impl FromStr for SplitRule {
    type Err = DataError;

    fn from_str(word: &str) -> Result<Self, DataError> {
        let rule = parse(word).ok_or_else(|| {
            let (what, given, choices) = ("split", word.to_owned(), Self::CHOICES);
            DataError::UnknownWord { what, given, choices }
        })?;
        match rule {
            Self::Random { train, val } if train <= 0.0 || val <= 0.0 || train + val >= 1.0 => {
                Err(DataError::SplitShares { train, val })
            }
            rule => Ok(rule),
        }
    }
}

/// What the words say; whether shares leave something to every set is seen later.
fn parse(word: &str) -> Option<SplitRule> {
    if word == "given" {
        return Some(SplitRule::Given);
    }
    let (rule, numbers) = word.split_once(':')?;
    let (train, val) = numbers.split_once(',')?;
    match rule {
        "random" => {
            let share = |text: &str| text.parse().ok().filter(|share: &f64| share.is_finite());
            Some(SplitRule::Random { train: share(train)?, val: share(val)? })
        }
        "per-class" => {
            let count = |text: &str| text.parse().ok().filter(|&count: &u32| count > 0);
            Some(SplitRule::PerClass { train: count(train)?, val: count(val)? })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::SplitRule;

    #[test]
    fn words_are_read_as_they_are_written() {
        for word in ["given", "random:0.6,0.2", "random:0.001,0.998", "per-class:20,30"] {
            assert_eq!(word.parse::<SplitRule>().unwrap().to_string(), word);
        }
    }

    #[test]
    fn other_words_are_refused() {
        for word in [
            "",
            "drawn",
            "random",
            "random:",
            "random:0.5",
            "random:nan,0.5",
            "random:inf,0.5",
            "random:0.1,0.2,0.3",
            "random:a,b",
            "per-class:20",
            "per-class:0,30",
            "per-class:20,0",
            "per-class:2.5,3",
            "per-class:-1,3",
            "Given",
        ] {
            let message = word.parse::<SplitRule>().unwrap_err().to_string();
            assert!(message.contains("random:TRAIN,VALIDATION"), "{message}");
        }
    }

    #[test]
    fn shares_that_leave_a_set_empty_are_refused_with_their_sum() {
        for (word, sum) in [
            ("random:0.9,0.2", "0.9 that train and 0.2 that validate sum to 1.1:"),
            ("random:0.5,0.5", "sum to 1:"),
            ("random:0,0.5", "0 that train"),
            ("random:-0.1,0.5", "-0.1 that train"),
            ("random:60,20", "sum to 80:"),
        ] {
            let message = word.parse::<SplitRule>().unwrap_err().to_string();
            assert!(message.contains(sum) && message.contains("as in random:0.6,0.2"), "{message}");
        }
    }
}
