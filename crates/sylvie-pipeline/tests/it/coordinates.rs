//! What is sent and what is dropped, against draws whose coordinates are written out here.
//!
//! A learning rate of 0 keeps the weights where they are, so that runs at different precision have
//! the same weights in every epoch and the rows of one can be coded to give the messages of another.

use std::collections::{BTreeMap, BTreeSet};

use sylvie_comm::{Communicator, Purpose, Tag, ThreadOptions, Threads, run_ranks};
use sylvie_gnn::{ModelKind, NormKind, Weights};
use sylvie_graph::{
    Assignment, Cleaning, Dataset, DenseMatrix, Direction, Features, Labels, Role, Split,
    clean_edges,
};
use sylvie_lowbit::{RowCodec, Width};
use sylvie_pipeline::{EpochRecord, ExchangePolicy, Instruments, TrainError, TrainSettings, train};
use sylvie_random::{Coordinates, Pass, Sequence, Stream};
use sylvie_tensor::{Backend, CpuBackend};

use crate::fixture::{
    N_CLASSES, NoClock, Setting, Shape, dataset, inputs, losses, random_parts, run, settings,
};
use crate::recording::Recording;

const N_EPOCHS: u32 = 2;
/// Both words of the key are at work.
const SEED: u64 = 11 << 32 | 5;
const N_COLUMNS: usize = 32;

/// Training messages by tag, sender and receiver.
type Messages = BTreeMap<(Tag, usize, usize), Vec<u8>>;

/// What a run sent, and the weight gradients that each rank of it brought to each reduction.
struct Record {
    messages: Messages,
    reduced: Vec<Vec<Vec<f32>>>,
}

/// A graph and its parts.
struct Case {
    data: Dataset,
    assignment: Assignment,
}

impl Case {
    fn record(&self, settings: &TrainSettings) -> Record {
        let inputs = inputs(&self.data, &self.assignment, Setting::Transductive);
        let ranks =
            run_ranks(inputs.len(), &ThreadOptions::default(), |comm: &mut Threads<Vec<u8>>| {
                let mut comm = Recording::new(comm);
                let (backend, input) = (CpuBackend::new(1), &inputs[comm.rank()]);
                let mut observe = |_: &EpochRecord| Ok(());
                train(
                    &backend,
                    &mut comm,
                    input,
                    settings,
                    Instruments::clock(&NoClock),
                    &mut observe,
                )?;
                Ok::<_, TrainError>((comm.sent, comm.reduced))
            });
        let mut record = Record { messages: Messages::new(), reduced: Vec::new() };
        for (sender, (sent, reduced)) in ranks.expect("a run").into_iter().enumerate() {
            let in_training = sent.into_iter().filter(|(tag, ..)| tag.purpose == Purpose::Training);
            for (tag, peer, bytes) in in_training {
                let earlier = record.messages.insert((tag, sender, peer), bytes);
                assert_eq!(earlier, None, "{tag} from {sender} to {peer}: sent twice");
            }
            // Layer by layer, the last one first: put together as the weights are.
            let epochs = reduced.chunks(settings.model.n_layers());
            let whole = epochs.map(|layers| layers.iter().rev().flatten().copied().collect());
            record.reduced.push(whole.collect());
        }
        record
    }

    /// Nodes of `owner` that `reader` reads, counted from the edges.
    fn halo(&self, reader: usize, owner: usize) -> Vec<u32> {
        let parts = self.assignment.parts();
        let targets = (0..self.data.n_nodes()).filter(|&node| parts[node] as usize == reader);
        let sources = targets.flat_map(|target| self.data.graph.row(target).iter().copied());
        let owned = sources.filter(|&source| parts[source as usize] as usize == owner);
        owned.collect::<BTreeSet<u32>>().into_iter().collect()
    }

    /// Names of all messages of the epochs: one an exchange and pair with something to say.
    fn message_names(&self, n_layers: usize) -> BTreeSet<(Tag, usize, usize)> {
        let mut names = BTreeSet::new();
        let n_parts = self.assignment.n_parts() as usize;
        for (reader, owner) in (0..n_parts).flat_map(|r| (0..n_parts).map(move |o| (r, o))) {
            if reader == owner || self.halo(reader, owner).is_empty() {
                continue;
            }
            for epoch in 0..N_EPOCHS {
                for layer in 1..n_layers as u16 {
                    let tag = |pass| Tag { epoch, layer, pass, purpose: Purpose::Training };
                    names.insert((tag(Pass::Forward), owner, reader));
                    names.insert((tag(Pass::Backward), reader, owner));
                }
            }
        }
        names
    }
}

