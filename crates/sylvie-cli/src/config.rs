//! Settings in a file.
//!
//! A file's keys are turned into flags and parsed as such: what is allowed, and what is said of what is
//! not, is the same in both places.

use std::path::Path;

use anyhow::{Context as _, Error, Result, bail, ensure};
use clap::{Args as _, Command, FromArgMatches as _};
use sylvie::data::shown;
use toml::{Table, Value};

use crate::flags::RunFlags;
use crate::settings::RunSettings;
use crate::{input, usage};

/// Reads the settings that the file at `path` gives.
///
/// # Errors
/// The file cannot be read, is no TOML, or has a key that is unknown or a value that is not allowed.
pub(crate) fn read(path: &Path) -> Result<RunFlags> {
    read_text(path).and_then(|text| parse(&text)).with_context(|| shown(path))
}

/// Reads the keys and values of the file at `path`, whatever they are.
///
/// # Errors
/// The file cannot be read or is no TOML.
pub(crate) fn read_table(path: &Path) -> Result<Table> {
    read_text(path).and_then(|text| parse_table(&text)).with_context(|| shown(path))
}

fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(input::read(path)?).context("no text in UTF-8")
}

fn parse_table(text: &str) -> Result<Table> {
    text.parse().map_err(|error| in_words(text, &error))
}

/// Reads the settings that a text gives.
///
/// # Errors
/// As [`read`], but for the path.
pub(crate) fn parse(text: &str) -> Result<RunFlags> {
    let table = parse_table(text)?;
    let defaults: Table = RunSettings::default().to_toml()?.parse()?;
    let command = RunFlags::augment_args(Command::new("settings").no_binary_name(true));
    let mut words = Vec::with_capacity(table.len());
    for (key, value) in &table {
        let is_known = command.get_arguments().any(|argument| argument.get_id() == key.as_str());
        if !is_known {
            let known: Vec<_> = command.get_arguments().map(|a| a.get_id().as_str()).collect();
            bail!("unknown key `{key}`; the keys are {}", known.join(", "));
        }
        check_type(key, value, defaults.get(key))?;
        let value = match value {
            Value::String(word) => word.clone(),
            other => other.to_string(),
        };
        words.push(format!("--{}={value}", key.replace('_', "-")));
    }
    let matches = command.try_get_matches_from(words);
    let flags = matches.and_then(|matches| RunFlags::from_arg_matches(&matches));
    flags.map_err(|error| Error::msg(usage::message(&error)))
}

/// Checks that a value is of the type that run.toml has for its key. Whether a number may have a
/// fraction is left to the parser of the flag.
fn check_type(key: &str, value: &Value, default: Option<&Value>) -> Result<()> {
    let (is_right, expected) = match (key, default) {
        // A width is a word, but most of the words are numbers.
        ("bits" | "bits_forward" | "bits_backward", _) => {
            (value.is_str() || value.is_integer(), "a number, or a string such as '4,2,1',")
        }
        ("threads", _) | (_, Some(Value::Integer(_) | Value::Float(_))) => {
            (value.is_integer() || value.is_float(), "a number")
        }
        (_, Some(Value::Boolean(_))) => (value.is_bool(), "true or false"),
        _ => (value.is_str(), "a string"),
    };
    ensure!(
        is_right,
        "key `{key}`: {expected} is expected, not a value of type {}",
        value.type_str()
    );
    Ok(())
}

