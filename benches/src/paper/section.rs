//! What an item comes to: tables, pictures, figures and claims, before they are a page.

use serde::Deserialize;
use sylvie::gnn::ModelKind;
use sylvie::pipeline::Preset;
use sylvie_report::{Arrangement, BarChart, Bars, ReportError, Table};

use super::definition::{Effort, Item};
use super::rules::Outcome;
use super::runs::{Cell, Results};

/// All that an item is judged by.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) item: &'a Item,
    pub(crate) effort: &'a Effort,
    pub(crate) cells: &'a [Cell<'a>],
    pub(crate) results: &'a Results,
}

/// Something that the paper says, and whether it is so here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) item: String,
    pub(crate) claim: String,
    /// When it counts as so.
    pub(crate) rule: String,
    pub(crate) found: String,
    pub(crate) outcome: Outcome,
}

/// A figure with a name, for comparison with other records.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(crate) struct Figure {
    /// Parts joined by `/`.
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
}

/// A picture.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) svg: Result<String, ReportError>,
    pub(crate) caption: String,
}

/// A part of the page.
#[derive(Debug, Default)]
pub(crate) struct Section {
    pub(crate) heading: String,
    pub(crate) paragraphs: Vec<String>,
    pub(crate) tables: Vec<Table>,
    pub(crate) charts: Vec<Chart>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) figures: Vec<Figure>,
}

/// What a claim comes to in one cell; nothing holds or fails where runs are missing.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) holds: Option<bool>,
    pub(crate) found: String,
}

impl Section {
    pub(crate) fn table(&mut self, caption: &str, headings: &[&str], rows: Vec<Vec<String>>) {
        let headings = headings.iter().map(ToString::to_string).collect();
        self.tables.push(Table { caption: caption.to_owned(), headings, rows });
    }

    pub(crate) fn chart(&mut self, svg: Result<String, ReportError>, caption: &str) {
        self.charts.push(Chart { svg, caption: caption.to_owned() });
    }

    /// Adds bars of shares of an epoch, a group after the other, a list of values a name.
    pub(crate) fn shares(
        &mut self,
        (title, caption): (&str, &str),
        groups: Vec<String>,
        names: &[&str],
        values: Vec<Vec<Option<f64>>>,
    ) {
        let bars = names.iter().zip(values);
        let chart = BarChart {
            title: title.to_owned(),
            y_label: "% of an epoch".to_owned(),
            groups,
            bars: bars.map(|(name, values)| Bars { name: (*name).to_owned(), values }).collect(),
            arrangement: Arrangement::Stacked,
        };
        self.chart(chart.svg(), caption);
    }

    pub(crate) fn figure(&mut self, name: &[&str], value: Option<f64>, unit: &str) {
        if let Some(value) = value {
            let (name, unit) = (name.join("/"), unit.to_owned());
            self.figures.push(Figure { name, value, unit });
        }
    }

    /// Adds a claim that is to hold in every case.
    pub(crate) fn claim(&mut self, item: &Item, claim: &str, rule: &str, cases: Vec<Case>) {
        let (outcome, found) = over_cases(&cases);
        let (claim, rule) = (claim.to_owned(), rule.to_owned());
        self.claims.push(Claim { item: item.id.clone(), claim, rule, found, outcome });
    }
}

/// A claim holds where it holds in every case; one case against it is enough.
fn over_cases(cases: &[Case]) -> (Outcome, String) {
    let with = |holds: Option<bool>| cases.iter().filter(move |case| case.holds == holds);
    let n_held = with(Some(true)).count();
    let holds = match (cases.len(), with(Some(false)).count(), with(None).count()) {
        (0, ..) => None,
        (_, 0, 0) => Some(true),
        (_, 0, _) => None,
        _ => Some(false),
    };
    let mut found = format!("holds in {n_held} of {}", cases.len());
    for (word, kind) in [("not", Some(false)), ("not measured", None)] {
        let names: Vec<String> = with(kind)
            .map(|case| match case.found.is_empty() {
                true => case.name.clone(),
                false => format!("{} ({})", case.name, case.found),
            })
            .collect();
        if !names.is_empty() {
            found.push_str(&format!("; {word}: {}", names.join(", ")));
        }
    }
    if holds == Some(true) {
        let figures: Vec<String> =
            cases.iter().map(|case| format!("{} ({})", case.name, case.found)).collect();
        found = format!("{found}: {}", figures.join(", "));
    }
    (Outcome::of(holds), found)
}

