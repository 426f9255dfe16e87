//! Machine code of the committed PTX: how many registers it takes, and whether any are spilled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::places;

/// Machines to assemble for.
const MACHINES: [&str; 2] = ["sm_80", "sm_90"];

/// What the assembler says of one kernel.
#[derive(Debug, PartialEq, Eq)]
struct Usage {
    entry: String,
    registers: u32,
    shared_bytes: u32,
    stack_bytes: u32,
    spilled_bytes: u32,
}

/// Assembles every file for every machine and prints a table.
///
/// # Errors
/// No assembler; PTX that does not assemble; a kernel that spills registers or keeps a stack.
pub(crate) fn run(root: &Path) -> Result<String> {
    let assembler = places::assemblers(root).into_iter().next();
    let assembler = assembler.context(
        "no ptxas; `--fetch` gets one from PyPI, SYLVIE_PTXAS names one, CUDA_HOME a toolkit",
    )?;
    println!("{}", assembler.display());
    let folder = root.join("kernels/ptx");
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    files.retain(|path| path.extension().is_some_and(|ending| ending == "ptx"));
    files.sort();
    let (mut n_kernels, mut most) = (0, 0);
    println!("| kernel | {} | shared bytes |", MACHINES.join(" | "));
    println!("|---|{}---|", "---|".repeat(MACHINES.len()));
    for file in &files {
        let usages = MACHINES.map(|machine| assemble(&assembler, file, machine));
        let usages = usages.into_iter().collect::<Result<Vec<_>>>()?;
        for (place, first) in usages[0].iter().enumerate() {
            let registers: Vec<_> =
                usages.iter().map(|of_machine| of_machine[place].registers.to_string()).collect();
            println!("| {} | {} | {} |", first.entry, registers.join(" | "), first.shared_bytes);
        }
        for usage in usages.iter().flatten() {
            let (spilled, stack) = (usage.spilled_bytes, usage.stack_bytes);
            ensure!(
                spilled == 0 && stack == 0,
                "{} spills {spilled} bytes and keeps {stack} on a stack",
                usage.entry
            );
            most = most.max(usage.registers);
        }
        n_kernels += usages[0].len();
    }
    ensure!(n_kernels > 0, "no kernels");
    Ok(format!(
        "{n_kernels} kernels for {}, {most} registers at most, none spilled",
        MACHINES.join(" and ")
    ))
}

fn assemble(assembler: &Path, file: &Path, machine: &str) -> Result<Vec<Usage>> {
    let mut command = Command::new(assembler);
    command.args(["-v", "-arch", machine, "-o", "/dev/null"]).arg(file);
    let output = command.output().with_context(|| assembler.display().to_string())?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} for {machine}: {text}", file.display());
    let mut usages = usages_in(&text);
    usages.sort_by(|a, b| a.entry.cmp(&b.entry));
    Ok(usages)
}

/// The report of `ptxas -v`: three lines a kernel.
fn usages_in(text: &str) -> Vec<Usage> {
    let mut usages = Vec::new();
    let (mut entry, mut stack_bytes, mut spilled_bytes) = (String::new(), 0, 0);
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            entry = rest.split('\'').next().unwrap_or_default().to_owned();
        } else if line.contains("bytes stack frame") {
            stack_bytes = number_before(line, " bytes stack frame");
            spilled_bytes = number_before(line, " bytes spill stores")
                + number_before(line, " bytes spill loads");
        } else if line.contains(" registers") {
            let (registers, shared_bytes) =
                (number_before(line, " registers"), number_before(line, " bytes smem"));
            usages.push(Usage {
                entry: entry.clone(),
                registers,
                shared_bytes,
                stack_bytes,
                spilled_bytes,
            });
        }
    }
    usages
}

/// The number that stands before some words; 0 where they are not.
fn number_before(line: &str, words: &str) -> u32 {
    let Some((before, _)) = line.split_once(words) else { return 0 };
    before.rsplit([' ', ',']).next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[test]
fn a_report_is_read() {
    let text = "ptxas info    : 0 bytes gmem\n\
                ptxas info    : Compiling entry function 'relu' for 'sm_80'\n\
                ptxas info    : Function properties for relu\n    \
                8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n\
                ptxas info    : Used 18 registers, 4096 bytes smem, 364 bytes cmem[0]\n";
    let expected = Usage {
        entry: "relu".to_owned(),
        registers: 18,
        shared_bytes: 4096,
        stack_bytes: 8,
        spilled_bytes: 16,
    };
    assert_eq!(usages_in(text), [expected]);
}
