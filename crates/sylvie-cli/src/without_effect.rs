//! Flags that would change nothing: refused, so that no run is taken for another than it is.
//!
//! Judged is what stands on the command line and says other than the default. A file may hold every setting,
//! as run.toml does, whether it has an effect or not.

use anyhow::{Result, bail, ensure};
use sylvie::data::{SplitRule, has_own_split};
use sylvie::gnn::ModelKind;
use sylvie::lowbit::{MetadataType, Width};
use sylvie::partition::{Method, NodeOrder, Objective};
use sylvie::pipeline::{ExchangePolicy, HaloRows, Scope};
use sylvie::tensor::Gather;

use crate::console::counted;
use crate::devices::Machine;
use crate::exchange::{ExchangeSettings, Widths};
use crate::flags::{DataFlags, RunFlags};
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
    let others = [of_network(flags, settings), of_parts(flags, settings), of_link(flags, settings)];
    let others = others.into_iter().chain(of_gather(flags, settings));
    let exchange = of_no_exchange(flags, settings).into_iter().chain(of_exchange(flags, settings));
    match exchange.chain(others).find(|idle| idle.is_met) {
        None => check_objective(flags.objective, settings)?,
        Some(Idle { flag, reason, .. }) => bail!("{flag} has no effect {reason}"),
    }
    check_split(&flags.data, settings)
}