impl<'a> Context<'a> {
    /// The cells whose graphs are generated: those that are timed.
    pub(crate) fn timed_cells(&self) -> impl Iterator<Item = Cell<'a>> + use<'a> {
        let (cells, data) = (self.cells, &self.item.data);
        cells.iter().copied().filter(move |(name, _)| data.iter().any(|known| known == name))
    }

    /// Cells and layouts, each pair.
    pub(crate) fn places(&self) -> Vec<(Cell<'a>, &'a str)> {
        let layouts = || self.item.layouts.iter().map(|layout| layout.name.as_str());
        self.timed_cells().flat_map(|cell| layouts().map(move |layout| (cell, layout))).collect()
    }

    /// What a cell, and a layout where there are several, is called.
    pub(crate) fn name(&self, (data, kind): (&str, ModelKind), layout: &str) -> String {
        match self.item.layouts.len() {
            1 => format!("{data} {kind}"),
            _ => format!("{data} {kind}, {layout}"),
        }
    }

    /// The same where all are of one model.
    pub(crate) fn group(&self, (data, _): (&str, ModelKind), layout: &str) -> String {
        match self.item.layouts.len() {
            1 => data.to_owned(),
            _ => format!("{data}, {layout}"),
        }
    }

    /// Throughput over that of the first policy.
    pub(crate) fn throughput(&self, cell: Cell<'_>, layout: &str, policy: &str) -> Option<f64> {
        self.results.throughput(cell, layout, (policy, self.item.baseline()))
    }

    /// The same of the first policy of a preset.
    pub(crate) fn of_preset(&self, cell: Cell<'_>, layout: &str, preset: Preset) -> Option<f64> {
        self.throughput(cell, layout, self.item.named(preset)?)
    }

    /// Test scores over the seeds.
    pub(crate) fn tests(&self, cell: Cell<'_>, policy: &str) -> Vec<f64> {
        let curves = self.results.curves(cell, policy, self.effort, self.item.layouts[0].parts);
        curves.iter().map(|curve| curve.test).collect()
    }
}

/// A number with so many decimals, or a dash.
pub(crate) fn number(value: Option<f64>, n_decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.n_decimals$}"))
}

/// A share of 1 as percent, or a dash.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

#[cfg(test)]
mod tests {
    use super::{Case, over_cases};
    use crate::paper::rules::Outcome;

    fn cases(holds: &[Option<bool>]) -> Vec<Case> {
        let case = |(at, &holds): (usize, &Option<bool>)| {
            let (name, found) = (format!("cell {at}"), format!("{at}.5"));
            Case { name, holds, found }
        };
        holds.iter().enumerate().map(case).collect()
    }

    #[test]
    fn one_case_against_a_claim_is_enough() {
        let of = |holds: &[Option<bool>]| over_cases(&cases(holds));
        let (outcome, found) = of(&[Some(true), Some(false), None]);
        assert_eq!(outcome, Outcome::Disagrees);
        assert_eq!(found, "holds in 1 of 3; not: cell 1 (1.5); not measured: cell 2 (2.5)");
        assert_eq!(of(&[Some(true), None]).0, Outcome::NotMeasured);
        assert_eq!(of(&[]).0, Outcome::NotMeasured);
        let (outcome, found) = of(&[Some(true)]);
        assert_eq!(outcome, Outcome::Agrees);
        assert_eq!(found, "holds in 1 of 1: cell 0 (0.5)");
    }
}
