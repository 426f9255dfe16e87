//! What holds of the pages: links lead somewhere, nothing is left to be filled in, and the Rust in
//! a README is compiled.

use std::path::Path;

use cargo_metadata::Package;

use crate::markdown::{self, Block};
use crate::tree;

/// What a finished page does not hold. Written in pieces, as sources must not hold them either.
const MARKS: [&str; 5] =
    ["@@", concat!("TO", "DO"), concat!("FIX", "ME"), concat!("T", "BD"), concat!("X", "XX")];

#[test]
fn relative_links_lead_to_files() {
    let root = tree::root();
    let exists = |path: &Path| root.join(path).exists();
    let findings: Vec<_> =
        pages().iter().flat_map(|(path, text)| broken_links(path, text, &exists)).collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn pages_are_finished() {
    let findings: Vec<_> = pages().iter().flat_map(|(path, text)| marks(path, text)).collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn the_rust_in_the_root_page_is_compiled_with_the_facade() {
    let root = tree::root();
    let facade = tree::read(&root.join("crates/sylvie/README.md"));
    let page = tree::read(&root.join("README.md"));
    assert!(!rust_blocks(&page).is_empty(), "README.md has no Rust");
    let missing = not_shown_in(&page, &facade);
    assert!(missing.is_empty(), "not in crates/sylvie/README.md:\n{}", missing.join("\n"));
}

#[test]
fn the_examples_of_every_library_are_compiled() {
    let crates = tree::root().join("crates");
    let mut packages = tree::metadata().packages;
    packages.retain(|package| package.manifest_path.starts_with(&crates));
    assert!(packages.len() > 1, "crates/ holds {} crates", packages.len());
    let findings: Vec<_> = packages.iter().flat_map(findings_in_package).collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let exists = |path: &Path| path == Path::new("docs/../README.md");
    let page =
        "[a](../README.md#parts) [b](#c) [d](https://e.org)\n```text\n[f](g)\n```\n[h](i.md)";
    assert_eq!(broken_links("docs/page.md", page, &exists), ["docs/page.md:5: i.md is not there"]);
}

#[test]
fn every_mark_is_found() {
    for mark in MARKS {
        let expected = format!("page.md:2: {mark}");
        assert_eq!(marks("page.md", &format!("Done.\n{mark}: more\n")), [expected]);
    }
    assert!(marks("page.md", "Nothing left to do. a@b\n").is_empty());
}

#[test]
fn a_block_that_differs_is_found() {
    let facade = "```rust\nlet x = 1;\n# Ok(())\n```\n";
    assert!(not_shown_in("```rust\nlet x = 1;\n```\n```sh\nls\n```\n", facade).is_empty());
    assert_eq!(not_shown_in("```rust\nlet x = 2;\n```\n", facade), ["let x = 2;\n"]);
}

#[test]
fn an_example_that_nobody_compiles_is_found() {
    let (page, included) = ("```rust\nf();\n```\n", "#[doc = include_str!(\"../README.md\")]");
    assert!(uncompiled(page, included, true).is_empty());
    assert!(uncompiled("No example.", "", false).is_empty());
    assert_eq!(uncompiled("No example.", included, true), ["has no example"]);
    assert_eq!(uncompiled(page, "", true), ["is not included in lib.rs"]);
    let skipped = page.replace("rust", "rust,ignore");
    assert_eq!(uncompiled(&skipped, included, true), ["a block of rust,ignore is not run"]);
}

/// Every page of the repository.
fn pages() -> Vec<(String, String)> {
    let pages = tree::files_ending_in(&[".md"]);
    assert!(pages.iter().any(|(path, _)| path == "README.md"), "{} pages", pages.len());
    pages
}

fn broken_links(path: &str, page: &str, exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let folder = Path::new(path).parent().expect("a page lies in a folder");
    let mut findings = Vec::new();
    for (line, text) in markdown::split(page).1 {
        for target in markdown::link_targets(text) {
            let file = target.split('#').next().unwrap_or_default();
            let is_relative = !file.is_empty() && !file.contains(':');
            if is_relative && !exists(&folder.join(file)) {
                findings.push(format!("{path}:{line}: {file} is not there"));
            }
        }
    }
    findings
}

fn marks(path: &str, page: &str) -> Vec<String> {
    let lines = page.lines().enumerate();
    let found = lines.flat_map(|(line_idx, line)| {
        let left = MARKS.iter().filter(|mark| line.contains(*mark));
        left.map(move |mark| format!("{path}:{}: {mark}", line_idx + 1))
    });
    found.collect()
}

fn rust_blocks(page: &str) -> Vec<Block> {
    let mut blocks = markdown::split(page).0;
    blocks.retain(Block::is_rust);
    blocks
}

/// The Rust of `page`, as shown, that no block of `other` shows.
fn not_shown_in(page: &str, other: &str) -> Vec<String> {
    let shown: Vec<_> = rust_blocks(other).iter().map(Block::shown).collect();
    let blocks = rust_blocks(page);
    blocks.iter().map(Block::shown).filter(|text| !shown.contains(text)).collect()
}

fn findings_in_package(package: &Package) -> Vec<String> {
    let folder = package.manifest_path.parent().expect("a manifest lies in a folder");
    let readme = folder.join("README.md");
    if !readme.is_file() {
        return vec![format!("{readme} is not there")];
    }
    let library = package.targets.iter().find(|target| target.is_lib());
    let Some(library) = library else { return Vec::new() };
    let page = tree::read(readme.as_std_path());
    let lib = tree::read(library.src_path.as_std_path());
    let findings = uncompiled(&page, &lib, package.publish.is_none());
    findings.into_iter().map(|finding| format!("{readme}: {finding}")).collect()
}

/// What keeps the examples of a library's page from being run; a published one must have some.
fn uncompiled(page: &str, lib: &str, is_published: bool) -> Vec<String> {
    let blocks = rust_blocks(page);
    let mut findings = Vec::new();
    if is_published && blocks.is_empty() {
        findings.push("has no example".to_owned());
    }
    if !blocks.is_empty() && !lib.contains("include_str!(\"../README.md\")") {
        findings.push("is not included in lib.rs".to_owned());
    }
    let skipped = blocks.iter().filter(|block| block.info != "rust");
    findings.extend(skipped.map(|block| format!("a block of {} is not run", block.info)));
    findings
}