/// A syntax error with its line, but without the excerpt.
fn in_words(text: &str, error: &toml::de::Error) -> Error {
    let message = usage::one_line(error.message());
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => Error::msg(format!("line {}: {message}", before.matches('\n').count() + 1)),
        None => Error::msg(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sylvie::gnn::{ClassWeights, Metric, ModelKind, NormKind};
    use sylvie::lowbit::MetadataType;
    use sylvie::partition::{Method, NodeOrder, Objective};
    use sylvie::pipeline::Directions;

    use crate::exchange::{ExchangeSettings, OrNone};

    fn settings(text: &str) -> RunSettings {
        let mut settings = RunSettings::default();
        settings.apply(parse(text).unwrap());
        settings
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut other = RunSettings {
            data: "a folder/with \"quotes\" = -- and \u{e9}".to_owned(),
            format: Some("arrays".parse().unwrap()),
            directed: true,
            normalize: "row".parse().unwrap(),
            split_seed: i64::MAX as u64,
            split: "random:0.5,0.25".parse().unwrap(),
            split_index: 3,
            model: ModelKind::Gat,
            layers: 4,
            linear_layers: 1,
            hidden: 96,
            heads: 3,
            dropout: 0.1,
            norm: NormKind::None,
            init: Some("-w.safetensors".to_owned()),
            partition: Some("-parts of 'it'".to_owned()),
            parts: 7,
            partitioner: Method::Random,
            objective: Objective::Cut,
            order: NodeOrder::Cluster,
            gather: "bf16".parse().unwrap(),
            exchange: ExchangeSettings {
                preset: "vanilla".parse().unwrap(),
                bits_forward: "bf16,1".parse().unwrap(),
                bits_backward: "8".parse().unwrap(),
                metadata: MetadataType::F32,
                schedule: "async".parse().unwrap(),
                staleness: 4,
                staleness_scope: Directions::Gradients,
                boundary_sampling: 0.123_456_789_012_345,
                memory: "sequential".parse().unwrap(),
                smooth: OrNone(Some(Directions::Features)),
                smooth_decay: 0.3,
                scope: "all".parse().unwrap(),
                halo: "packed".parse().unwrap(),
                overlap: true,
                link: "2.5Gbps,1500ns,ranks-per-host=3".parse().unwrap(),
            },
            epochs: 9,
            lr: 1e-7,
            weight_decay: 0.3,
            class_weights: ClassWeights::Given(vec![0.1, 3.0, 1e-7]),
            seed: 12_345_678_901,
            inductive: true,
            eval_every: 2,
            patience: 6,
            metric: Some(Metric::RocAuc),
            checkpoint_every: 7,
            threads: Some(3),
        };
        assert_eq!(settings(&other.to_toml().unwrap()), other);
        other.lr = 3e37;
        assert_eq!(settings(&other.to_toml().unwrap()), other);
        assert_eq!(settings(""), RunSettings::default());
        let widths = |text| settings(text).exchange.bits_forward.to_string();
        assert_eq!(widths("preset = 'vanilla'"), "f32");
        assert_eq!(widths("bits = 4\npreset = 'vanilla'"), "4");
        assert_eq!(widths("bits_forward = 2\nbits = '8,f16'"), "2");
    }

    #[test]
    fn numbers_are_written_as_people_write_them() {
        let text = RunSettings::default().to_toml().unwrap();
        assert!(text.contains("lr = 0.01\n") && text.contains("weight_decay = 0.0\n"), "{text}");
    }

    #[test]
    fn what_is_not_allowed_is_named() {
        for (text, named) in [
            ("lerning_rate = 0.1", "`lerning_rate`"),
            ("weight-decay = 0.1", "`weight-decay`"),
            ("bits = 3", "--bits"),
            ("lr = -1", "--lr"),
            ("lr = nan", "--lr"),
            ("epochs = 1.5", "--epochs"),
            ("epochs = -3", "--epochs"),
            ("seed = -3", "--seed"),
            ("lr = 1e-300", "--lr"),
            ("directed = 'perhaps'", "`directed`"),
            ("directed = 1", "`directed`"),
            ("lr = '0.1'", "`lr`"),
            ("epochs = '3'", "`epochs`"),
            ("threads = '3'", "`threads`"),
            ("seed = true", "`seed`"),
            ("data = 5", "`data`"),
            ("metric = 1", "`metric`"),
            ("class_weights = [1, 2]", "`class_weights`"),
            ("class_weights = 'even'", "--class-weights"),
            ("bits = 1.0", "`bits`"),
            ("layers = [1, 2]", "`layers`"),
            ("bits = [4, 2]", "such as '4,2,1'"),
            ("bits_forward = true", "`bits_forward`"),
            ("staleness = '2'", "`staleness`"),
            ("boundary_sampling = 0", "--boundary-sampling"),
            ("overlap = 'true'", "`overlap`"),
            ("smooth = false", "`smooth`"),
            ("partition = 1", "`partition`"),
            ("link = '1'", "--link"),
            ("parts = 1\nparts = 2", "line 2"),
            ("parts 1", "line 1"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(named) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
