//! `sylvie info`.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use sylvie::data::shown;
use sylvie::graph::{Dataset, DegreeSummary, Features, Role, degree_summary, edge_homophily};

use crate::args::InfoArgs;
use crate::console::{Console, score};
use crate::model_file::LabelKind;
use crate::settings::RunSettings;
use crate::{devices, load, without_effect};

/// Describes a graph.
///
/// # Errors
/// Whatever keeps the graph from being read, or devices from being listed.
pub(crate) fn run(args: InfoArgs) -> Result<()> {
    let console = Console::json_if(args.json);
    if args.devices {
        return devices::list(console);
    }
    let settings = RunSettings::of_data(args.data.clone());
    without_effect::check_split(&args.data, &settings)?;
    let dataset = load::read(&settings, console)?;
    let info = console.during("counting", || Info::new(&settings, &dataset));
    console.json(&info)?;
    console.line(info.to_text())
}

/// What is known of a graph. Edges are directed.
#[derive(Debug, Serialize)]
struct Info {
    data: String,
    nodes: usize,
    edges: usize,
    directed: bool,
    features: usize,
    features_stored: &'static str,
    features_nonzero: usize,
    classes: u32,
    labels: &'static str,
    unlabelled: usize,
    train: usize,
    val: usize,
    test: usize,
    degree_min: u32,
    degree_median: u32,
    degree_mean: f64,
    degree_max: u32,
    isolated: usize,
    homophily: Option<f64>,
    edges_given: usize,
    loops_removed: usize,
    duplicates_removed: usize,
    inverses_added: usize,
}

impl Info {
    fn new(settings: &RunSettings, dataset: &Dataset) -> Self {
        let DegreeSummary { min, median, mean, max, n_isolated } = degree_summary(&dataset.graph);
        let (features_stored, values) = match &dataset.features {
            Features::Dense(matrix) => ("dense", matrix.values()),
            Features::Sparse(matrix) => ("sparse", matrix.values()),
        };
        let cleaning = dataset.cleaning;
        Self {
            data: settings.data.clone(),
            nodes: dataset.n_nodes(),
            edges: dataset.graph.n_edges(),
            directed: settings.directed,
            features: dataset.features.n_cols(),
            features_stored,
            features_nonzero: values.iter().filter(|&&value| value != 0.0).count(),
            classes: dataset.labels.n_classes(),
            labels: LabelKind::of(&dataset.labels).name(),
            unlabelled: dataset.labels.n_unlabelled(),
            train: dataset.split.count(Role::Train),
            val: dataset.split.count(Role::Val),
            test: dataset.split.count(Role::Test),
            degree_min: min,
            degree_median: median,
            degree_mean: mean,
            degree_max: max,
            isolated: n_isolated,
            homophily: edge_homophily(&dataset.graph, &dataset.labels),
            edges_given: cleaning.n_stored,
            loops_removed: cleaning.n_loops,
            duplicates_removed: cleaning.n_duplicates,
            inverses_added: cleaning.n_inverses_added,
        }
    }

    fn to_text(&self) -> String {
        let mut text = shown(Path::new(&self.data));
        let mut row = |name: &str, value: String| {
            let _ = write!(text, "\n{name:<12}{value}");
        };
        row("nodes", self.nodes.to_string());
        let ways = if self.directed { "one way" } else { "both ways" };
        row("edges", format!("{} directed, {ways}", self.edges));
        let Self { features, features_stored, features_nonzero, .. } = self;
        row("features", format!("{features}, {features_stored}, {features_nonzero} non-zeros"));
        row(
            "classes",
            format!("{}, {}; {} unlabelled", self.classes, self.labels, self.unlabelled),
        );
        let Self { train, val, test, .. } = self;
        row("split", format!("{train} training, {val} validation, {test} test"));
        let Self { degree_min, degree_median, degree_mean, degree_max, isolated, .. } = self;
        row(
            "degree",
            format!(
                "min {degree_min}, median {degree_median}, mean {degree_mean:.2}, max {degree_max}; \
                 {isolated} isolated"
            ),
        );
        row("homophily", score(self.homophily));
        row(
            "cleaning",
            format!(
                "{} edges given, {} loops and {} duplicates removed, {} inverses added",
                self.edges_given, self.loops_removed, self.duplicates_removed, self.inverses_added
            ),
        );
        text
    }
}