/// A data set of training nodes; nodes with the same `origin` have the same features and class.
fn case(
    parts: Vec<u32>,
    edges: &[(u32, u32)],
    direction: Direction,
    origin: impl Fn(u32) -> u32,
) -> Case {
    let n_nodes = parts.len();
    let (graph, _) = clean_edges(n_nodes, edges, direction).expect("edges inside the graph");
    let family = Coordinates::new(8, Stream::Generator).family();
    let row = |node: u32| {
        let mut sequence = Sequence::new(family, origin(node));
        (0..N_COLUMNS).map(move |_| sequence.next_f64() as f32 - 0.5)
    };
    let nodes = 0..n_nodes as u32;
    let values = nodes.clone().flat_map(row).collect();
    let classes = nodes.map(|node| origin(node) % N_CLASSES).collect();
    let n_parts = parts.iter().max().expect("nodes") + 1;
    let data = Dataset {
        name: "coordinates".to_owned(),
        graph,
        direction,
        cleaning: Cleaning::default(),
        features: Features::Dense(DenseMatrix::new(n_nodes, N_COLUMNS, values).expect("a matrix")),
        labels: Labels::single(N_CLASSES, classes).expect("labels"),
        split: Split::new(vec![Role::Train; n_nodes]),
    };
    Case { data, assignment: Assignment::new(n_parts, parts).expect("an assignment") }
}

/// What the second reading part is like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readers {
    Different,
    /// Part 3 is part 2 once more.
    Alike,
}

/// Parts 0 and 1 are read by parts 2 and 3 and read nobody: what they send forward depends on no
/// message, and no reader's gradient depends on one that was sent backward.
fn one_way(readers: Readers) -> Case {
    let n_each = 12;
    let node = |part: u32, place: u32| place % n_each * 4 + part;
    let mut edges = Vec::new();
    for place in 0..n_each {
        for part in 0..4 {
            edges.push((node(part, place), node(part, place + 1)));
            edges.push((node(part, place), node(part, place + 3)));
        }
        for owner in (0..2).filter(|_| place % 4 != 3) {
            edges.push((node(owner, place), node(2, 5 * place + owner)));
            if readers == Readers::Alike {
                edges.push((node(owner, place), node(3, 5 * place + owner)));
            } else if place % 4 != 1 {
                edges.push((node(owner, place), node(3, 7 * place + 2 * owner)));
            }
        }
    }
    let parts = (0..4 * n_each).map(|node| node % 4).collect();
    let is_copy = |node: u32| readers == Readers::Alike && node % 4 == 3;
    let origin = |node: u32| if is_copy(node) { node - 1 } else { node };
    case(parts, &edges, Direction::Directed, origin)
}

/// How the lone node is tied to the others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ties {
    None,
    IsRead,
    Reads,
}

/// Node 0 is part 0 alone; parts 1 to 3 are rings of five nodes.
fn lone(ties: Ties, direction: Direction) -> Case {
    let mut edges = Vec::new();
    for node in 1..16 {
        edges.push((node, (node + 2) % 15 + 1));
        match ties {
            Ties::None => {}
            Ties::IsRead => edges.push((0, node)),
            Ties::Reads => edges.push((node, 0)),
        }
    }
    let parts = (0..16).map(|node| if node == 0 { 0 } else { (node - 1) % 3 + 1 }).collect();
    case(parts, &edges, direction, |node| node)
}

/// Weights stay put; `n_layers` graph layers.
fn still(kind: ModelKind, n_layers: usize, exchange: ExchangePolicy) -> TrainSettings {
    let mut settings = settings(kind, N_EPOCHS);
    settings.model.widths = vec![N_COLUMNS; n_layers];
    settings.model.widths.push(N_CLASSES as usize);
    TrainSettings { exchange, learning_rate: 0.0, seed: SEED, ..settings }
}

fn policy(forward: Width, backward: Width) -> ExchangePolicy {
    let [forward, backward] = [forward, backward].map(|width| vec![RowCodec::new(width)]);
    ExchangePolicy { forward, backward, ..ExchangePolicy::full_precision() }
}

