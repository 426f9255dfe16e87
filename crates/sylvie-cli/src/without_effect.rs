//! Flags that would change nothing: refused, so that no run is taken for another than it is.
//!
//! Judged is what stands on the command line and says other than the default. A file may hold every setting,
//! as run.toml does, whether it has an effect or not.

use anyhow::{Result, bail};
use sylvie::gnn::ModelKind;
use sylvie::lowbit::{MetadataType, Width};
use sylvie::partition::{Method, NodeOrder, Objective};
use sylvie::pipeline::{ExchangePolicy, HaloRows, Scope};
use sylvie::tensor::Gather;

use crate::devices::Machine;
use crate::flags::RunFlags;
use crate::settings::RunSettings;

/// A flag and why it changes nothing, where `is_met`.
struct Idle {
    is_met: bool,
    flag: &'static str,
    reason: String,
}

/// Refuses flags of `train` that have no effect in a run of these settings.
///
/// # Errors
/// The first of them, with the reason.
pub(crate) fn check(flags: &RunFlags, settings: &RunSettings) -> Result<()> {
    let others = [of_network(flags, settings), of_parts(flags, settings)];
    let others = others.into_iter().chain(of_gather(flags, settings));
    let mut all = of_exchange(flags, settings).into_iter().chain(others);
    match all.find(|idle| idle.is_met) {
        None => check_objective(flags.objective, settings),
        Some(Idle { flag, reason, .. }) => bail!("{flag} has no effect {reason}"),
    }
}

/// Refuses an objective that nothing makes small.
///
/// # Errors
/// A partitioner that has none.
pub(crate) fn check_objective(given: Option<Objective>, settings: &RunSettings) -> Result<()> {
    // A partition folder's own objective may stand beside it.
    let is_free = settings.partition.is_none();
    let is_idle = settings.partitioner != Method::Metis && is_free;
    match differs(given, Objective::Volume) && is_idle {
        false => Ok(()),
        true => bail!(
            "--objective has no effect with --partitioner {}: only metis makes one small",
            settings.partitioner
        ),
    }
}

/// Whether something else than the default is given: what says the default takes back a file's setting.
fn differs<T: PartialEq>(given: Option<T>, default: T) -> bool {
    given.is_some_and(|given| given != default)
}

fn of_network(flags: &RunFlags, settings: &RunSettings) -> Idle {
    let is_attention = settings.model == ModelKind::Gat;
    Idle {
        is_met: differs(flags.heads, RunSettings::default().heads) && !is_attention,
        flag: "--heads",
        reason: format!("with --model {}: only gat has heads", settings.model),
    }
}

fn of_parts(flags: &RunFlags, settings: &RunSettings) -> Idle {
    Idle {
        is_met: differs(flags.order, NodeOrder::Auto) && settings.partition.is_some(),
        flag: "--order",
        reason: "with --partition: a folder's parts have their order already".to_owned(),
    }
}

fn of_gather(flags: &RunFlags, settings: &RunSettings) -> [Idle; 2] {
    let is_given = differs(flags.gather, Gather::F32);
    let is_attention = settings.model == ModelKind::Gat;
    let is_kept = !is_attention && settings.layers - settings.linear_layers == 1;
    [
        Idle {
            is_met: is_given && is_attention,
            flag: "--gather",
            reason: "with --model gat: attention gathers f32".to_owned(),
        },
        Idle {
            is_met: is_given && is_kept,
            flag: "--gather",
            reason: "with one graph layer: its sum over neighbours is taken once, in f32"
                .to_owned(),
        },
    ]
}

/// Refuses flags of `train` that have no effect on devices.
///
/// # Errors
/// The first of them, with the reason.
pub(crate) fn check_machine(flags: &RunFlags, machine: &Machine) -> Result<()> {
    if *machine == Machine::Cpu {
        return Ok(());
    }
    if differs(flags.gather, Gather::F32) {
        bail!("--gather has no effect with --device {machine}: devices gather f32");
    }
    if differs(flags.exchange.halo, HaloRows::F32) {
        bail!("--halo has no effect with --device {machine}: devices decode rows as they come");
    }
    Ok(())
}

