//! `sylvie report`: one page about one run, or about several beside each other.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Args;
use sylvie::data::shown;
use sylvie_report::Page;

use crate::aside;
use crate::console::{Console, counted};

mod figures;
mod pictures;
mod ranks;
mod run;
mod settings;
mod tables;

use run::Run;

#[derive(Debug, Args)]
#[command(after_help = "\
The page holds everything that it shows: it can be sent on, and is read without a network. Runs that are not \
over, or were stopped, are shown as far as they have come.

Examples:
  sylvie report --run runs/photo --out photo.html
  sylvie report --run runs/vanilla runs/sylvie-s runs/sylvie-a --out policies.html")]
pub(crate) struct ReportArgs {
    /// Folder of a run; several, or the flag several times, are shown beside each other.
    #[arg(long = "run", value_name = "DIR", required = true, num_args = 1..)]
    runs: Vec<PathBuf>,
    /// File for the page.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file that lies at --out.
    #[arg(long)]
    overwrite: bool,
}

/// Writes a page about runs.
///
/// # Errors
/// A folder that is no run's or whose files cannot be read; a page that cannot be written, or that would
/// replace what it may not.
pub(crate) fn run(args: ReportArgs) -> Result<()> {
    let ReportArgs { runs: folders, out, overwrite } = args;
    check_out(&out, overwrite)?;
    let runs = read(&folders)?;
    for run in &runs {
        ensure!(
            !run.is_file_of(&out),
            "{}: is a file of the run; take another name for --out",
            shown(&out)
        );
    }
    let html = page(&runs)?;
    aside::write(&out, html.as_bytes())?;
    let what = counted(runs.len() as u64, "run");
    Console::for_people().line(format!("{what} in {}", shown(&out)))
}

fn check_out(out: &Path, overwrite: bool) -> Result<()> {
    ensure!(!out.is_dir(), "{}: is a folder; --out is the file of the page", shown(out));
    let is_there = out.symlink_metadata().is_ok();
    ensure!(overwrite || !is_there, "{}: is there already; --overwrite replaces it", shown(out));
    Ok(())
}

fn read(folders: &[PathBuf]) -> Result<Vec<Run>> {
    for (number, folder) in folders.iter().enumerate() {
        let is_twice = folders[..number].iter().any(|other| aside::is_same(other, folder));
        ensure!(!is_twice, "{}: is given twice; name each run once", shown(folder));
    }
    let named = folders.iter().zip(names(folders));
    named.map(|(folder, name)| Run::read(folder, name)).collect()
}

/// What the runs are called: the last part of their path where that tells them apart.
fn names(folders: &[PathBuf]) -> Vec<String> {
    let last = |folder: &PathBuf| folder.file_name().map(|name| shown(Path::new(name)));
    let names: Vec<Option<String>> = folders.iter().map(last).collect();
    let is_one = |name: &String| names.iter().flatten().filter(|other| *other == name).count() == 1;
    let name = |(folder, name): (&PathBuf, &Option<String>)| match name {
        Some(name) if is_one(name) => name.clone(),
        _ => shown(folder),
    };
    folders.iter().zip(&names).map(name).collect()
}

fn page(runs: &[Run]) -> Result<String> {
    let title = match runs {
        [run] => format!("Sylvie: {}", run.name),
        _ => format!("Sylvie: {} runs", runs.len()),
    };
    let mut page = Page::new(&title);
    page.section("Runs");
    page.table(&tables::runs(runs));
    for (run, remark) in runs.iter().flat_map(|run| run.remarks.iter().map(move |r| (run, r))) {
        page.paragraph(&format!("{}: {remark}.", run.name));
    }
    page.section("Results");
    page.table(&tables::scores(runs));
    page.section("Curves");
    pictures::curves(&mut page, runs)?;
    page.section("Time");
    page.table(&tables::times(runs));
    pictures::times(&mut page, runs)?;
    page.section("Bytes");
    page.table(&tables::bytes(runs));
    pictures::bytes(&mut page, runs)?;
    page.section("Parts");
    page.table(&tables::parts(runs));
    pictures::ranks(&mut page, runs)?;
    page.section("Settings");
    settings::write(&mut page, runs);
    page.paragraph(&format!("Written by sylvie {}.", env!("CARGO_PKG_VERSION")));
    Ok(page.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_where_they_tell_runs_apart() {
        let folders = ["runs/a", "runs/b/", "old/a", ".", "x/.."].map(PathBuf::from);
        assert_eq!(names(&folders), ["runs/a", "b", "old/a", ".", "x/.."]);
    }
}