fn values(message: &[u8]) -> Vec<f32> {
    let (words, rest) = message.as_chunks::<4>();
    assert!(rest.is_empty(), "{} bytes are no f32 values", message.len());
    words.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

fn encoded(rows: &[f32], keys: &[u32], draws: Coordinates) -> Vec<u8> {
    let codec = RowCodec::new(Width::One);
    let mut message = vec![0; codec.message_bytes(keys.len(), N_COLUMNS)];
    codec.encode_all(rows, N_COLUMNS, keys, draws.family(), &mut message).expect("finite rows");
    message
}

/// The same draws but for one coordinate.
fn neighbours(draws: Coordinates) -> Vec<Coordinates> {
    let other_pass = match draws.pass {
        Pass::Forward => Pass::Backward,
        Pass::Backward => Pass::Forward,
    };
    let mut others = vec![
        Coordinates { seed: draws.seed ^ 1, ..draws },
        Coordinates { seed: draws.seed ^ 1 << 32, ..draws },
        Coordinates { stream: Stream::Dropout, ..draws },
        Coordinates { epoch: draws.epoch ^ 1, ..draws },
        Coordinates { layer: draws.layer - 1, ..draws },
        Coordinates { layer: draws.layer + 1, ..draws },
        Coordinates { pass: other_pass, ..draws },
    ];
    others.extend((0..4).map(|part| Coordinates { reader: Some(part), ..draws }));
    others.push(Coordinates { reader: None, ..draws });
    others.retain(|other| *other != draws);
    others
}

/// Each of `coded`, at the layers and pass that `is_known` accepts, is the code of its exact rows.
fn check_codes(case: &Case, coded: &Messages, exact: &Messages, is_known: impl Fn(Tag) -> bool) {
    let mut n_checked = 0;
    for ((tag, sender, peer), message) in coded.iter().filter(|((tag, ..), _)| is_known(*tag)) {
        let rows = values(&exact[&(*tag, *sender, *peer)]);
        let (keys, reader) = match tag.pass {
            Pass::Forward => (case.halo(*peer, *sender), None),
            Pass::Backward => (case.halo(*sender, *peer), Some(*sender as u16)),
        };
        let (epoch, layer, pass) = (tag.epoch, tag.layer as u8, tag.pass);
        let (seed, stream) = (SEED, Stream::Rounding);
        let draws = Coordinates { seed, epoch, stream, layer, pass, reader };
        let what = format!("{tag} from {sender} to {peer}");
        assert!(*message == encoded(&rows, &keys, draws), "{what}: other bytes than {draws:?}");
        for other in neighbours(draws) {
            assert!(*message != encoded(&rows, &keys, other), "{what}: {other:?} fits as well");
        }
        n_checked += 1;
    }
    assert!(n_checked > 0, "nothing was checked");
}

/// Every message of two epochs and three exchanged layers, on a graph where the exact rows are known
/// for all of them: forward from a run in full precision, backward from one that differs backward only.
#[test]
fn every_message_is_coded_at_its_coordinates() {
    let case = one_way(Readers::Different);
    for kind in [ModelKind::Sage, ModelKind::Gat] {
        let messages =
            |forward, backward| case.record(&still(kind, 4, policy(forward, backward))).messages;
        let exact = messages(Width::F32, Width::F32);
        let exact_backward = messages(Width::One, Width::F32);
        let coded = messages(Width::One, Width::One);
        assert_eq!(coded.keys().copied().collect::<BTreeSet<_>>(), case.message_names(4), "{kind}");
        check_codes(&case, &coded, &exact, |tag| tag.pass == Pass::Forward);
        check_codes(&case, &exact_backward, &exact, |tag| tag.pass == Pass::Forward);
        check_codes(&case, &coded, &exact_backward, |tag| tag.pass == Pass::Backward);
    }
}

/// Where parts read each other, the exact rows are known of the first exchange of a pass.
#[test]
fn first_exchanges_of_a_symmetric_graph_are_coded_at_their_coordinates() {
    let data = dataset(Shape::default());
    let assignment = random_parts(&data, 3);
    let case = Case { data, assignment };
    for kind in [ModelKind::Gcn, ModelKind::Sage, ModelKind::Gat] {
        let messages = |forward, backward| {
            let mut settings = still(kind, 3, policy(forward, backward));
            settings.model.widths[0] = crate::fixture::N_FEATURES;
            case.record(&settings).messages
        };
        let exact = messages(Width::F32, Width::F32);
        let exact_backward = messages(Width::One, Width::F32);
        let coded = messages(Width::One, Width::One);
        assert_eq!(coded.keys().copied().collect::<BTreeSet<_>>(), case.message_names(3), "{kind}");
        check_codes(&case, &coded, &exact, |tag| (tag.pass, tag.layer) == (Pass::Forward, 1));
        check_codes(&case, &coded, &exact_backward, |tag| {
            (tag.pass, tag.layer) == (Pass::Backward, 2)
        });
    }
}

/// Two readers with the same rows, edges and features: they get the same bytes, and send different
/// bytes for equal gradients. From one epoch to the next only the draws change.
#[test]
fn readers_share_forward_draws_and_have_their_own_backward() {
    let case = one_way(Readers::Alike);
    for kind in [ModelKind::Sage, ModelKind::Gat] {
        let messages = |backward| {
            let mut settings = still(kind, 4, policy(Width::One, backward));
            settings.model.dropout = 0.0;
            case.record(&settings).messages
        };
        let (exact, coded) = (messages(Width::F32), messages(Width::One));
        for (layer, owner) in (1..4).flat_map(|layer| [(layer, 0), (layer, 1)]) {
            let tag = |epoch, pass| Tag { epoch, layer, pass, purpose: Purpose::Training };
            for epoch in 0..N_EPOCHS {
                let forward = tag(epoch, Pass::Forward);
                assert_eq!(coded[&(forward, owner, 2)], coded[&(forward, owner, 3)], "{forward}");
                let backward = tag(epoch, Pass::Backward);
                let pair = [(backward, 2, owner), (backward, 3, owner)];
                assert_eq!(exact[&pair[0]], exact[&pair[1]], "{backward}: gradients");
                assert_ne!(coded[&pair[0]], coded[&pair[1]], "{backward}: codes");
            }
            let forward = [0, 1].map(|epoch| (tag(epoch, Pass::Forward), owner, 2));
            assert_ne!(coded[&forward[0]], coded[&forward[1]], "layer {layer}: epochs");
        }
    }
}

/// Where a tensor's gradient lies among a rank's.
fn tensor<'a>(settings: &TrainSettings, flat: &'a [f32], name: &str) -> &'a [f32] {
    let mut start = 0;
    for (spec_name, spec) in Weights::<CpuBackend>::specs(&settings.model) {
        let end = start + spec.n_rows * spec.n_cols;
        if spec_name == name {
            return &flat[start..end];
        }
        start = end;
    }
    panic!("no tensor {name}")
}

