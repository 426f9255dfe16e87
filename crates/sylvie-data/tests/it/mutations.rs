//! Files with changed bytes are read or refused, never a panic, never memory without bound.

use proptest::prelude::*;
use proptest::sample::Index;
use sylvie_data::{Format, Normalization, ReadOptions, read};
use sylvie_graph::Direction;

use crate::allocations::largest_during;
use crate::samples::{self, Sample};
use crate::{bodies, samples_pickle, samples_text};

/// Far more than files of a few kilobytes should need: a zip library's window, the cells that any sparse
/// matrix may take when dense (64 MiB), doubled by growth.
pub(crate) const MAX_ALLOCATION: usize = 160 << 20;

#[derive(Clone, Debug)]
enum Mutation {
    Flip { at: Index, bit: u8 },
    Set { at: Index, byte: u8 },
    Digit { at: Index, digit: u8 },
    Truncate { at: Index },
    Splice { from: Index, to: Index, n_bytes: usize },
    Insert { at: Index, bytes: Vec<u8> },
    Remove { at: Index, n_bytes: usize },
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = any::<Index>;
    prop_oneof![
        4 => (at(), 0_u8..8).prop_map(|(at, bit)| Mutation::Flip { at, bit }),
        2 => (at(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set { at, byte }),
        4 => (at(), 0_u8..10).prop_map(|(at, digit)| Mutation::Digit { at, digit }),
        1 => at().prop_map(|at| Mutation::Truncate { at }),
        1 => (at(), at(), 1_usize..64)
            .prop_map(|(from, to, n_bytes)| Mutation::Splice { from, to, n_bytes }),
        1 => (at(), prop::collection::vec(any::<u8>(), 1..16))
            .prop_map(|(at, bytes)| Mutation::Insert { at, bytes }),
        1 => (at(), 1_usize..32).prop_map(|(at, n_bytes)| Mutation::Remove { at, n_bytes }),
    ]
}

impl Mutation {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let len = bytes.len();
        match self {
            Self::Flip { at, bit } => bytes[at.index(len)] ^= 1 << bit,
            Self::Set { at, byte } => bytes[at.index(len)] = *byte,
            Self::Digit { at, digit } => {
                let digits: Vec<usize> = (0..len).filter(|&i| bytes[i].is_ascii_digit()).collect();
                if !digits.is_empty() {
                    bytes[digits[at.index(digits.len())]] = b'0' + digit;
                }
            }
            Self::Truncate { at } => bytes.truncate(at.index(len)),
            Self::Splice { from, to, n_bytes } => {
                let begin = from.index(len);
                let piece = bytes[begin..(begin + n_bytes).min(len)].to_vec();
                let at = to.index(len);
                bytes.splice(at..at, piece);
            }
            Self::Insert { at, bytes: piece } => {
                let at = at.index(len);
                bytes.splice(at..at, piece.iter().copied());
            }
            Self::Remove { at, n_bytes } => {
                let begin = at.index(len);
                bytes.drain(begin..(begin + n_bytes).min(len));
            }
        }
    }
}

/// Which file of a sample, and what happens to it.
fn changes() -> impl Strategy<Value = Vec<(Index, Mutation)>> {
    prop::collection::vec((any::<Index>(), mutation()), 1..4)
}

fn read_changed(sample: &Sample, format: Format, changes: &[(Index, Mutation)]) {
    let mut changed = sample.clone();
    for (file, mutation) in changes {
        let at = file.index(changed.files.len());
        mutation.apply(&mut changed.files[at].1);
    }
    let (_folder, source) = changed.write();
    let detected = ReadOptions::default();
    let told = ReadOptions {
        format: Some(format),
        direction: Direction::Directed,
        normalization: Normalization::Standard,
        ..detected
    };
    for options in [detected, told] {
        let (result, largest) = largest_during(|| read(&source, &options));
        assert!(largest <= MAX_ALLOCATION, "{largest} bytes at once");
        match result {
            Ok(dataset) => dataset.check().unwrap(),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn changed_files_are_read_or_refused(which in any::<Index>(), changes in changes()) {
        let mut all = [samples::all(), samples_text::all()].concat();
        all.push(("planetoid", samples_pickle::ring()));
        let (name, sample) = &all[which.index(all.len())];
        let format = name.split(',').next().unwrap().parse().unwrap();
        read_changed(sample, format, &changes);
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        body in prop::sample::select(bodies::ALL.to_vec()),
        mut data in prop::collection::vec(any::<u8>(), 0..300),
        head in prop::sample::select(bodies::HEADS.to_vec()),
    ) {
        data.splice(..0, head.iter().copied());
        let ((), largest) = largest_during(|| body(&data));
        prop_assert!(largest <= MAX_ALLOCATION, "{} bytes at once", largest);
    }

    /// Archives that are stored, where a change inside a member is hidden behind its checksum, are
    /// changed before they are packed.
    #[test]
    fn changed_members_are_read_or_refused(
        is_heterophilous in any::<bool>(),
        member in any::<Index>(),
        mutation in mutation(),
    ) {
        let (mut members, sample, format) = if is_heterophilous {
            let members = samples::heterophilous_members();
            (members, samples::heterophilous(), Format::Heterophilous)
        } else {
            (samples::gnn_benchmark_members(), samples::gnn_benchmark(), Format::GnnBenchmark)
        };
        let at = member.index(members.len());
        mutation.apply(&mut members[at].1);
        let bytes = samples::npz(&members, zip::CompressionMethod::Stored);
        read_changed(&sample.with("ring.npz", bytes), format, &[]);
    }

    #[test]
    fn any_words_describe_a_small_graph_or_are_refused(words in "(synthetic)?:?[a-z0-9=,.-]{0,20}") {
        if let Ok(dataset) = read(&words, &ReadOptions::default()) {
            dataset.check().unwrap();
        }
    }
}

/// A member of a few bytes that claims to hold four gigabytes.
#[test]
fn a_bomb_is_refused_by_its_claim() {
    let sample = samples::heterophilous();
    let mut bytes = sample.files[0].1.clone();
    let name = bytes.windows(11).rposition(|window| window == b"node_labels").unwrap();
    // In the central directory the uncompressed size stands 22 bytes before the name.
    bytes[name - 22..name - 18].copy_from_slice(&0xF000_0000_u32.to_le_bytes());
    let (_folder, source) = sample.with("ring.npz", bytes).write();
    let (result, largest) = largest_during(|| read(&source, &ReadOptions::default()));
    let message = result.unwrap_err().to_string();
    assert!(message.contains("key `node_labels`") && message.contains("4026531840"), "{message}");
    assert!(largest < 1 << 20, "{largest}");
}
