//! Generated graphs are what they are said to be.

use sylvie_data::{DataError, ReadOptions, read};
use sylvie_graph::{
    Csr, Dataset, DenseMatrix, Features, Labels, Role, degree_summary, edge_homophily,
};

fn generate(source: &str) -> Dataset {
    read(source, &ReadOptions::default()).unwrap()
}

fn dense(dataset: &Dataset) -> &DenseMatrix {
    let Features::Dense(matrix) = &dataset.features else { panic!("dense features") };
    matrix
}

fn classes(dataset: &Dataset) -> &[u32] {
    let Labels::Single { classes, .. } = &dataset.labels else { panic!("single labels") };
    classes
}

/// Share of test nodes whose row is nearest to the mean row of their class's training nodes: what a
/// linear model reaches, for noise that is alike in all directions.
fn nearest_mean_accuracy(dataset: &Dataset, rows: &DenseMatrix) -> f64 {
    let (classes, width) = (classes(dataset), rows.n_cols());
    let n_classes = dataset.labels.n_classes() as usize;
    let mut means = vec![0.0_f64; n_classes * width];
    let mut counts = vec![0.0_f64; n_classes];
    for node in dataset.split.ids(Role::Train) {
        let class = classes[node as usize] as usize;
        counts[class] += 1.0;
        for (mean, &value) in means[class * width..].iter_mut().zip(rows.row(node as usize)) {
            *mean += f64::from(value);
        }
    }
    let test = dataset.split.ids(Role::Test);
    let n_right = test.iter().filter(|&&node| {
        let distance = |class: usize| -> f64 {
            let mean = &means[class * width..][..width];
            let row = rows.row(node as usize);
            row.iter().zip(mean).map(|(&v, m)| (f64::from(v) - m / counts[class]).powi(2)).sum()
        };
        let nearest = (0..n_classes).min_by(|&a, &b| distance(a).total_cmp(&distance(b))).unwrap();
        nearest == classes[node as usize] as usize
    });
    n_right.count() as f64 / test.len() as f64
}

/// Each node's own row and the mean of its neighbours', added.
fn aggregate(graph: &Csr, rows: &DenseMatrix) -> DenseMatrix {
    let mut values = rows.values().to_vec();
    for (node, sum) in values.chunks_exact_mut(rows.n_cols()).enumerate() {
        let share = 1.0 / graph.degree(node).max(1) as f32;
        for &neighbour in graph.row(node) {
            for (sum, &value) in sum.iter_mut().zip(rows.row(neighbour as usize)) {
                *sum += value * share;
            }
        }
    }
    DenseMatrix::new(rows.n_rows(), rows.n_cols(), values).unwrap()
}

#[test]
fn the_default_graph() {
    let dataset = generate("synthetic");
    let words = "synthetic:nodes=20000,degree=20,features=64,classes=10,locality=0.9,seed=1";
    let spelt_out = generate(words);
    let quiet = generate(&format!("{words},noise=0"));
    assert_eq!((&quiet.graph, &quiet.labels), (&dataset.graph, &dataset.labels));
    assert_eq!(spelt_out.graph, dataset.graph);
    assert_eq!(spelt_out.features, dataset.features);
    assert_eq!((dataset.n_nodes(), dataset.features.n_cols()), (20_000, 64));
    assert_eq!(dataset.labels.n_classes(), 10);
    let sizes = [Role::Train, Role::Val, Role::Test].map(|role| dataset.split.count(role));
    assert_eq!(sizes, [10_000, 5_000, 5_000]);

    let degrees = degree_summary(&dataset.graph);
    assert!((19.0..=20.5).contains(&degrees.mean), "{degrees:?}");
    assert!(degrees.max > 10 * degrees.median, "{degrees:?}");
    let homophily = edge_homophily(&dataset.graph, &dataset.labels).unwrap();
    assert!((0.75..0.92).contains(&homophily), "{homophily}");
}

#[test]
fn neighbours_tell_what_features_alone_do_not() {
    let dataset = generate("synthetic");
    let own = nearest_mean_accuracy(&dataset, dense(&dataset));
    assert!((0.40..0.55).contains(&own), "{own}");
    let once = aggregate(&dataset.graph, dense(&dataset));
    let twice = aggregate(&dataset.graph, &once);
    let (once, twice) =
        (nearest_mean_accuracy(&dataset, &once), nearest_mean_accuracy(&dataset, &twice));
    let best = once.max(twice);
    assert!((0.85..0.97).contains(&best), "{once} {twice}");
}