/// The gradient of a lone node's row is that of the bias below its ReLU: its own share, and the sum of
/// the readers', ascending.
#[test]
fn gradients_of_readers_are_added_in_rank_order() {
    let mut settings = still(ModelKind::Sage, 2, policy(Width::F32, Width::F32));
    settings.model.dropout = 0.0;
    settings.model.norm = NormKind::None;
    let unread = lone(Ties::None, Direction::Directed).record(&settings);
    let read = lone(Ties::IsRead, Direction::Directed).record(&settings);

    let bias = |record: &Record| tensor(&settings, &record.reduced[0][0], "layers.0.b").to_vec();
    let (own, found) = (bias(&unread), bias(&read));
    let tag = |pass| Tag { epoch: 0, layer: 1, pass, purpose: Purpose::Training };
    let rows = values(&read.messages[&(tag(Pass::Forward), 0, 1)]);
    let remote = [1, 2, 3].map(|r| values(&read.messages[&(tag(Pass::Backward), r, 0)]));
    let sum = |column: &dyn Fn(usize) -> f32| -> Vec<f32> {
        (0..N_COLUMNS).map(|j| if rows[j] > 0.0 { column(j) } else { 0.0 }).collect()
    };
    let [a, b, c] = &remote;
    assert_eq!(found, sum(&|j| own[j] + ((a[j] + b[j]) + c[j])));
    assert_ne!(found, sum(&|j| own[j] + ((a[j] + c[j]) + b[j])), "the order shows");
    assert_ne!(found, sum(&|j| own[j] + ((b[j] + c[j]) + a[j])), "the order shows");
    assert_ne!(found, sum(&|j| ((own[j] + a[j]) + b[j]) + c[j]), "the order shows");
}

