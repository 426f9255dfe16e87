//! The steps of an epoch, as data.

use std::fmt;

use sylvie_gnn::{ModelConfig, ModelKind};
use sylvie_random::Pass;

use crate::policy::{ExchangePolicy, Memory};

/// Which remote parts' rows a step is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// All of them.
    All,
    /// Halo rows that this part owns.
    Owner(u32),
}

impl Parts {
    /// Whether rows that `part` owns are meant.
    pub(crate) fn include(self, part: usize) -> bool {
        match self {
            Self::All => true,
            Self::Owner(owner) => owner as usize == part,
        }
    }
}

/// What becomes of rows after they were used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterUse {
    /// They are dropped.
    Drop,
    /// They are kept for the next epoch, which is asynchronous.
    Keep,
}

/// A third of a layer's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Forward: what needs own rows alone. Backward: what the halo's gradients need.
    Begin,
    /// Forward: reads halo rows. Backward: gradients of halo rows.
    Halo(Parts),
    /// Forward: the rest. Backward: gradients of weights and own rows.
    Finish,
}

/// One step of a rank. Layers count from 0.
///
/// # Example
/// ```
/// use sylvie_gnn::{ModelConfig, ModelKind};
/// use sylvie_pipeline::{AfterUse, Parts, Preset, Stage, Step, plan_epoch};
/// use sylvie_random::Pass;
///
/// // Two layers are exchanged, and each is waited for both ways.
/// let model = ModelConfig::new(ModelKind::Sage, vec![64, 32, 32, 10]);
/// let waits = |preset: Preset| {
///     let steps = plan_epoch(&model, &preset.policy(), 4, 0).into_iter();
///     steps.filter(|step| matches!(step, Step::Wait(_, _, Parts::All, AfterUse::Drop))).count()
/// };
/// assert_eq!((waits(Preset::SylvieS), waits(Preset::SylvieA)), (4, 0));
///
/// let step = Step::Compute(1, Pass::Backward, Stage::Halo(Parts::Owner(3)));
/// assert_eq!(step.to_string(), "halo backward 1 of part 3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Hand the rows that a layer's pass exchanges to the communication thread, which encodes and
    /// sends them.
    Start(usize, Pass, Parts),
    /// Hand over the gradients of a layer's halo rows, the last that an epoch sends: they are encoded at once,
    /// and sent when the epoch's figures have been gathered, which would wait behind them otherwise.
    Leave(usize),
    /// Wait for the rows of that exchange.
    Wait(usize, Pass, Parts, AfterUse),
    /// Take the rows of the epoch before: zeros in the first epoch.
    Use(usize, Pass),
    /// Wait for what is in flight from the epoch before, and discard it.
    Drain(usize, Pass),
    /// Compute a part of a layer.
    Compute(usize, Pass, Stage),
    /// Add the gradients that came from other parts to those of own rows.
    Add(usize),
    /// Loss and its gradient.
    Loss,
    /// Start to sum a layer's weight gradients over the ranks.
    Reduce(usize),
    /// Wait for all these sums.
    Collect,
    /// One optimiser step.
    Update,
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => Ok(()),
            Self::Owner(part) => write!(f, " of part {part}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(layer, pass, parts) => write!(f, "start {} {layer}{parts}", pass.name()),
            Self::Leave(layer) => write!(f, "leave backward {layer}"),
            Self::Wait(layer, pass, parts, after) => {
                write!(f, "wait {} {layer}{parts}", pass.name())?;
                f.write_str(if *after == AfterUse::Keep { ", keep" } else { "" })
            }
            Self::Use(layer, pass) => write!(f, "use {} {layer}", pass.name()),
            Self::Drain(layer, pass) => write!(f, "drain {} {layer}", pass.name()),
            Self::Compute(layer, pass, Stage::Begin) => write!(f, "begin {} {layer}", pass.name()),
            Self::Compute(layer, pass, Stage::Halo(parts)) => {
                write!(f, "halo {} {layer}{parts}", pass.name())
            }
            Self::Compute(layer, pass, Stage::Finish) => {
                write!(f, "finish {} {layer}", pass.name())
            }
            Self::Add(layer) => write!(f, "add {layer}"),
            Self::Loss => f.write_str("loss"),
            Self::Reduce(layer) => write!(f, "reduce {layer}"),
            Self::Collect => f.write_str("collect"),
            Self::Update => f.write_str("update"),
        }
    }
}

