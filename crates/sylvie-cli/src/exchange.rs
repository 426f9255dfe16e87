//! What crosses the split, and when: flags, and settings with their values.

use std::fmt;
use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use sylvie::comm::LinkModel;
use sylvie::lowbit::{MetadataType, ParseError, RowCodec, Width};
use sylvie::pipeline::{Directions, ExchangePolicy, HaloRows, Memory, Preset, Schedule, Scope};

use crate::flags::{probability, rate};
use crate::settings::{set, word};

/// The presets, as the flags that they stand for.
pub(crate) const PRESETS: &str = "\
Presets, and the flags that each stands for:
  vanilla       --bits f32                          full precision, synchronous: the baseline
  sylvie-s      --bits 1                            one bit, synchronous
  sylvie-a      --bits 1 --schedule async           one bit, rows used an epoch late; --staleness bounds it
  pipegcn       --bits f32 --schedule async         rows in full precision an epoch late (PipeGCN)
  bns-gcn       --bits f32 --boundary-sampling 0.1  a tenth of the boundary rows an epoch (BNS-GCN)
  sar           --bits f32 --memory sequential      halo rows of one part in memory at a time (SAR)
  quantize-all  --bits 1 --scope all                own rows through the codec too: an ablation";

/// How boundary rows are exchanged, where it is said.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Parts and exchange")]
pub(crate) struct ExchangeFlags {
    /// Exchange settings by name: vanilla, sylvie-s, sylvie-a, pipegcn, bns-gcn, sar or quantize-all;
    /// flags given beside it win. [default: sylvie-s]
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<Preset>,
    /// Width of an exchanged value: 1, 2, 4, 8, f16, bf16 or f32; or one for each exchanged layer (graph
    /// layers after the first), as in 4,2,1. [default: 1]
    #[arg(
        long,
        value_name = "WIDTH[,...]",
        visible_alias = "codec",
        allow_negative_numbers = true
    )]
    pub(crate) bits: Option<Widths>,
    /// The same for embeddings, sent forward; wins over --bits. [default: 1]
    #[arg(long, value_name = "WIDTH[,...]", allow_negative_numbers = true)]
    pub(crate) bits_forward: Option<Widths>,
    /// The same for gradients, sent backward; wins over --bits. [default: 1]
    #[arg(long, value_name = "WIDTH[,...]", allow_negative_numbers = true)]
    pub(crate) bits_backward: Option<Widths>,
    /// Type of a row's zero point and scale: bf16, f16 or f32. [default: bf16]
    #[arg(long, value_name = "NAME")]
    pub(crate) metadata: Option<MetadataType>,
    /// When exchanged rows are used: sync, in the epoch that sends them, or async, in the next one,
    /// while they travel beside computing. [default: sync]
    #[arg(long, value_name = "NAME")]
    pub(crate) schedule: Option<Schedule>,
    /// Makes every N-th epoch of an async schedule synchronous; 1 for each, 0 for none. [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) staleness: Option<u32>,
    /// What such an epoch exchanges synchronously: features, gradients or both. [default: both]
    #[arg(long, value_name = "NAME")]
    pub(crate) staleness_scope: Option<Directions>,
    /// Probability that a boundary row is sent to a part that reads it, drawn in every epoch; 1 sends
    /// all. [default: 1]
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = probability)]
    pub(crate) boundary_sampling: Option<f64>,
    /// Halo rows in memory at a time: all of a layer, or sequential, those of one part. [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) memory: Option<Memory>,
    /// What is averaged over the epochs before it is used, in an async schedule: none, features,
    /// gradients or both. [default: none]
    #[arg(long, value_name = "NAME", value_parser = smooth)]
    pub(crate) smooth: Option<OrNone<Directions>>,
    /// Weight of the past in that average. [default: 0.95]
    #[arg(long, value_name = "RATE", allow_negative_numbers = true, value_parser = rate)]
    pub(crate) smooth_decay: Option<f32>,
    /// Rows that go through the codec: boundary, those that are sent, or all. [default: boundary]
    #[arg(long, value_name = "NAME")]
    pub(crate) scope: Option<Scope>,
    /// How halo rows of 1, 2, 4 or 8 bits lie in memory: f32, decoded as they come, packed, decoded in
    /// registers as gcn and sage sum them, or auto: packed where that is no slower; results are the same. [default: auto]
    #[arg(long, value_name = "NAME")]
    pub(crate) halo: Option<HaloRows>,
    /// Compute what needs own rows alone while a sync exchange travels; results are the same.
    /// [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true)]
    pub(crate) overlap: Option<bool>,
    /// Model of a network, for machines without a cluster: messages arrive no sooner than over links of
    /// this bandwidth and latency, as in 1Gbps,50us,ranks-per-host=4; none for memory's speed.
    /// [default: none]
    #[arg(long, value_name = "LINK", value_parser = link)]
    pub(crate) link: Option<OrNone<LinkModel>>,
}

/// One width for all exchanged layers, or one for each, the first of them first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Widths(Vec<Width>);

impl Widths {
    fn of(codecs: &[RowCodec]) -> Self {
        Self(codecs.iter().map(|codec| codec.width).collect())
    }
}