#[test]
fn seeds_change_graph_and_split_apart() {
    let one = generate("synthetic:nodes=500");
    let two = generate("synthetic:nodes=500,seed=2");
    assert_ne!(one.graph, two.graph);
    assert_ne!(one.features, two.features);
    assert_eq!(one.split, two.split);
    let options = ReadOptions { split_seed: 2, ..ReadOptions::default() };
    let other_split = read("synthetic:nodes=500", &options).unwrap();
    assert_eq!(other_split.graph, one.graph);
    assert_ne!(other_split.split, one.split);
}

#[test]
fn thread_counts_do_not_matter() {
    let pool = |n: usize| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
    let one = pool(1).install(|| generate("synthetic:nodes=3000"));
    let three = pool(3).install(|| generate("synthetic:nodes=3000"));
    assert_eq!(one.graph, three.graph);
    assert_eq!(one.features, three.features);
    assert_eq!(one.labels, three.labels);
}

#[test]
fn multi_labels_follow_communities() {
    let dataset = generate("synthetic:nodes=2000,multi=1,classes=12");
    assert!(dataset.labels.is_multi());
    let Labels::Multi { values, .. } = &dataset.labels else { panic!("multi-labels") };
    let mean = values.iter().map(|&flag| f64::from(flag)).sum::<f64>() / 2000.0;
    assert!((2.0..4.0).contains(&mean), "{mean} classes a node");
    let agreement = edge_homophily(&dataset.graph, &dataset.labels).unwrap();
    assert!(agreement > 0.5, "{agreement}");
}

#[test]
fn noise_takes_labels_from_their_communities() {
    // Homophily of pairs that agree whenever both are typical, which 0.92 of the nodes are.
    let homophily = |noise: &str| {
        let dataset = generate(&format!("synthetic:nodes=4000,locality=1,noise={noise}"));
        edge_homophily(&dataset.graph, &dataset.labels).unwrap()
    };
    let (none, half, all) = (homophily("0"), homophily("0.5"), homophily("1"));
    assert!((0.80..0.90).contains(&none), "{none}");
    assert!((0.21..0.36).contains(&half), "{half}");
    assert!((0.06..0.14).contains(&all), "{all}");

    let n_labels = |noise: &str| {
        let dataset = generate(&format!("synthetic:nodes=2000,multi=1,classes=12,noise={noise}"));
        let Labels::Multi { values, .. } = dataset.labels else { panic!("multi-labels") };
        values.iter().map(|&flag| f64::from(flag)).sum::<f64>()
    };
    // Half of the classes of communities, and all that stray.
    let ratio = n_labels("0.5") / n_labels("0");
    assert!((0.5..0.62).contains(&ratio), "{ratio}");
}

#[test]
fn extremes_are_generated() {
    for words in [
        "nodes=4,degree=3,classes=2",
        "nodes=100,degree=0",
        "nodes=60,degree=50",
        "nodes=1000,locality=0",
        "nodes=1000,locality=1",
        "nodes=30,features=1,classes=20",
    ] {
        let dataset = generate(&format!("synthetic:{words}"));
        dataset.check().unwrap();
    }
    assert_eq!(generate("synthetic:nodes=100,degree=0").graph.n_edges(), 0);
}

#[test]
fn settings_out_of_range_are_refused() {
    for (words, expected) in [
        ("nodes=3", "setting `nodes=3`"),
        ("nodes=-3", "from 4 to 100000000"),
        ("nodes=many", "`nodes=many`"),
        ("nodes=100,degree=100", "less than the 100 nodes"),
        ("nodes=5,classes=10,degree=2", "`classes=10`"),
        ("locality=1.5", "from 0 to 1"),
        ("locality=NaN", "`locality=NaN`"),
        ("features=0", "`features=0`"),
        ("nodes=100000000,features=65536", "at most 85 with"),
        ("classes=1", "from 2 to 4096"),
        ("multi=2", "from 0 to 1"),
        ("noise=-0.1", "from 0 to 1"),
        ("seed=1,seed=2", "each key once"),
        ("nodes", "key=value"),
        ("", "key=value"),
        ("node=3", "unknown setting of a synthetic graph `node`: allowed are nodes, degree"),
    ] {
        let error: DataError =
            read(&format!("synthetic:{words}"), &ReadOptions::default()).unwrap_err();
        assert!(error.to_string().contains(expected), "{words}: {error}");
    }
}