/// Whether the rows that `layer` reads are exchanged: graph layers after the first.
#[must_use]
pub(crate) fn is_exchanged(model: &ModelConfig, layer: usize) -> bool {
    layer > 0 && model.is_graph_layer(layer)
}

/// How many layers are exchanged.
pub(crate) fn n_exchanged(model: &ModelConfig) -> usize {
    (0..model.n_layers()).filter(|&layer| is_exchanged(model, layer)).count()
}

/// How a pass of an epoch gets its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Exchange, then compute.
    Sync(AfterUse),
    /// Compute what can be while rows travel.
    Overlap,
    /// Compute with the rows of the epoch before.
    Stale,
    /// One remote part after the other.
    Sequential,
}

impl Order {
    fn of(policy: &ExchangePolicy, epoch: u32, pass: Pass) -> Self {
        if policy.memory == Memory::Sequential {
            return Self::Sequential;
        }
        if !policy.is_synchronous(epoch, pass) {
            return Self::Stale;
        }
        if policy.overlap {
            return Self::Overlap;
        }
        let is_kept = !policy.is_synchronous(epoch.saturating_add(1), pass);
        Self::Sync(if is_kept { AfterUse::Keep } else { AfterUse::Drop })
    }
}

/// Writes the steps of one epoch, or of one evaluation.
struct Planner<'a> {
    model: &'a ModelConfig,
    n_parts: u32,
    steps: Vec<Step>,
}

impl Planner<'_> {
    fn compute(&mut self, layer: usize, pass: Pass, stage: Stage) {
        self.steps.push(Step::Compute(layer, pass, stage));
    }

    fn forward(&mut self, order: Order) {
        for layer in 0..self.model.n_layers() {
            self.forward_layer(layer, order);
        }
    }

    fn forward_layer(&mut self, layer: usize, order: Order) {
        const PASS: Pass = Pass::Forward;
        if !is_exchanged(self.model, layer) {
            self.compute(layer, PASS, Stage::Begin);
            self.compute(layer, PASS, Stage::Finish);
            return;
        }
        let begin = Step::Compute(layer, PASS, Stage::Begin);
        let start = Step::Start(layer, PASS, Parts::All);
        let wait = |after| Step::Wait(layer, PASS, Parts::All, after);
        match order {
            Order::Sync(after) => self.steps.extend([start, wait(after), begin]),
            Order::Overlap => self.steps.extend([start, begin, wait(AfterUse::Drop)]),
            Order::Stale => self.steps.extend([start, Step::Use(layer, PASS), begin]),
            Order::Sequential => {
                self.steps.push(begin);
                for owner in 0..self.n_parts {
                    self.fetch(layer, PASS, Parts::Owner(owner));
                    self.compute(layer, PASS, Stage::Halo(Parts::Owner(owner)));
                }
            }
        }
        if order != Order::Sequential {
            self.compute(layer, PASS, Stage::Halo(Parts::All));
        }
        self.compute(layer, PASS, Stage::Finish);
    }

    fn fetch(&mut self, layer: usize, pass: Pass, parts: Parts) {
        let wait = Step::Wait(layer, pass, parts, AfterUse::Drop);
        self.steps.extend([Step::Start(layer, pass, parts), wait]);
    }

    fn backward(&mut self, order: Order) {
        for layer in (0..self.model.n_layers()).rev() {
            self.backward_layer(layer, order);
        }
        if let (Order::Stale, Some(layer)) = (order, self.first_exchanged()) {
            self.steps.push(Step::Leave(layer));
        }
    }

    /// The exchanged layer whose gradients are sent last.
    fn first_exchanged(&self) -> Option<usize> {
        (0..self.model.n_layers()).find(|&layer| is_exchanged(self.model, layer))
    }

    fn backward_layer(&mut self, layer: usize, order: Order) {
        const PASS: Pass = Pass::Backward;
        self.compute(layer, PASS, Stage::Begin);
        if !is_exchanged(self.model, layer) {
            self.compute(layer, PASS, Stage::Finish);
            self.steps.push(Step::Reduce(layer));
            return;
        }
        let halo = Step::Compute(layer, PASS, Stage::Halo(Parts::All));
        let finish = Step::Compute(layer, PASS, Stage::Finish);
        let start = Step::Start(layer, PASS, Parts::All);
        let wait = |after| Step::Wait(layer, PASS, Parts::All, after);
        let reduce = Step::Reduce(layer);
        match order {
            Order::Sync(after) => {
                self.steps.extend([halo, finish, start, reduce, wait(after)]);
            }
            Order::Overlap => {
                self.steps.extend([halo, start, finish, reduce, wait(AfterUse::Drop)]);
            }
            // Sums of weight gradients are waited for in this epoch and these rows in the next: what would be
            // in the way of the last sums leaves after them, and travels while the next epoch begins.
            Order::Stale if self.first_exchanged() == Some(layer) => {
                self.steps.extend([halo, finish, reduce, Step::Use(layer, PASS)]);
            }
            Order::Stale => {
                self.steps.extend([halo, start, finish, reduce, Step::Use(layer, PASS)]);
            }
            Order::Sequential => {
                for owner in 0..self.n_parts {
                    let parts = Parts::Owner(owner);
                    // Attention's gradients need the rows themselves once more.
                    if self.model.kind == ModelKind::Gat {
                        self.fetch(layer, Pass::Forward, parts);
                    }
                    self.compute(layer, PASS, Stage::Halo(parts));
                    self.fetch(layer, PASS, parts);
                }
                self.steps.extend([finish, reduce]);
            }
        }
        self.steps.push(Step::Add(layer));
    }

    /// Empties what an asynchronous epoch left in flight before a synchronous one.
    fn drain(&mut self, policy: &ExchangePolicy, epoch: u32) {
        for pass in [Pass::Forward, Pass::Backward] {
            let was_stale = epoch > 0 && !policy.is_synchronous(epoch - 1, pass);
            if was_stale && policy.is_synchronous(epoch, pass) {
                let layers = (0..self.model.n_layers()).filter(|&l| is_exchanged(self.model, l));
                self.steps.extend(layers.map(|layer| Step::Drain(layer, pass)));
            }
        }
    }
}