impl FromStr for Widths {
    type Err = ParseError;

    fn from_str(words: &str) -> Result<Self, ParseError> {
        words.split(',').map(|word| word.trim().parse()).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Widths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, width) in self.0.iter().enumerate() {
            f.write_str(if place == 0 { "" } else { "," })?;
            width.fmt(f)?;
        }
        Ok(())
    }
}

/// A value whose absence has a word of its own, so that a flag can take back what a file gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OrNone<T>(pub(crate) Option<T>);

const NONE: &str = "none";

impl<T: FromStr> FromStr for OrNone<T> {
    type Err = T::Err;

    fn from_str(word: &str) -> Result<Self, T::Err> {
        if word == NONE { Ok(Self(None)) } else { word.parse().map(|value| Self(Some(value))) }
    }
}

impl<T: fmt::Display> fmt::Display for OrNone<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str(NONE),
        }
    }
}

fn smooth(word: &str) -> Result<OrNone<Directions>, String> {
    word.parse().map_err(|_| "expected one of none, features, gradients, both".to_owned())
}

fn link(word: &str) -> Result<OrNone<LinkModel>, String> {
    word.parse().map_err(|error| format!("{error}; none stands for no link"))
}

/// How boundary rows are exchanged: a part of [`RunSettings`](crate::settings::RunSettings).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ExchangeSettings {
    /// Where these settings started from.
    #[serde(serialize_with = "word")]
    pub(crate) preset: Preset,
    /// Widths of embeddings.
    #[serde(serialize_with = "word")]
    pub(crate) bits_forward: Widths,
    /// Widths of gradients.
    #[serde(serialize_with = "word")]
    pub(crate) bits_backward: Widths,
    /// Type of a row's zero point and scale.
    #[serde(serialize_with = "word")]
    pub(crate) metadata: MetadataType,
    /// When rows are used.
    #[serde(serialize_with = "word")]
    pub(crate) schedule: Schedule,
    /// Epochs from one synchronous epoch to the next in an asynchronous schedule; 0 for none.
    pub(crate) staleness: u32,
    /// What such an epoch exchanges synchronously.
    #[serde(serialize_with = "word")]
    pub(crate) staleness_scope: Directions,
    /// Probability that a boundary row is sent; 1 sends all.
    pub(crate) boundary_sampling: f64,
    /// How much of the halo is in memory.
    #[serde(serialize_with = "word")]
    pub(crate) memory: Memory,
    /// What is averaged over the epochs.
    #[serde(serialize_with = "word")]
    pub(crate) smooth: OrNone<Directions>,
    /// Weight of the past in that average.
    pub(crate) smooth_decay: f32,
    /// Which rows go through the codec.
    #[serde(serialize_with = "word")]
    pub(crate) scope: Scope,
    /// How halo rows lie in memory. No preset says anything of it.
    #[serde(serialize_with = "word")]
    pub(crate) halo: HaloRows,
    /// Whether own rows are computed while a synchronous exchange travels.
    pub(crate) overlap: bool,
    /// The modelled network between the ranks. No preset says anything of it.
    #[serde(serialize_with = "word")]
    pub(crate) link: OrNone<LinkModel>,
}

impl Default for ExchangeSettings {
    fn default() -> Self {
        Self::of(Preset::SylvieS)
    }
}

impl ExchangeSettings {
    /// The settings of a preset, without a link.
    pub(crate) fn of(preset: Preset) -> Self {
        let policy = preset.policy();
        let metadata = policy.forward.first().map(|codec| codec.metadata).unwrap_or_default();
        Self {
            preset,
            bits_forward: Widths::of(&policy.forward),
            bits_backward: Widths::of(&policy.backward),
            metadata,
            schedule: policy.schedule,
            staleness: policy.staleness,
            staleness_scope: policy.staleness_scope,
            boundary_sampling: policy.boundary_sampling.unwrap_or(1.0),
            memory: policy.memory,
            smooth: OrNone(policy.smooth),
            smooth_decay: policy.smooth_decay,
            scope: policy.scope,
            halo: policy.halo,
            overlap: policy.overlap,
            link: OrNone(None),
        }
    }

    /// Takes what is given; a preset first, so that what is given beside it stands.
    pub(crate) fn apply(&mut self, flags: ExchangeFlags) {
        if let Some(preset) = flags.preset {
            *self = Self { link: self.link, halo: self.halo, ..Self::of(preset) };
        }
        set(&mut self.bits_forward, flags.bits_forward.or_else(|| flags.bits.clone()));
        set(&mut self.bits_backward, flags.bits_backward.or(flags.bits));
        set(&mut self.metadata, flags.metadata);
        set(&mut self.schedule, flags.schedule);
        set(&mut self.staleness, flags.staleness);
        set(&mut self.staleness_scope, flags.staleness_scope);
        set(&mut self.boundary_sampling, flags.boundary_sampling);
        set(&mut self.memory, flags.memory);
        set(&mut self.smooth, flags.smooth);
        set(&mut self.smooth_decay, flags.smooth_decay);
        set(&mut self.scope, flags.scope);
        set(&mut self.halo, flags.halo);
        set(&mut self.overlap, flags.overlap);
        set(&mut self.link, flags.link);
    }