fn of_exchange(flags: &RunFlags, settings: &RunSettings) -> [Idle; 4] {
    let (given, policy) = (&flags.exchange, settings.exchange.policy());
    let default = ExchangePolicy::full_precision();
    let codecs = || policy.forward.iter().chain(&policy.backward);
    let is_exact = codecs().all(|codec| codec.width == Width::F32);
    [
        Idle {
            is_met: differs(given.smooth_decay, default.smooth_decay) && policy.smooth.is_none(),
            flag: "--smooth-decay",
            reason: "without --smooth: there is no average whose past it could weigh".to_owned(),
        },
        Idle {
            is_met: differs(given.metadata, MetadataType::default())
                && !codecs().any(|codec| codec.width.is_quantized()),
            flag: "--metadata",
            reason: "at these widths: only rows of 1, 2, 4 or 8 bits have a zero point and a scale"
                .to_owned(),
        },
        Idle {
            is_met: differs(given.halo, HaloRows::F32)
                && !policy.forward.iter().any(|codec| codec.width.is_quantized()),
            flag: "--halo",
            reason: "at these widths: only rows of 1, 2, 4 or 8 bits are packed".to_owned(),
        },
        Idle {
            is_met: differs(given.scope, Scope::Boundary) && is_exact,
            flag: "--scope all",
            reason: "with --bits f32: own rows would come back as they are".to_owned(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};
    use crate::config;

    /// What is said of a command line, with or without a file of settings.
    fn said(words: &str, file: &str) -> String {
        let words = ["sylvie", "train"].into_iter().chain(words.split_whitespace());
        let Command::Train(args) = Cli::parse_from(words).command else { panic!("not train") };
        let mut settings = RunSettings::default();
        settings.apply(config::parse(file).unwrap());
        settings.apply(args.flags.clone());
        settings.check().unwrap();
        check(&args.flags, &settings).map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn flags_that_change_nothing_are_named_with_the_reason() {
        for (words, expected) in [
            ("--smooth-decay 0.5", "--smooth-decay has no effect without --smooth:"),
            ("--preset pipegcn --smooth-decay 0", "--smooth-decay has no effect"),
            ("--heads 8", "--heads has no effect with --model sage:"),
            ("--model gcn --heads 1", "--heads has no effect with --model gcn:"),
            ("--preset vanilla --metadata f32", "--metadata has no effect at these widths:"),
            ("--bits f16,bf16 --metadata f16", "--metadata has no effect"),
            ("--bits f16 --bits-backward 1 --halo packed", "--halo has no effect at these widths:"),
            ("--model gat --gather bf16", "--gather has no effect with --model gat:"),
            ("--linear-layers 2 --gather bf16", "--gather has no effect with one graph layer:"),
            ("--bits f32 --scope all", "--scope all has no effect with --bits f32:"),
            ("--partitioner fennel --objective cut", "--objective has no effect with"),
            ("--partition there --order cluster", "--order has no effect with --partition:"),
        ] {
            let said = said(words, "");
            assert!(said.starts_with(expected), "{words}: {said}");
        }
    }

    #[test]
    fn flags_that_have_an_effect_or_say_the_default_pass() {
        for words in [
            "--preset pipegcn --smooth gradients --smooth-decay 0.5",
            "--model gat --heads 8",
            "--bits f32,1 --metadata f32",
            "--bits f32 --bits-backward 4 --metadata f16 --scope all",
            "--partitioner metis --objective cut",
            "--order given",
            "--gather bf16 --halo packed",
            "--model gat --gather f32 --bits f32 --halo f32",
            "--smooth-decay 0.95 --heads 4 --metadata bf16 --scope boundary --order auto",
            "--partitioner random --objective volume --bits f32",
            "--preset quantize-all --bits f32",
        ] {
            assert_eq!(said(words, ""), "", "{words}");
        }
    }

    #[test]
    fn a_file_may_hold_what_has_no_effect() {
        let file = "smooth_decay = 0.5\nheads = 8\nmetadata = 'f32'\nbits = 'f32'\n\
                    partitioner = 'random'\nobjective = 'cut'\norder = 'given'\npartition = 'there'\n\
                    halo = 'packed'";
        assert_eq!(said("", file), "");
        assert_eq!(said("--epochs 3 --smooth none", file), "");
        assert!(said("--heads 2", file).starts_with("--heads has no effect"));
    }
}