/// Refuses flags that choose a split where none is drawn, or where one is.
///
/// # Errors
/// The first of them, with the reason.
pub(crate) fn check_split(flags: &DataFlags, settings: &RunSettings) -> Result<()> {
    let default = RunSettings::default();
    if settings.partition.is_some() {
        // It has its split, and is held to what is said of it.
        return Ok(());
    }
    let is_drawn = settings.split != SplitRule::Given;
    ensure!(
        !differs(flags.split_index, default.split_index) || !is_drawn,
        "--split-index has no effect with --split {}: the graph's own splits are not used",
        settings.split
    );
    if is_drawn || !differs(flags.split_seed, default.split_seed) {
        return Ok(());
    }
    // What keeps the graph from being read is said when it is.
    ensure!(
        !has_own_split(&settings.data, settings.format).unwrap_or(false),
        "--split-seed has no effect on {}, which has a split of its own; --split random:0.6,0.2 draws another",
        settings.shown_data()
    );
    Ok(())
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

/// What is said of an exchange that there is not: nobody is there for it, or only raw features are, once. A preset may be named: it is
/// what runs are compared by.
fn of_no_exchange(flags: &RunFlags, settings: &RunSettings) -> [Idle; 13] {
    let (given, default) = (&flags.exchange, ExchangeSettings::default());
    let is_alone = settings.parts == 1;
    let is_one_layer = has_one_graph_layer(settings);
    // Own rows go through the codec all the same where all rows do.
    let has_no_codec = is_one_layer || is_alone && settings.exchange.scope == Scope::Boundary;
    let reason = match is_alone {
        true => "with one part: there is no other to exchange rows with",
        false => "with one graph layer: it reads raw features, which are exchanged once",
    };
    let idle = |flag, is_met| Idle { is_met, flag, reason: reason.to_owned() };
    let widths =
        |given: &Option<Widths>, default: &Widths| has_no_codec && differs(given.as_ref(), default);
    let alone = |differs: bool| (is_alone || is_one_layer) && differs;
    [
        idle("--bits", widths(&given.bits, &default.bits_forward)),
        idle("--bits-forward", widths(&given.bits_forward, &default.bits_forward)),
        idle("--bits-backward", widths(&given.bits_backward, &default.bits_backward)),
        idle("--metadata", has_no_codec && differs(given.metadata, default.metadata)),
        idle("--schedule", alone(differs(given.schedule, default.schedule))),
        idle("--staleness", alone(differs(given.staleness, default.staleness))),
        idle("--staleness-scope", alone(differs(given.staleness_scope, default.staleness_scope))),
        idle(
            "--boundary-sampling",
            alone(differs(given.boundary_sampling, default.boundary_sampling)),
        ),
        idle("--memory", alone(differs(given.memory, default.memory))),
        idle("--smooth", alone(differs(given.smooth, default.smooth))),
        idle("--overlap", alone(differs(given.overlap, default.overlap))),
        idle("--link", is_alone && differs(given.link, default.link)),
        idle("--halo", alone(given.halo == Some(HaloRows::Packed))),
    ]
}

/// A link that no two ranks are at different ends of.
fn of_link(flags: &RunFlags, settings: &RunSettings) -> Idle {
    let link = settings.exchange.link.0;
    let n_hosts = link.map(|link| (settings.parts as usize).div_ceil(link.ranks_per_host.max(1)));
    Idle {
        is_met: flags.exchange.link.is_some() && n_hosts == Some(1),
        flag: "--link",
        reason: format!(
            "with {} and so many ranks a host: all are on one, and none crosses a link",
            counted(settings.parts, "part")
        ),
    }
}

fn has_one_graph_layer(settings: &RunSettings) -> bool {
    settings.layers - settings.linear_layers == 1
}

fn of_gather(flags: &RunFlags, settings: &RunSettings) -> [Idle; 2] {
    let is_given = differs(flags.gather, Gather::F32);
    let is_attention = settings.model == ModelKind::Gat;
    let is_kept = !is_attention && has_one_graph_layer(settings);
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
    if flags.exchange.halo == Some(HaloRows::Packed) {
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
            is_met: given.halo == Some(HaloRows::Packed)
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
            ("--layers 1 --bits 4", "--bits has no effect with one graph layer:"),
            (
                "--linear-layers 2 --schedule async",
                "--schedule has no effect with one graph layer:",
            ),
            ("--model gat --layers 1 --overlap", "--overlap has no effect with one graph layer:"),
            ("--partitioner fennel --objective cut", "--objective has no effect with"),
            ("--partition there --order cluster", "--order has no effect with --partition:"),
            ("--parts 1 --bits 4", "--bits has no effect with one part:"),
            ("--parts 1 --preset vanilla --bits-backward 8", "--bits-backward has no effect"),
            ("--parts 1 --metadata f32", "--metadata has no effect with one part:"),
            ("--parts 1 --overlap", "--overlap has no effect with one part:"),
            ("--parts 1 --link 1Gbps", "--link has no effect with one part:"),
            ("--parts 1 --schedule async", "--schedule has no effect with one part:"),
            ("--parts 1 --preset sylvie-a --staleness 5", "--staleness has no effect"),
            ("--parts 1 --boundary-sampling 0.5", "--boundary-sampling has no effect"),
            ("--parts 1 --memory sequential", "--memory has no effect with one part:"),
            ("--link 1Gbps,1us,ranks-per-host=4", "--link has no effect with 4 parts and so many"),
            ("--split random:0.6,0.2 --split-index 2", "--split-index has no effect with --split"),
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
            "--gather bf16 --halo auto",
            "--parts 1 --halo f32",
            "--model gat --gather f32 --bits f32 --halo f32",
            "--smooth-decay 0.95 --heads 4 --metadata bf16 --scope boundary --order auto",
            "--partitioner random --objective volume --bits f32",
            "--preset quantize-all --bits f32",
            "--parts 1 --preset sylvie-a",
            "--layers 1 --preset sylvie-a --link 1Gbps,1us,ranks-per-host=3",
            "--parts 1 --bits 1 --link none --overlap=false",
            "--parts 1 --preset quantize-all --bits 4 --metadata f32",
            "--link 1Gbps,1us,ranks-per-host=3",
            "--split-seed 4",
            "--split random:0.6,0.2 --split-seed 4",
            "--data nowhere --split-seed 4",
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
        let alone =
            "parts = 1\nlink = '1Gbps'\noverlap = true\nsplit = 'random:0.5,0.1'\nsplit_index = 1";
        assert_eq!(said("", alone), "");
        assert_eq!(said("--epochs 3 --smooth none", file), "");
        assert!(said("--heads 2", file).starts_with("--heads has no effect"));
    }
}
