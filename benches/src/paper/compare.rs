//! Figures beside those of an earlier record.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use sylvie_report::Table;

use super::record::FIGURES;
use super::section::{Figure, number};
use super::stored::lines;

/// The figures of a record, by name.
pub(crate) type Named = BTreeMap<String, (f64, String)>;

/// Reads the figures of a record: its folder, or the file of figures in it.
///
/// # Errors
/// A file that is not there or not of figures, with the line.
pub(crate) fn read(path: &Path) -> Result<Named> {
    let file: PathBuf = if path.is_dir() { path.join(FIGURES) } else { path.to_owned() };
    let figures: Vec<Figure> = lines(&file)?;
    Ok(figures.into_iter().map(|Figure { name, value, unit }| (name, (value, unit))).collect())
}

/// A table of all figures, before and now.
pub(crate) fn table(before: &Named, now: &[&Figure]) -> Table {
    let mut rows = Vec::new();
    for figure in now {
        let earlier = before.get(&figure.name).map(|(value, _)| *value);
        let ratio = earlier.filter(|&earlier| earlier != 0.0).map(|earlier| figure.value / earlier);
        rows.push(row(&figure.name, &figure.unit, earlier, Some(figure.value), ratio));
    }
    let is_there = |name: &str| now.iter().any(|figure| figure.name == name);
    for (name, (value, unit)) in before.iter().filter(|(name, _)| !is_there(name)) {
        rows.push(row(name, unit, Some(*value), None, None));
    }
    let headings = ["figure", "before", "now", "now / before", "unit"];
    Table {
        caption: "Every figure, and the earlier record's.".to_owned(),
        headings: headings.map(str::to_owned).to_vec(),
        rows,
    }
}

fn row(
    name: &str,
    unit: &str,
    before: Option<f64>,
    now: Option<f64>,
    ratio: Option<f64>,
) -> Vec<String> {
    let name = name.to_owned();
    vec![name, number(before, 4), number(now, 4), number(ratio, 3), unit.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::{Figure, read, table};
    use crate::paper::record::figures_csv;

    fn figures() -> [Figure; 3] {
        [("a/epoch", 250.0, "ms"), ("a, \"b\"", 0.5, "share"), ("new", 1.0, "")]
            .map(|(name, value, unit)| Figure { name: name.into(), value, unit: unit.into() })
    }

    #[test]
    fn two_records_are_compared_by_name() {
        let [a, b, new] = figures();
        let before = [&a, &b, &Figure { name: "gone".into(), ..new.clone() }];
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("figures.csv"), figures_csv(&before)).unwrap();
        let before = read(folder.path()).unwrap();
        assert_eq!(before, read(&folder.path().join("figures.csv")).unwrap());

        let faster = Figure { value: 125.0, ..a };
        let table = table(&before, &[&faster, &b, &new]);
        let row = |cells: [&str; 5]| cells.map(str::to_owned).to_vec();
        assert_eq!(
            table.rows,
            [
                row(["a/epoch", "250.0000", "125.0000", "0.500", "ms"]),
                row(["a, \"b\"", "0.5000", "0.5000", "1.000", "share"]),
                row(["new", "-", "1.0000", "-", ""]),
                row(["gone", "1.0000", "-", "-", ""]),
            ]
        );
    }

    #[test]
    fn what_is_no_record_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figures.csv");
        for (text, expected) in [
            ("name,unit\n\"a\",\"\"\n", "missing field `value`"),
            ("name,value,unit\n\"a\",1,\"\"\n\"b\",x,\"\"\n", "line: 3"),
            ("name,value,unit\n\"a\",1\n", "line: 2"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = format!("{:#}", read(&path).unwrap_err());
            assert!(error.contains("figures.csv") && error.contains(expected), "{error}");
        }
        let missing = read(std::path::Path::new("no/such/record")).unwrap_err();
        assert!(format!("{missing:#}").contains("no/such/record"));
    }
}
