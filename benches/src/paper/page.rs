//! The page of a record.

use sylvie_report::{Page, Table};

use super::compare::{Named, table as compared};
use super::runs::Results;
use super::section::{Claim, Figure, Section};

/// What stands above all figures.
pub(crate) struct Preface<'a> {
    pub(crate) title: &'a str,
    /// Machine, load, commit and command.
    pub(crate) surroundings: &'a str,
    pub(crate) notes: &'a [String],
}

/// Everything on one page.
pub(crate) fn page(
    preface: &Preface<'_>,
    results: &Results,
    sections: &[Section],
    before: Option<&Named>,
) -> String {
    let mut page = Page::new(preface.title);
    page.code(preface.surroundings);
    for note in preface.notes {
        page.paragraph(note);
    }
    if !results.graphs.is_empty() {
        let rows = results.graphs.iter().map(|(name, text)| vec![name.clone(), text.clone()]);
        page.table(&Table {
            caption: "The graphs.".to_owned(),
            headings: vec!["data set".to_owned(), "graph".to_owned()],
            rows: rows.collect(),
        });
    }
    let claims: Vec<&Claim> = sections.iter().flat_map(|section| &section.claims).collect();
    if !claims.is_empty() {
        page.section("What agrees with the paper, and what does not");
        page.table(&verdicts(&claims));
    }
    for section in sections {
        add(&mut page, section);
    }
    if let Some(before) = before {
        page.section("Beside the earlier record");
        let figures: Vec<&Figure> = sections.iter().flat_map(|section| &section.figures).collect();
        page.table(&compared(before, &figures));
    }
    page.finish()
}

fn add(page: &mut Page, section: &Section) {
    page.section(&section.heading);
    for text in &section.paragraphs {
        page.paragraph(text);
    }
    for table in &section.tables {
        page.table(table);
    }
    for chart in &section.charts {
        match &chart.svg {
            Ok(svg) => page.figure(svg, &chart.caption),
            Err(error) => {
                page.paragraph(&format!("{} could not be drawn: {error}.", chart.caption))
            }
        }
    }
    if !section.claims.is_empty() {
        page.table(&verdicts(&section.claims.iter().collect::<Vec<_>>()));
    }
}

/// Every claim with its rule, what was found, and the verdict.
pub(crate) fn verdicts(claims: &[&Claim]) -> Table {
    let row = |claim: &&Claim| {
        let Claim { item, claim, rule, found, outcome } = *claim;
        vec![item.clone(), claim.clone(), outcome.text().to_owned(), rule.clone(), found.clone()]
    };
    Table {
        caption: "Claims of the paper, the rule by which each counts as holding here, and what was found.".to_owned(),
        headings: ["item", "claim", "verdict", "rule", "found"].map(str::to_owned).to_vec(),
        rows: claims.iter().map(row).collect(),
    }
}
