//! Files that numpy and scipy open, and files that they write: `sylvie` and Python agree on all of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::step::{Program, Step};

/// What the script needs.
const PACKAGES: [&str; 2] = ["numpy", "scipy"];
/// The data set that is written in every format.
const DATA: &str = "synthetic:nodes=300,degree=8,features=5,classes=4";
/// The formats that are written.
const FORMATS: [&str; 4] = ["arrays", "ogb", "graphsaint", "reddit"];

/// Whether this machine has a Python that can make environments.
pub(crate) fn is_possible() -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", "import ensurepip, venv"]);
    python.output().is_ok_and(|output| output.status.success())
}

/// Writes with one and reads with the other, both ways; gives back what was compared, in words.
///
/// # Errors
/// Python or its packages cannot be had, a program fails, or the two disagree.
pub(crate) fn run(root: &Path, program: Program) -> Result<String> {
    let sylvie = |line: &str| match program {
        Program::Tested => Step::tested(line),
        Program::Cargo => Step::cargo(&format!("run --quiet --profile test -- {line}")),
    };
    let python = environment(&root.join("target/python-check/venv"))?;
    let scratch = tempfile::tempdir().context("no folder for the files")?;
    let folder = scratch.path();
    for format in FORMATS {
        sylvie(&format!("convert --data {DATA} --to {format} --out"))
            .argument(folder.join(format))
            .run(root)?;
    }
    let mut script = Command::new(python);
    execute(script.arg(root.join("xtask/python/check_formats.py")).arg(folder))?;

    let text = fs::read_to_string(folder.join("expected.json")).context("expected.json")?;
    let expected: BTreeMap<String, [u64; 4]> = serde_json::from_str(&text)?;
    ensure!(!expected.is_empty(), "Python wrote no data set");
    for (name, sizes) in &expected {
        let info = sylvie("info --json --data");
        let output = info.argument(folder.join(name)).output(root).with_context(|| name.clone())?;
        let info: Value = serde_json::from_str(&output).with_context(|| name.clone())?;
        let found = ["nodes", "edges", "features", "classes"].map(|key| info[key].as_u64());
        ensure!(found == sizes.map(Some), "{name}: {found:?} was read where {sizes:?} was written");
        println!("{name}: read with {sizes:?} nodes, edges, features and classes");
    }
    Ok(format!(
        "{} formats read by Python, {} data sets written by it",
        FORMATS.len(),
        expected.len()
    ))
}

/// The Python of an environment that has the packages; kept for the next time.
fn environment(folder: &Path) -> Result<PathBuf> {
    let python = folder.join("bin/python");
    if !python.exists() {
        execute(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    }
    let import = format!("import {}", PACKAGES.join(", "));
    let has_all = Command::new(&python).args(["-c", &import]).output();
    if !has_all.is_ok_and(|output| output.status.success()) {
        let mut install = Command::new(&python);
        install
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(PACKAGES);
        execute(&mut install)?;
    }
    Ok(python)
}

fn execute(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let status = command.status().with_context(|| format!("{name} could not be started"))?;
    if !status.success() {
        bail!("{name}: {status}");
    }
    Ok(())
}
