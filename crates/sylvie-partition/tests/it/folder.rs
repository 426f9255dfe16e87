//! What is written is read back.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use safetensors::{Dtype, SafeTensors};
use sylvie_graph::{Dataset, PartGraph};
use sylvie_partition::{
    About, Existing, FeatureKind, FolderPart, LabelKind, Manifest, NewFolder, PartContents,
    PartitionFolder, Source, build_parts, quality,
};

use crate::graphs::{Case, Kind, cases, community_case};

/// Says where a case came from.
pub(crate) fn about(inductive: bool) -> About {
    About {
        source: Source {
            name: "case".to_owned(),
            data: "some/where".to_owned(),
            format: None,
            normalize: "none".to_owned(),
            split_seed: 5,
            split: "given".to_owned(),
            split_index: 0,
        },
        partitioner: "metis".to_owned(),
        objective: "volume".to_owned(),
        seed: 7,
        inductive,
    }
}

/// Writes a partition where there is none.
pub(crate) fn write(dir: &Path, case: &Case, kind: Kind, about: &About) -> Manifest {
    let folder = NewFolder::create(dir, Existing::Keep).unwrap();
    folder.write(&case.dataset(kind), &case.assignment, about).unwrap()
}

fn contents(dataset: &Dataset, graph: PartGraph) -> PartContents {
    let roles = dataset.split.roles();
    PartContents {
        features: dataset.features.gather_rows(&graph.own_ids),
        labels: dataset.labels.gather_rows(&graph.own_ids),
        roles: graph.own_ids.iter().map(|&id| roles[id as usize]).collect(),
        graph,
    }
}

/// What is to be read back, built at once.
fn expected(case: &Case, kind: Kind, inductive: bool) -> Vec<FolderPart> {
    let dataset = case.dataset(kind);
    let build = |members| build_parts(&case.graph, &case.assignment, members).into_iter();
    let mut training = inductive.then(|| build(Some(&case.flags[..])));
    build(None)
        .map(|graph| FolderPart {
            whole: contents(&dataset, graph),
            training: training
                .as_mut()
                .map(|parts| contents(&dataset, parts.next().expect("as many"))),
        })
        .collect()
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
    entries.map(|entry| (name(&entry), fs::read(entry.path()).unwrap())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn parts_come_back_as_they_were(case in cases(), rich in any::<bool>(), inductive in any::<bool>()) {
        let kind = if rich { Kind::Rich } else { Kind::Plain };
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("parts");
        let manifest = write(&dir, &case, kind, &about(inductive));
        let opened = PartitionFolder::open(&dir).unwrap();
        prop_assert_eq!(opened.manifest(), &manifest);
        let expected = expected(&case, kind, inductive);
        prop_assert_eq!(&opened.read_all().unwrap(), &expected);
        let last = case.assignment.n_parts() - 1;
        prop_assert_eq!(&opened.read_part(last).unwrap(), &expected[last as usize]);
        // The same once more, bit for bit.
        let again = folder.path().join("again");
        write(&again, &case, kind, &about(inductive));
        prop_assert!(files(&dir) == files(&again));
    }
}

#[test]
fn the_manifest_tells_what_was_split_and_how() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("parts");
    let case = community_case();
    let manifest = write(&dir, &case, Kind::Rich, &about(true));
    let train: Vec<bool> = case.flags.clone();
    assert_eq!(manifest.quality, quality(&case.graph, &case.assignment, &train));
    let trained = quality(&case.graph.induced(&train), &case.assignment, &train);
    assert_eq!(manifest.trained_quality(), &trained);
    assert_ne!(manifest.quality.cut_edges, trained.cut_edges);
    assert_eq!((manifest.n_nodes, manifest.n_edges), (100, case.graph.n_edges()));
    assert_eq!((manifest.n_features, manifest.feature_kind), (3, FeatureKind::Sparse));
    assert_eq!((manifest.n_classes, manifest.label_kind), (2, LabelKind::Multi));
    assert_eq!((manifest.n_train, manifest.n_val, manifest.n_test), (34, 0, 33));
    assert_eq!((manifest.cleaning.stored, manifest.cleaning.loops), (70, 2));
    assert_eq!((manifest.seed, manifest.n_parts(), manifest.version), (7, 4, 1));
    assert_eq!(manifest.source, about(true).source);
    assert_eq!(manifest.parts[3].file, "part-0003.safetensors");
    let names: Vec<String> = files(&dir).into_keys().collect();
    assert_eq!(names.len(), 5, "{names:?}");
    // Another seed is another partition, whatever the parts are.
    let other =
        write(&folder.path().join("other"), &case, Kind::Rich, &About { seed: 8, ..about(true) });
    assert_ne!(other.id, manifest.id);
}

#[test]
fn the_arrays_are_those_of_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("parts");
    let case = community_case();
    write(&dir, &case, Kind::Plain, &about(true));
    let bytes = fs::read(dir.join("part-0002.safetensors")).unwrap();
    let arrays = SafeTensors::deserialize(&bytes).unwrap();
    let mut found: Vec<String> = arrays
        .iter()
        .map(|(name, array)| format!("{name} {:?} {}", array.dtype(), array.shape().len()))
        .collect();
    found.sort();
    let mut expected = ["features F32 2", "labels U32 1", "roles U8 1"].map(String::from).to_vec();
    for prefix in ["", "train."] {
        for name in ["own_ids", "degrees", "block_owners", "send_readers", "boundary"] {
            expected.push(format!("{prefix}{name} U32 1"));
        }
        for block in 0..4 {
            expected.push(format!("{prefix}blocks.{block}.indptr U64 1"));
            for name in ["rows", "indices"] {
                expected.push(format!("{prefix}blocks.{block}.{name} U32 1"));
            }
            if block > 0 {
                expected.push(format!("{prefix}blocks.{block}.column_ids U32 1"));
                expected.push(format!("{prefix}blocks.{block}.column_degrees U32 1"));
                expected.push(format!("{prefix}sends.{}.rows U32 1", block - 1));
            }
        }
    }
    expected.sort();
    assert_eq!(found, expected);
    // Each array begins where numbers of its type may.
    let begin = bytes.as_ptr() as usize;
    for (name, array) in arrays.iter() {
        let size = match array.dtype() {
            Dtype::U64 => 8,
            Dtype::U8 => 1,
            _ => 4,
        };
        assert_eq!((array.data().as_ptr() as usize - begin) % size, 0, "{name}");
    }
}
