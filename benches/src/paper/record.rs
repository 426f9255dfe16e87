//! A dated folder of everything that was measured: figures as CSV, what they were measured with, the page.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use time::OffsetDateTime;

use super::definition::Definitions;
use super::runs::{HOSTS_FILE, Results, Trained};
use super::section::{Claim, Figure};
use super::training::EpochPoint;
use crate::policies::report::COLUMNS;

/// The file of named figures, which records are compared by.
pub(crate) const FIGURES: &str = "figures.csv";

/// Today, in UTC.
pub(crate) fn today() -> String {
    OffsetDateTime::now_utc().date().to_string()
}

/// A folder of figures.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) folder: PathBuf,
}

impl Record {
    /// Makes a new folder `name` in `parent`, or `name-2` and so on where there is one: no record is written over.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub(crate) fn create(parent: &Path, name: &str) -> Result<Self> {
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        let names = (2..1000).map(|number| format!("{name}-{number}"));
        for name in std::iter::once(name.to_owned()).chain(names) {
            let folder = parent.join(name);
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => {
                    made.with_context(|| folder.display().to_string())?;
                    return Ok(Self { folder });
                }
            }
        }
        anyhow::bail!("there are a thousand records named {name} in {}", parent.display())
    }

    /// A record that is there already, to be gone on with.
    ///
    /// # Errors
    /// Definitions that its runs were not made by; files that cannot be read.
    pub(crate) fn resume(folder: &Path, definitions: &Definitions) -> Result<Self> {
        for (name, text) in &definitions.files {
            let path = folder.join("definitions").join(name);
            match fs::read_to_string(&path) {
                Ok(kept) => ensure!(
                    kept == *text,
                    "{} is not what it was when runs of this record were made; go on with the definitions kept there \
                     (--definitions), or begin a new record",
                    path.display()
                ),
                // An item that there was not.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(|| path.display().to_string()),
            }
        }
        Ok(Self { folder: folder.to_owned() })
    }

    /// Adds a paragraph to a file, if it is there, and gives the whole.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub(crate) fn append(&self, name: &str, text: &str) -> Result<String> {
        let path = self.folder.join(name);
        let whole = match fs::read_to_string(&path) {
            Ok(before) => format!("{before}\n{text}\n"),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => format!("{text}\n"),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        self.write(name, &whole)?;
        Ok(whole)
    }

    /// Writes a file: whole, or as it was before.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        }
        let aside = path.with_extension("part");
        fs::write(&aside, text).with_context(|| aside.display().to_string())?;
        fs::rename(&aside, &path).with_context(|| path.display().to_string())
    }

    /// Writes every run. Epochs come before the runs that they belong to: a reader that finds a run has all of it, and one
    /// that was ended in between leaves epochs that no run asks for.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn write_runs(&self, results: &Results) -> Result<()> {
        self.write("epochs.csv", &epochs(results))?;
        self.write("curves.csv", &curves(results))?;
        self.write("times.csv", &times(results))?;
        self.write("scores.csv", &scores(results))?;
        if results.shaped.is_empty() {
            return Ok(());
        }
        self.write(HOSTS_FILE, &results.shaped_csv())
    }

    /// Writes every claim and figure.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn write_findings(&self, claims: &[&Claim], figures: &[&Figure]) -> Result<()> {
        self.write("verdicts.csv", &verdicts(claims))?;
        self.write(FIGURES, &figures_csv(figures))
    }
}

/// A field that may hold commas, quotes or ends of lines.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

fn lines(heading: &str, lines: impl Iterator<Item = String>) -> String {
    lines.fold(format!("{heading}\n"), |mut text, line| {
        text.push_str(&line);
        text.push('\n');
        text
    })
}

/// A line a run over a link.
fn times(results: &Results) -> String {
    let runs = results.timed.iter().map(|run| {
        let place = format!("{},{},{}", run.data, quoted(&run.layout), run.n_parts);
        let row = &run.row;
        format!("{place},{},{:.0},{:.0}", row.csv(), row.payload_bytes, row.metadata_bytes)
    });
    lines(&format!("data,layout,parts,{COLUMNS},payload_bytes,metadata_bytes"), runs)
}

/// A line an epoch of a run over a link.
fn epochs(results: &Results) -> String {
    let all = results.timed.iter().flat_map(|run| {
        let place =
            format!("{},{},{},{}", run.data, run.model, quoted(&run.layout), run.row.policy);
        let epochs = run.row.epochs_s.iter().enumerate();
        epochs.map(move |(number, seconds)| format!("{place},{number},{:.4}", 1e3 * seconds))
    });
    lines("data,model,layout,policy,epoch,ms", all)
}

/// A line a training.
fn scores(results: &Results) -> String {
    let all = results.trained.iter().map(|run| {
        let curve = &run.curve;
        format!(
            "{},{},{},{},{},{},{},{},{:.6},{:.6},{:.6}",
            run.data,
            run.model,
            run.n_parts,
            run.policy,
            run.seed,
            run.epochs,
            run.eval_every,
            curve.best_epoch,
            curve.best_val,
            curve.test,
            curve.last_test
        )
    });
    let heading = "data,model,parts,policy,seed,epochs,eval_every,best_epoch,best_val,test_at_best,test_at_end";
    lines(heading, all)
}

/// A line an epoch of a training.
fn curves(results: &Results) -> String {
    let all = results.trained.iter().flat_map(|run| {
        let Trained { data, model, n_parts, policy, seed, epochs, .. } = run;
        let place = format!("{data},{model},{n_parts},{policy},{seed},{epochs}");
        run.curve.epochs.iter().map(move |&EpochPoint { epoch, loss, val }| {
            let val = val.map_or_else(String::new, |val| format!("{val:.6}"));
            format!("{place},{epoch},{loss:.6},{val}")
        })
    });
    lines("data,model,parts,policy,seed,epochs,epoch,loss,val", all)
}

fn verdicts(claims: &[&Claim]) -> String {
    let all = claims.iter().map(|claim| {
        let [text, rule, found] =
            [&claim.claim, &claim.rule, &claim.found].map(|text| quoted(text));
        format!("{},{},{text},{rule},{found}", claim.item, claim.outcome.text())
    });
    lines("item,verdict,claim,rule,found", all)
}

/// A line a figure.
pub(crate) fn figures_csv(figures: &[&Figure]) -> String {
    let mut text = String::from("name,value,unit\n");
    for Figure { name, value, unit } in figures {
        writeln!(text, "{},{value},{}", quoted(name), quoted(unit)).expect("text takes text");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Record, today};

    #[test]
    fn no_record_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let first = Record::create(folder.path(), "quick").unwrap();
        first.write("a/b.txt", "text").unwrap();
        let second = Record::create(folder.path(), "quick").unwrap();
        assert_eq!(second.folder, folder.path().join("quick-2"));
        assert_eq!(std::fs::read_to_string(first.folder.join("a/b.txt")).unwrap(), "text");
    }

    #[test]
    fn a_day_is_a_date() {
        let today = today();
        let parts: Vec<usize> = today.split('-').map(str::len).collect();
        assert_eq!(parts, [4, 2, 2], "{today}");
    }
}
