//! Splits that are drawn in the place of a set's own.

use sylvie_data::{DataError, ReadOptions, SplitRule, read};
use sylvie_graph::{Labels, Role};

use crate::samples;

const GRAPH: &str = "synthetic:nodes=400,classes=4";

fn roles(source: &str, word: &str, split_seed: u64) -> Vec<Role> {
    let options =
        ReadOptions { split: word.parse().unwrap(), split_seed, ..ReadOptions::default() };
    read(source, &options).unwrap().split.roles().to_vec()
}

fn counts(roles: &[Role]) -> [usize; 3] {
    [Role::Train, Role::Val, Role::Test].map(|role| roles.iter().filter(|&&r| r == role).count())
}

#[test]
fn shares_are_of_all_nodes_and_differ_by_seed() {
    let drawn = roles(GRAPH, "random:0.5,0.125", 1);
    assert_eq!(counts(&drawn), [200, 50, 150]);
    assert_eq!(roles(GRAPH, "random:0.5,0.125", 1), drawn);
    assert_ne!(roles(GRAPH, "random:0.5,0.125", 2), drawn);
    let options = ReadOptions::default();
    assert_eq!(roles(GRAPH, "given", 1), read(GRAPH, &options).unwrap().split.roles());
}

#[test]
fn nodes_of_each_class_are_as_many_as_asked_for() {
    let options =
        ReadOptions { split: SplitRule::PerClass { train: 7, val: 3 }, ..ReadOptions::default() };
    let dataset = read(GRAPH, &options).unwrap();
    let Labels::Single { classes, .. } = &dataset.labels else { panic!("several labels") };
    for class in 0..4 {
        let nodes = classes.iter().zip(dataset.split.roles()).filter(|&(&c, _)| c == class);
        let roles: Vec<Role> = nodes.map(|(_, &role)| role).collect();
        assert_eq!(counts(&roles)[..2], [7, 3]);
        assert!(!roles.contains(&Role::None));
    }
}

#[test]
fn nodes_without_a_label_are_in_no_set() {
    let (_folder, source) = samples::arrays().write();
    let drawn = roles(&source, "random:0.4,0.2", 1);
    assert_eq!((drawn[4], counts(&drawn)), (Role::None, [2, 1, 2]));
    assert_eq!(counts(&roles(&source, "per-class:1,1", 1)), [2, 2, 1]);
}

#[test]
fn several_labels_have_no_class_to_count_by() {
    let options = ReadOptions { split: "per-class:1,1".parse().unwrap(), ..ReadOptions::default() };
    let error = read("synthetic:nodes=100,multi=1", &options).unwrap_err();
    assert!(matches!(error, DataError::NoClassOfItsOwn { .. }), "{error}");
    assert_eq!(counts(&roles("synthetic:nodes=100,multi=1", "random:0.5,0.25", 1)), [50, 25, 25]);
}

#[test]
fn more_nodes_of_each_class_than_the_largest_has_are_refused() {
    let refused = |word: &str| {
        let options = ReadOptions { split: word.parse().unwrap(), ..ReadOptions::default() };
        read(GRAPH, &options).unwrap_err().to_string()
    };
    for (word, named) in [
        ("per-class:2000,30", "none to validate"),
        ("per-class:400,1", "none to validate"),
        ("per-class:1,400", "none to test"),
    ] {
        let message = refused(word);
        for part in [GRAPH, &format!("--split {word}"), named, "random:0.6,0.2"] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
    // Classes of 100 nodes or so: those that are smaller than what is asked for give all they have.
    let classes = read(GRAPH, &ReadOptions::default()).unwrap().labels;
    let Labels::Single { classes, .. } = classes else { panic!("several labels") };
    let n_largest = (0..4).map(|c| classes.iter().filter(|&&class| class == c).count()).max();
    let n_train = n_largest.unwrap() - 2;
    let [train, val, test] = counts(&roles(GRAPH, &format!("per-class:{n_train},1"), 1));
    assert!(train > n_train && val >= 1 && test >= 1, "{train}, {val}, {test}");
}
