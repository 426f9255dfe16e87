//! What every partitioner promises, and what METIS is asked for.

use std::thread;

use proptest::prelude::*;
use sylvie_graph::{Assignment, Csr, Direction, clean_edges};
use sylvie_partition::{
    Contiguous, Fennel, Method, Metis, Objective, PartitionError, Partitioner, Quality, Random,
    quality,
};

use crate::graphs::planted;

const OBJECTIVES: [Objective; 2] = [Objective::Volume, Objective::Cut];

fn metis(objective: Objective, seed: u64) -> Metis {
    Metis { objective, seed, ..Metis::default() }
}

fn partitioners(seed: u64) -> Vec<Box<dyn Partitioner>> {
    let mut all: Vec<Box<dyn Partitioner>> =
        vec![Box::new(Contiguous), Box::new(Fennel::default()), Box::new(Random { seed })];
    all.extend(OBJECTIVES.map(|objective| Box::new(metis(objective, seed)) as _));
    all
}

/// Checks that every node has a part and every part a node.
fn check(assignment: &Assignment, n_nodes: usize, n_parts: u32) {
    assert_eq!(assignment.n_parts(), n_parts);
    assert_eq!(assignment.parts().len(), n_nodes);
    assert!(assignment.sizes().iter().all(|&size| size > 0), "{:?}", assignment.sizes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_node_has_a_part_and_every_part_a_node(
        n_nodes in 1_usize..40,
        edges in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..150),
        directed in any::<bool>(),
        train_in in prop::sample::select(vec![0_usize, 1, 2, 7, 50]),
        n_parts in any::<prop::sample::Index>(),
        imbalance in prop::sample::select(vec![1.000_001_f32, 1.03, 1.2, 1.5]),
        seed in any::<u64>(),
    ) {
        let n_parts = n_parts.index(n_nodes) as u32 + 1;
        let edges: Vec<(u32, u32)> = edges
            .iter()
            .map(|(s, t)| (s.index(n_nodes) as u32, t.index(n_nodes) as u32))
            .collect();
        // Not cleaned, so that loops and one-way edges get there.
        let graph = if directed {
            Csr::from_pairs(n_nodes, n_nodes, &edges).unwrap()
        } else {
            clean_edges(n_nodes, &edges, Direction::Symmetric).unwrap().0
        };
        let train: Vec<bool> = (0..n_nodes).map(|v| train_in > 0 && v % train_in == 0).collect();
        for partitioner in partitioners(seed) {
            let assignment = partitioner.partition(&graph, &train, n_parts).unwrap();
            check(&assignment, n_nodes, n_parts);
            prop_assert_eq!(partitioner.partition(&graph, &train, n_parts).unwrap(), assignment);
        }
        for objective in OBJECTIVES {
            let tolerant = Metis { imbalance, ..metis(objective, seed) };
            check(&tolerant.partition(&graph, &train, n_parts).unwrap(), n_nodes, n_parts);
        }
    }
}

fn figures(partitioner: &dyn Partitioner, graph: &Csr, train: &[bool], n_parts: u32) -> Quality {
    let assignment = partitioner.partition(graph, train, n_parts).unwrap();
    check(&assignment, graph.n_rows(), n_parts);
    quality(graph, &assignment, train)
}

#[test]
fn metis_sends_far_less_than_random_and_balances() {
    let graph = planted(40, 1);
    // Training nodes crowd in a tenth of the ids, as they may in a temporal split.
    let some: Vec<bool> = (0..graph.n_rows()).map(|v| v % 7 == 0 && v < 1400).collect();
    for train in [vec![false; graph.n_rows()], some] {
        for n_parts in [2, 3, 4, 8] {
            let random = figures(&Random { seed: 1 }, &graph, &train, n_parts);
            for objective in OBJECTIVES {
                let found = figures(&metis(objective, 1), &graph, &train, n_parts);
                let context = format!("{objective} {n_parts}: {found:?}");
                assert!(found.communication_volume * 3 < random.communication_volume, "{context}");
                assert!(found.cut_edges * 5 < random.cut_edges, "{context}");
                assert!(found.node_balance < 1.1, "{context}");
                assert!(found.train_balance < 1.3, "{context}");
            }
        }
    }
}

#[test]
fn fennel_comes_near_metis_within_its_bounds() {
    let graph = planted(40, 1);
    let train: Vec<bool> = (0..graph.n_rows()).map(|v| v % 7 == 0 && v < 1400).collect();
    for n_parts in [2, 4, 8] {
        let random = figures(&Random { seed: 1 }, &graph, &train, n_parts);
        let once = figures(&Fennel { passes: 1, ..Fennel::default() }, &graph, &train, n_parts);
        let often = figures(&Fennel::default(), &graph, &train, n_parts);
        let context = format!("{n_parts}: {once:?} {often:?}");
        assert!(often.cut_edges * 2 < random.cut_edges, "{context}");
        assert!(often.cut_edges < once.cut_edges, "{context}");
        for found in [&once, &often] {
            assert!(found.node_balance < 1.04, "{context}");
            assert!(found.train_balance < 1.1, "{context}");
        }
    }
}

#[test]
fn training_nodes_are_balanced_because_they_are_asked_for() {
    let graph = planted(16, 2);
    // All in one half of the communities: a partition blind to them would pile them up.
    let blind = metis(Objective::Volume, 1).partition(&graph, &vec![false; 800], 2).unwrap();
    let train: Vec<bool> = blind.parts().iter().map(|&part| part == 0).collect();
    let piled_up = quality(&graph, &blind, &train).train_balance;
    let balanced = figures(&metis(Objective::Volume, 1), &graph, &train, 2).train_balance;
    assert!(piled_up == 2.0 && balanced < 1.2, "{piled_up} {balanced}");
}

