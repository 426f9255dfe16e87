//! What lies in every crate's folder, and what is said of every crate.

use crate::tree;

#[test]
fn every_crate_carries_the_licences() {
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let licence = tree::read(&tree::root().join(name));
        for folder in tree::crate_folders() {
            let copy = folder.join(name);
            assert!(tree::read(&copy) == licence, "{} is not the root's", copy.display());
        }
    }
}

#[test]
fn the_architecture_page_mentions_every_crate() {
    let page = tree::read(&tree::root().join("ARCHITECTURE.md"));
    let packages = tree::metadata().packages;
    let missing: Vec<_> =
        packages.iter().map(|p| p.name.as_str()).filter(|name| !mentions(&page, name)).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md leaves out {}", missing.join(", "));
}

#[test]
fn a_longer_name_is_no_mention() {
    assert!(mentions("the crate `sylvie` re-exports", "sylvie"));
    assert!(mentions("see crates/sylvie-comm.", "sylvie-comm"));
    assert!(!mentions("`sylvie-comm` and sylvie_comm", "sylvie"));
    assert!(!mentions("", "sylvie"));
}

/// Whether `name` stands in `page` by itself, not as a piece of a longer name.
fn mentions(page: &str, name: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    page.split(|c| !in_name(c)).any(|word| word == name)
}
