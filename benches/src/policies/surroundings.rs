//! What a figure has to be read with: machine, load, commit, command.

use std::process::Command;
use std::{env, fs, thread};

/// A few lines about where and how this program runs; what cannot be found out is left out.
pub(crate) fn describe() -> String {
    let mut lines = Vec::new();
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let model = processor().unwrap_or_else(|| env::consts::ARCH.to_owned());
    lines.push(format!("machine: {model}, {cores} cores, {}", env::consts::OS));
    if let Some(load) = read("/proc/loadavg") {
        let load: Vec<&str> = load.split_whitespace().take(3).collect();
        lines.push(format!("load before: {}", load.join(" ")));
    }
    if let Some(commit) = git(&["rev-parse", "--short=10", "HEAD"]) {
        let is_changed = git(&["status", "--porcelain", "--untracked-files=no"])
            .is_some_and(|changes| !changes.is_empty());
        lines.push(format!("commit: {commit}{}", if is_changed { ", with changes" } else { "" }));
    }
    let arguments: Vec<String> = env::args().skip(1).collect();
    lines.push(format!("command: cargo xtask bench {}", arguments.join(" ")));
    lines.join("\n")
}

fn processor() -> Option<String> {
    let text = read("/proc/cpuinfo")?;
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    Some(format!("{} (family {}, model {})", field("model name")?, field("cpu family")?, {
        field("model\t")?
    }))
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