    /// What the pipeline is told.
    pub(crate) fn policy(&self) -> ExchangePolicy {
        let metadata = self.metadata;
        let codecs = |widths: &Widths| -> Vec<RowCodec> {
            widths.0.iter().map(|&width| RowCodec { width, metadata }).collect()
        };
        ExchangePolicy {
            forward: codecs(&self.bits_forward),
            backward: codecs(&self.bits_backward),
            schedule: self.schedule,
            staleness: self.staleness,
            staleness_scope: self.staleness_scope,
            // All rows need no draw.
            boundary_sampling: Some(self.boundary_sampling).filter(|&p| p < 1.0),
            memory: self.memory,
            smooth: self.smooth.0,
            smooth_decay: self.smooth_decay,
            scope: self.scope,
            halo: self.halo,
            overlap: self.overlap,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    fn settings(words: &str) -> ExchangeSettings {
        let words = ["sylvie", "train"].into_iter().chain(words.split_whitespace());
        let Command::Train(args) = Cli::parse_from(words).command else { panic!("not train") };
        let mut settings = ExchangeSettings::default();
        settings.apply(args.flags.exchange);
        settings
    }

    #[test]
    fn the_table_of_presets_tells_what_they_stand_for() {
        for preset in Preset::ALL {
            let line = PRESETS.lines().find_map(|line| {
                let (name, rest) = line.trim_start().split_once("  ")?;
                (name == preset.to_string()).then(|| rest.trim_start())
            });
            let line = line.unwrap_or_else(|| panic!("{preset} is not in the table"));
            let flags = line.split_once("  ").map_or(line, |(flags, _)| flags);
            let expected = ExchangeSettings::of(preset);
            assert_eq!(settings(flags), ExchangeSettings { preset: Preset::SylvieS, ..expected });
            assert_eq!(settings(&format!("--preset {preset}")).policy(), preset.policy());
        }
        assert_eq!(PRESETS.lines().count(), 1 + Preset::ALL.len());
    }

    #[test]
    fn a_preset_gives_way_to_what_stands_beside_it() {
        let beside = settings("--staleness 5 --bits 4 --preset sylvie-a");
        assert_eq!((beside.schedule, beside.staleness), (Schedule::Async, 5));
        assert_eq!(beside.bits_forward.to_string(), "4");
        let mut later = beside.clone();
        later.apply(ExchangeFlags { staleness: Some(2), ..ExchangeFlags::default() });
        assert_eq!(later, ExchangeSettings { staleness: 2, ..beside.clone() });
        // A preset given later takes all of them back, but no link.
        later.link = "1Gbps".parse().unwrap();
        later.apply(ExchangeFlags { preset: Some(Preset::Sar), ..ExchangeFlags::default() });
        assert_eq!(
            later,
            ExchangeSettings { link: later.link, ..ExchangeSettings::of(Preset::Sar) }
        );
        assert!(later.link.0.is_some());
    }

    #[test]
    fn every_setting_reaches_the_pipeline() {
        let found = settings(
            "--bits 4,2 --bits-backward f16 --metadata f32 --schedule async --staleness 3 \
             --staleness-scope gradients --boundary-sampling 0.25 --memory sequential \
             --smooth features --smooth-decay 0.5 --scope all --halo packed --overlap \
             --link 1Gbps",
        );
        let codec = |width| RowCodec { width, metadata: MetadataType::F32 };
        let expected = ExchangePolicy {
            forward: vec![codec(Width::Four), codec(Width::Two)],
            backward: vec![codec(Width::F16)],
            schedule: Schedule::Async,
            staleness: 3,
            staleness_scope: Directions::Gradients,
            boundary_sampling: Some(0.25),
            memory: Memory::Sequential,
            smooth: Some(Directions::Features),
            smooth_decay: 0.5,
            scope: Scope::All,
            halo: HaloRows::Packed,
            overlap: true,
        };
        assert_eq!(found.policy(), expected);
        assert_eq!(found.link.0.map(|link| link.bits_per_second), Some(1e9));
    }

    #[test]
    fn widths_of_one_pass_win_over_those_of_both() {
        let found = settings("--bits-forward f16 --bits 4,2");
        assert_eq!(found.bits_forward.to_string(), "f16");
        assert_eq!(found.bits_backward.to_string(), "4,2");
        let found = settings("--codec 8 --bits-backward 2,f32");
        let policy = found.policy();
        assert_eq!(policy.forward, [RowCodec::new(Width::Eight)]);
        assert_eq!(policy.backward, [RowCodec::new(Width::Two), RowCodec::new(Width::F32)]);
    }

    #[test]
    fn to_sample_all_rows_is_not_to_sample() {
        assert_eq!(settings("--boundary-sampling 1").policy().boundary_sampling, None);
        assert_eq!(settings("--boundary-sampling 0.5").policy().boundary_sampling, Some(0.5));
        let all = settings("--preset bns-gcn --boundary-sampling 1.0");
        assert_eq!(all.policy(), Preset::Vanilla.policy());
    }
}
