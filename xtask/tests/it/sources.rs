//! Tidiness of the sources: what every file begins with, how long it may be, and what is not
//! left in it. (The length of functions is a lint of clippy.)

use std::path::Path;

use crate::tree;

const MAX_LINES: usize = 600;

/// What no source holds. Written in pieces, so that this file does not hold it either.
const UNFINISHED: [&str; 7] = [
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("#[ig", "nore"),
    concat!("FIX", "ME"),
    concat!("X", "XX"),
    concat!("db", "g!"),
    concat!("clippy::too_many", "_lines"),
];

/// Where files lie on somebody's machine.
const MACHINE_PATHS: [&str; 3] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Names that say nothing of what a module holds.
const EMPTY_NAMES: [&str; 8] =
    ["util", "utils", "common", "helper", "helpers", "manager", "managers", "misc"];

#[test]
fn sources_are_tidy() {
    let sources = tree::files_ending_in(&[".rs"]);
    assert!(sources.iter().any(|(path, _)| path.ends_with("it/sources.rs")), "{}", sources.len());
    let findings: Vec<_> =
        sources.iter().flat_map(|(path, text)| findings_in_source(path, text)).collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn no_file_names_a_place_on_a_machine() {
    let files = tree::files_ending_in(&[".rs", ".md", ".toml", ".cu", ".cuh", ".sh", ".ci/run"]);
    assert!(files.iter().any(|(path, _)| path == "Cargo.toml"), "{}", files.len());
    let findings: Vec<_> =
        files.iter().flat_map(|(path, text)| machine_paths(path, text)).collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn a_tidy_source_has_no_findings() {
    let relative = concat!("/// Reads `..", "/wo", "rk/x`.");
    let tidy = format!("//! A page.\nmod commonplace;\n{relative}\nfn utils() {{}}\n");
    assert!(findings_in_source("crates/a/src/page.rs", &tidy).is_empty());
    assert!(machine_paths("crates/a/src/page.rs", &tidy).is_empty());
}

#[test]
fn every_kind_of_untidiness_is_found() {
    let long = format!("//! A page.\n{}", "\n".repeat(MAX_LINES));
    for (path, text) in [
        ("src/page.rs", "fn page() {}\n"),
        ("src/page.rs", ""),
        ("build.rs", "// Not the crate's comment.\n"),
        ("src/page.rs", &long),
        ("src/utils.rs", "//! A page.\n"),
        ("src/common/page.rs", "//! A page.\n"),
        ("src/page.rs", "//! A page.\npub(crate) mod helper {\n}\n"),
    ] {
        assert_eq!(findings_in_source(path, text).len(), 1, "{path}: {text:?}");
    }
    for word in UNFINISHED {
        let text = format!("//! A page.\n{word}\n");
        let expected = format!("src/page.rs:2: {word}");
        assert_eq!(findings_in_source("src/page.rs", &text), [expected]);
    }
    for place in MACHINE_PATHS {
        let expected = [format!("page.md:1: a path of one machine, {place}")];
        assert_eq!(machine_paths("page.md", &format!("see {place}graphs")), expected);
        assert_eq!(machine_paths("page.md", &format!("{place}graphs")), expected);
        assert!(machine_paths("page.md", &format!("example.org{place}graphs")).is_empty());
    }
}

fn findings_in_source(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    if !text.starts_with("//!") {
        findings.push(format!("{path}:1: does not begin with a `//!` line"));
    }
    let n_lines = text.lines().count();
    if n_lines > MAX_LINES {
        findings.push(format!("{path}: {n_lines} lines, more than {MAX_LINES}"));
    }
    let folders_and_stem = Path::new(path).with_extension("");
    for name in folders_and_stem.iter().filter(|name| EMPTY_NAMES.iter().any(|n| n == name)) {
        findings.push(format!("{path}: the name {} says nothing", name.display()));
    }
    for (line_idx, line) in text.lines().enumerate() {
        let place = format!("{path}:{}", line_idx + 1);
        if let Some(name) = module_opened(line).filter(|name| EMPTY_NAMES.contains(name)) {
            findings.push(format!("{place}: the name {name} says nothing"));
        }
        let left = UNFINISHED.iter().filter(|word| line.contains(*word));
        findings.extend(left.map(|word| format!("{place}: {word}")));
    }
    findings
}

/// The name in a line that opens a module in place, such as `pub(crate) mod name {`. (A module in
/// a file of its own is judged by that file's name.)
fn module_opened(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("mod ")?;
    let visibility = before.trim();
    let declares = visibility.is_empty() || visibility.starts_with("pub");
    after.strip_suffix('{').map(str::trim).filter(|_| declares)
}

fn machine_paths(path: &str, text: &str) -> Vec<String> {
    let in_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let begins = |line: &str, place: &str| {
        line.match_indices(place).any(|(at, _)| !line[..at].ends_with(in_name))
    };
    let lines = text.lines().enumerate();
    let found = lines.flat_map(|(line_idx, line)| {
        let places = MACHINE_PATHS.iter().filter(move |place| begins(line, place));
        places.map(move |place| format!("{path}:{}: a path of one machine, {place}", line_idx + 1))
    });
    found.collect()
}