#[test]
fn one_seed_gives_one_assignment_in_any_thread() {
    let graph = planted(20, 3);
    let train: Vec<bool> = (0..graph.n_rows()).map(|v| v % 3 == 0).collect();
    let run = |seed: u64| metis(Objective::Volume, seed).partition(&graph, &train, 4).unwrap();
    let expected = [run(1), run(2), run(1 << 32)];
    assert_ne!(expected[0], expected[1]);
    thread::scope(|scope| {
        let (run, expected) = (&run, &expected);
        for thread in 0..4 {
            scope.spawn(move || {
                for turn in 0..6 {
                    let which = (thread + turn) % 3;
                    assert_eq!(run([1, 2, 1 << 32][which]), expected[which]);
                }
            });
        }
    });
    let deal = |seed: u64| Random { seed }.partition(&graph, &train, 4).unwrap();
    assert_eq!(deal(5), deal(5));
    assert_ne!(deal(5), deal(6));
}

#[test]
fn sizes_of_contiguous_and_random_differ_by_one_at_most() {
    let graph = Csr::from_pairs(11, 11, &[]).unwrap();
    for n_parts in 1..=11 {
        for partitioner in [&Contiguous as &dyn Partitioner, &Random { seed: 3 }] {
            let sizes = partitioner.partition(&graph, &[false; 11], n_parts).unwrap().sizes();
            let (min, max) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(max - min <= 1 && *min > 0, "{sizes:?}");
        }
    }
    let ranges = Contiguous.partition(&graph, &[false; 11], 4).unwrap();
    assert!(ranges.parts().is_sorted());
}

#[test]
fn a_directed_graph_is_cut_where_its_symmetric_one_is() {
    let graph = planted(12, 4);
    let upper: Vec<(u32, u32)> = (0..graph.n_rows() as u32)
        .flat_map(|v| graph.row(v as usize).iter().map(move |&u| (v, u)))
        .filter(|(v, u)| v < u)
        .collect();
    let directed = Csr::from_pairs(graph.n_rows(), graph.n_rows(), &upper).unwrap();
    let train = vec![false; graph.n_rows()];
    let run = |graph: &Csr| metis(Objective::Volume, 1).partition(graph, &train, 3).unwrap();
    assert_eq!(run(&directed), run(&graph));
}

#[test]
fn graphs_that_metis_is_known_to_stumble_on() {
    let nothing = Csr::from_pairs(1000, 1000, &[]).unwrap();
    let star: Vec<(u32, u32)> = (1..1000).map(|leaf| (0, leaf)).collect();
    let (star, _) = clean_edges(1000, &star, Direction::Symmetric).unwrap();
    let clique: Vec<(u32, u32)> = (0..64).flat_map(|v| (0..v).map(move |u| (u, v))).collect();
    let (clique, _) = clean_edges(64, &clique, Direction::Symmetric).unwrap();
    for graph in [nothing, star, clique] {
        let n_nodes = graph.n_rows();
        let one: Vec<bool> = (0..n_nodes).map(|v| v == 0).collect();
        for train in [vec![false; n_nodes], one, vec![true; n_nodes]] {
            for n_parts in [1, 2, 5, 63, 64] {
                for objective in OBJECTIVES {
                    let found = metis(objective, 1).partition(&graph, &train, n_parts).unwrap();
                    check(&found, n_nodes, n_parts);
                }
            }
        }
    }
}

#[test]
fn settings_that_cannot_be_met_are_refused_with_their_numbers() {
    let (graph, _) = clean_edges(3, &[(0, 1)], Direction::Symmetric).unwrap();
    for partitioner in partitioners(1) {
        let run = |n_parts| partitioner.partition(&graph, &[true; 3], n_parts).unwrap_err();
        assert_eq!(run(0), PartitionError::NoParts);
        assert_eq!(run(4), PartitionError::TooManyParts { n_parts: 4, n_nodes: 3 });
        assert_eq!(run(4).to_string(), "4 parts are more than the graph's 3 nodes");
    }
    for imbalance in [1.0, 0.5, 1.6, f64::INFINITY, f64::NAN] {
        let strict = Fennel { imbalance, ..Fennel::default() };
        let refused = strict.partition(&graph, &[true; 3], 2).unwrap_err();
        assert!(matches!(refused, PartitionError::BadImbalance { .. }), "{refused}");
    }
    for imbalance in [1.0, 0.5, 1.6, f32::INFINITY, f32::NAN] {
        let strict = Metis { imbalance, ..Metis::default() };
        let refused = strict.partition(&graph, &[true; 3], 2).unwrap_err();
        assert!(matches!(refused, PartitionError::BadImbalance { .. }), "{refused}");
    }
    let unknown = "kway".parse::<Method>().unwrap_err().to_string();
    assert_eq!(
        unknown,
        "unknown partitioner \"kway\"; there are metis, fennel, contiguous and random"
    );
    assert!("edges".parse::<Objective>().is_err());
}

#[test]
fn names_are_read_as_they_are_written() {
    for method in [Method::Metis, Method::Fennel, Method::Contiguous, Method::Random] {
        assert_eq!(method.to_string().parse(), Ok(method));
        assert_eq!(method.partitioner(Objective::Cut, 1).name(), method.to_string());
    }
    for objective in OBJECTIVES {
        assert_eq!(objective.to_string().parse(), Ok(objective));
    }
    assert_eq!((Method::default(), Objective::default()), (Method::Metis, Objective::Volume));
}

#[test]
#[should_panic(expected = "training flags and nodes")]
fn flags_of_other_nodes_are_the_callers_fault() {
    let (graph, _) = clean_edges(3, &[(0, 1)], Direction::Symmetric).unwrap();
    let _ = Metis::default().partition(&graph, &[true; 2], 2);
}