/// The steps of a forward pass that evaluates: synchronous.
///
/// # Example
/// ```
/// use sylvie_gnn::{ModelConfig, ModelKind};
/// use sylvie_pipeline::{Memory, plan_forward};
///
/// let model = ModelConfig::new(ModelKind::Gcn, vec![64, 32, 10]);
/// let steps = plan_forward(&model, Memory::Sequential, 4);
/// let words: Vec<String> = steps[2..6].iter().map(ToString::to_string).collect();
/// assert_eq!(words[..2], ["begin forward 1", "start forward 1 of part 0"]);
/// assert_eq!(words[2..], ["wait forward 1 of part 0", "halo forward 1 of part 0"]);
/// ```
#[must_use]
pub fn plan_forward(model: &ModelConfig, memory: Memory, n_parts: u32) -> Vec<Step> {
    let order = match memory {
        Memory::All => Order::Sync(AfterUse::Drop),
        Memory::Sequential => Order::Sequential,
    };
    let mut planner = Planner { model, n_parts, steps: Vec::new() };
    planner.forward(order);
    planner.steps
}

/// The steps of training epoch `epoch` on each of `n_parts` ranks: the same on all of them.
///
/// # Paper
/// Algorithms 1 and 2, without the exchange of layer 1: raw features are exchanged once.
///
/// # Example
/// ```
/// use sylvie_gnn::{ModelConfig, ModelKind};
/// use sylvie_pipeline::{ExchangePolicy, Preset, plan_epoch};
///
/// let model = ModelConfig::new(ModelKind::Gcn, vec![64, 32, 10]);
/// let policy = ExchangePolicy { staleness: 2, ..Preset::SylvieA.policy() };
/// let first = |epoch| plan_epoch(&model, &policy, 4, epoch)[0].to_string();
/// assert_eq!(first(0), "begin forward 0");
/// assert_eq!(first(1), "drain forward 1"); // synchronous: what epoch 0 left under way goes
/// ```
#[must_use]
pub fn plan_epoch(
    model: &ModelConfig,
    policy: &ExchangePolicy,
    n_parts: u32,
    epoch: u32,
) -> Vec<Step> {
    let mut planner = Planner { model, n_parts, steps: Vec::new() };
    planner.drain(policy, epoch);
    planner.forward(Order::of(policy, epoch, Pass::Forward));
    planner.steps.push(Step::Loss);
    planner.backward(Order::of(policy, epoch, Pass::Backward));
    planner.steps.extend([Step::Collect, Step::Update]);
    planner.steps
}
