//! Every public item of a published library has an example, or stands in that of another.

use std::collections::BTreeSet;
use std::path::Path;

use crate::{packages, tree};

/// The program's library has one function, which its `main` calls.
const PROGRAM: &str = "sylvie-cli";
/// Handles that only the transport of their module takes; `PendingExchange` shows how they are used.
const LIKE_OTHERS: [&str; 2] = ["MpiExchange", "NcclExchange"];
/// Marks of code blocks that are compiled.
const COMPILED: [&str; 3] = ["rust", "no_run", "should_panic"];

/// A function, type or trait at the top level of a file.
struct Item {
    place: String,
    name: String,
    has_example: bool,
}

#[test]
fn public_items_stand_in_examples() {
    let root = tree::root();
    let files = tree::files_ending_in(&[".rs", "README.md"]);
    let (mut findings, mut n_items) = (Vec::new(), 0);
    for package in tree::metadata().packages {
        if !packages::is_published(&package) || package.name.as_str() == PROGRAM {
            continue;
        }
        let folder = package.manifest_path.parent().expect("a manifest lies in a folder");
        let folder = folder.as_std_path().strip_prefix(&root).expect("below the root");
        let (page, sources) = (folder.join("README.md"), folder.join("src"));
        let (mut items, mut words) = (Vec::new(), BTreeSet::new());
        for (path, text) in &files {
            if Path::new(path) == page {
                words.extend(example_words(text.lines()));
            } else if path.ends_with(".rs") && Path::new(path).starts_with(&sources) {
                words.extend(example_words(text.lines().map(documentation)));
                items.extend(public_items(path, text));
            }
        }
        n_items += items.len();
        findings.extend(unseen(items, &words));
    }
    assert!(n_items > 200, "{n_items} public items");
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn an_item_without_an_example_is_found() {
    let text = "//! A page.\n\
                //! ```text\n//! struct Drawn\n//! ```\n\
                /// Has one.\n/// ```\n/// Shown::new(Named);\n/// ```\n#[derive(Debug)]\npub struct Own;\n\
                /// Stands in it.\npub enum Shown {}\n\
                /// And so does this.\npub trait Named {}\n\
                /// Stands in a drawing.\npub struct Drawn {\n    /// A field.\n    pub field: u32,\n}\n\
                /// Nowhere.\npub const fn alone() {}\n\
                pub(crate) fn hidden() {}\n";
    let words = example_words(text.lines().map(documentation));
    let findings = unseen(public_items("src/page.rs", text), &words);
    assert_eq!(
        findings,
        ["src/page.rs:16: no example of Drawn", "src/page.rs:21: no example of alone"]
    );
}

fn unseen(items: Vec<Item>, words: &BTreeSet<String>) -> Vec<String> {
    let is_unseen = |item: &Item| {
        let name = item.name.as_str();
        !item.has_example && !words.contains(name) && !LIKE_OTHERS.contains(&name)
    };
    let unseen = items.into_iter().filter(is_unseen);
    unseen.map(|item| format!("{}: no example of {}", item.place, item.name)).collect()
}

/// What a line of source says as documentation; nothing for code.
fn documentation(line: &str) -> &str {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).unwrap_or_default()
}

/// The identifiers in code blocks that are compiled.
fn example_words<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut block: Option<bool> = None;
    for line in lines.map(str::trim) {
        if let Some(marks) = line.strip_prefix("```") {
            let is_compiled = || marks.split(',').all(|m| m.is_empty() || COMPILED.contains(&m));
            block = if block.is_some() { None } else { Some(is_compiled()) };
        } else if block == Some(true) {
            let in_word = |c: char| c.is_alphanumeric() || c == '_';
            words.extend(line.split(|c: char| !in_word(c)).map(str::to_owned));
        }
    }
    words
}

/// The items that begin at the margin: those in modules of their own and in macros do not.
fn public_items(path: &str, text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    for (line_idx, line) in text.lines().enumerate() {
        if line.starts_with("///") {
            comment.push(documentation(line));
        } else if let Some(name) = item_begun(line) {
            let has_example = !example_words(comment.drain(..)).is_empty();
            items.push(Item { place: format!("{path}:{}", line_idx + 1), name, has_example });
        } else if line.is_empty() {
            comment.clear();
        }
    }
    items
}

/// The name in a line that begins a public function, type or trait.
fn item_begun(line: &str) -> Option<String> {
    let mut words = line.strip_prefix("pub ")?.split_whitespace();
    let kind = words.find(|word| !["const", "unsafe", "async"].contains(word))?;
    let is_item = ["fn", "struct", "enum", "trait"].contains(&kind);
    let name = words.next().filter(|_| is_item)?;
    Some(name.chars().take_while(|&c| c.is_alphanumeric() || c == '_').collect())
}