#[test]
fn losses_change_with_the_epoch_by_dropout_alone() {
    let case = one_way(Readers::Different);
    let undirected = lone(Ties::IsRead, Direction::Symmetric);
    let cases = [(&undirected, ModelKind::Gcn), (&case, ModelKind::Sage), (&case, ModelKind::Gat)];
    for (case, kind) in cases {
        let inputs = inputs(&case.data, &case.assignment, Setting::Transductive);
        let mut settings = still(kind, 3, policy(Width::F32, Width::F32));
        settings.n_epochs = 3;
        let (records, _) = run(&inputs, &settings, 1).expect("a run");
        let dropped = losses(&records);
        let distinct: BTreeSet<u64> = dropped.iter().map(|loss| loss.to_bits()).collect();
        assert_eq!(distinct.len(), 3, "{kind}: {dropped:?}");
        settings.model.dropout = 0.0;
        let (records, _) = run(&inputs, &settings, 1).expect("a run");
        let whole = losses(&records);
        assert!(whole.iter().all(|&loss| loss == whole[0]), "{kind}: {whole:?}");
    }
}

/// Which values of the rows with `keys` are dropped, row by row.
fn dropped(keys: &[u32], (epoch, layer): (u32, u8), stream: Stream) -> Vec<bool> {
    let draws = Coordinates { epoch, layer, ..Coordinates::new(SEED, stream) };
    let (backend, n_values) = (CpuBackend::new(1), keys.len() * N_COLUMNS);
    let mut ones = backend.upload(keys.len(), N_COLUMNS, &vec![1.0; n_values]);
    backend.dropout(0.5, draws.family(), &backend.upload_index(keys), &mut ones);
    backend.download(&ones).iter().map(|&value| value == 0.0).collect()
}

/// What comes back for a row is 0 where the row was dropped: the owner masks it, by epoch, layer, node
/// and column, so that rounding adds no noise to what is 0. What travels is not masked.
#[test]
fn gradients_of_halo_rows_are_masked_by_their_owner() {
    let case = lone(Ties::IsRead, Direction::Directed);
    let mut masks = BTreeSet::new();
    for width in [Width::F32, Width::One] {
        let mut settings = still(ModelKind::Sage, 2, policy(Width::F32, width));
        settings.model.norm = NormKind::None;
        let record = case.record(&settings);
        for (epoch, gradients) in (0..).zip(&record.reduced[0]) {
            let tag = |pass| Tag { epoch, layer: 1, pass, purpose: Purpose::Training };
            let rows = values(&record.messages[&(tag(Pass::Forward), 0, 1)]);
            let mask = dropped(&[0], (epoch, 1), Stream::Dropout);
            let bias = tensor(&settings, gradients, "layers.0.b");
            for (j, &found) in bias.iter().enumerate() {
                assert_eq!(found == 0.0, mask[j] || rows[j] == 0.0, "epoch {epoch}, column {j}");
            }
            if width == Width::F32 {
                let sent = values(&record.messages[&(tag(Pass::Backward), 1, 0)]);
                assert!(sent.iter().all(|&value| value != 0.0), "epoch {epoch}: {sent:?}");
            }
            masks.insert(mask);
        }
    }
    assert_eq!(masks.len(), N_EPOCHS as usize);
}

/// At a lone node a row of the first layer's gradient is 0 where its column was dropped.
#[test]
fn the_first_layer_drops_at_its_coordinates() {
    // GAT's weights read halo rows too, so there the node reads nobody.
    let cases = [
        (ModelKind::Gcn, lone(Ties::Reads, Direction::Symmetric)),
        (ModelKind::Sage, lone(Ties::Reads, Direction::Directed)),
        (ModelKind::Gat, lone(Ties::IsRead, Direction::Directed)),
    ];
    let tensors = |kind| match kind {
        ModelKind::Gcn => vec![("layers.0.w", Stream::DropoutAggregate)],
        ModelKind::Sage => vec![
            ("layers.0.w_self", Stream::Dropout),
            ("layers.0.w_neigh", Stream::DropoutAggregate),
        ],
        ModelKind::Gat => vec![("layers.0.w", Stream::Dropout)],
    };
    for (kind, case) in cases {
        let settings = still(kind, 3, policy(Width::F32, Width::F32));
        let record = case.record(&settings);
        for (epoch, gradients) in (0..).zip(&record.reduced[0]) {
            for (name, stream) in tensors(kind) {
                let rows = tensor(&settings, gradients, name).chunks_exact(N_COLUMNS);
                let zeros: Vec<bool> = rows.map(|row| row.iter().all(|&g| g == 0.0)).collect();
                assert_eq!(
                    zeros,
                    dropped(&[0], (epoch, 0), stream),
                    "{kind} {name}, epoch {epoch}"
                );
            }
        }
    }
}
