//! Definitions, and tiny items from definition to page.

use std::fs;
use std::path::{Path, PathBuf};

use sylvie::gnn::ModelKind;
use sylvie::pipeline::{ExchangePolicy, Preset, Schedule};

use super::definition::{Definitions, Kind};
use super::{BENCHES, PaperArguments, measure};

/// A set of a few hundred nodes, one that cannot be, and one that is not there.
const SETS: &str = r#"
[tiny]
title = "tiny"
percent = 20.0
inductive = true
split = [0.6, 0.2]
locality = 0.8
quick = { nodes = 300, degree = 8, features = 8, classes = 3 }
full = { nodes = 300, degree = 8, features = 8, classes = 3 }
networks.sage = { layers = 3, hidden = { paper = 256, quick = 16, full = 16 }, dropout = 0.0 }

[broken]
title = "more classes than nodes"
percent = 20.0
quick = { nodes = 30, degree = 8, features = 8, classes = 40 }
full = { nodes = 30, degree = 8, features = 8, classes = 40 }
networks.sage = { layers = 2, hidden = { paper = 256, quick = 8, full = 8 }, dropout = 0.0 }

[own]
title = "a folder of the user's"
path = "own"
networks.sage = { layers = 2, hidden = { paper = 256, quick = 8, full = 8 }, dropout = 0.0 }
"#;

const LAYOUT: &str = r#"
[[layouts]]
name = "two hosts"
parts = 2
ranks_per_host = 1
latency_us = 50
"#;

const POLICIES: &str = r#"
[[policies]]
name = "fp32"
preset = "vanilla"

[[policies]]
name = "sylvie-s"
preset = "sylvie-s"

[[policies]]
name = "sylvie-a"
preset = "sylvie-a"
"#;

/// An item of a kind on some data, with so many seconds.
fn item(id: &str, kind: &str, data: &str, budget_s: f64) -> String {
    let effort = format!(
        "warm_epochs = 1\nseconds = 0.01\nseeds = 2\nepochs = 5\neval_every = 2\nbudget_s = {budget_s}\n"
    );
    format!(
        "id = \"{id}\"\ntitle = \"tiny\"\nplace = \"Table 2\"\nkind = \"{kind}\"\ndata = [{data}]\nreal = [\"own\"]\n\
         models = [\"sage\"]\nexpects = \"what is expected\"\n\n[quick]\n{effort}\n[full]\n{effort}{LAYOUT}{POLICIES}\n\
         [[paper]]\ndata = \"tiny\"\nmodel = \"sage\"\nfigure = \"throughput\"\nvalues = {{ sylvie-s = 19.9 }}\n"
    )
}

fn file(name: &str, text: &str) -> (String, String) {
    (name.to_owned(), text.to_owned())
}

/// Why definitions are refused: an item, and sets where they are not the usual ones.
fn refused(item: &str, sets: &str) -> String {
    let files = vec![file("sets.toml", sets), file("table.toml", item)];
    format!("{:#}", Definitions::parse(files).unwrap_err())
}

fn arguments(folder: &Path, items: &[(&str, String)]) -> PaperArguments {
    let definitions = folder.join("definitions");
    fs::create_dir_all(&definitions).unwrap();
    fs::write(definitions.join("sets.toml"), SETS).unwrap();
    for (name, text) in items {
        fs::write(definitions.join(name), text).unwrap();
    }
    PaperArguments {
        quick: true,
        item: Vec::new(),
        scale: 1.0,
        data: None,
        compare: None,
        resume: None,
        name: Some("tiny".to_owned()),
        out: Some(folder.join("record")),
        definitions: Some(definitions),
    }
}

/// The only record of a name that begins so.
fn record(folder: &Path, ending: &str) -> PathBuf {
    let entries = fs::read_dir(folder.join("record")).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    paths.find(|path| path.to_string_lossy().ends_with(ending)).unwrap()
}

#[test]
fn the_definitions_are_whole() {
    let definitions = Definitions::read(&Path::new(BENCHES).join("experiments")).unwrap();
    let ids: Vec<&str> = definitions.items.iter().map(|item| item.id.as_str()).collect();
    let expected = "fig5 table2 table3 fig9 fig8 fig2 table4 fig7 fig6 fig10 fig4";
    assert_eq!(ids.join(" "), expected);
    let quick: f64 = definitions.items.iter().map(|item| item.quick.budget_s).sum();
    assert!(quick <= 29.0 * 60.0, "the quick run may take {quick} s");
    for item in &definitions.items {
        assert_eq!(item.policies[0].exchange(), ExchangePolicy::full_precision(), "{}", item.id);
    }
    let fig5 = &definitions.items[0];
    assert_eq!(fig5.kind, Kind::Throughput);
    let of = |data, kind, policy| fig5.reported((data, kind), "two hosts", "throughput", policy);
    assert_eq!(of("reddit", ModelKind::Sage, "sylvie-s"), Some(19.9));
    assert_eq!(of("amazon", ModelKind::Gat, "sylvie-a"), Some(15.2));
    assert_eq!(of("amazon", ModelKind::Gat, "quantize-all"), None);
    let fig8 = definitions.items.iter().find(|item| item.id == "fig8").unwrap();
    let eps = fig8.policies.iter().find(|policy| policy.name == "sylvie-a eps 2").unwrap();
    let exchange = eps.exchange();
    assert_eq!((exchange.schedule, exchange.staleness), (Schedule::Async, 2));
    assert_eq!(fig8.named(Preset::SylvieA), Some("sylvie-a"));
}

#[test]
fn what_is_unknown_is_refused_with_file_and_key() {
    let good = item("a", "accuracy", "\"tiny\"", 100.0);
    Definitions::parse(vec![file("sets.toml", SETS), file("table.toml", &good)]).unwrap();
    for (from, to, expected) in [
        ("title = \"tiny\"", "titel = \"tiny\"", "unknown field `titel`"),
        ("seeds = 2", "sedes = 2", "unknown field `sedes`"),
        ("preset = \"sylvie-s\"", "preset = \"sylvie\"", "unknown preset 'sylvie'"),
        ("models = [\"sage\"]", "models = [\"sagen\"]", "unknown model 'sagen'"),
        ("models = [\"sage\"]", "models = [\"gat\"]", "data set 'tiny' has no gat"),
        ("kind = \"accuracy\"", "kind = \"speed\"", "unknown variant `speed`"),
        ("data = [\"tiny\"]", "data = [\"huge\"]", "data set 'huge' is not in sets.toml"),
        ("data = [\"tiny\"]", "data = [\"own\"]", "does not belong in `data`"),
        ("sylvie-s = 19.9", "sylvie-z = 19.9", "'sylvie-z', which is no policy"),
        ("ranks_per_host = 1", "ranks_per_host = 2", "one host alone"),
        ("seeds = 2", "cells = [[\"tiny\", \"gcn\"]]", "the cell of tiny and gcn"),
    ] {
        let found = refused(&good.replace(from, to), SETS);
        assert!(found.contains("table.toml") && found.contains(expected), "{to}: {found}");
    }
    let found = refused(&good, &SETS.replace("locality", "local"));
    assert!(found.contains("sets.toml") && found.contains("unknown field `local`"), "{found}");
    let other = item("a", "accuracy", "\"tiny\"", 1.0);
    let files = [("sets.toml", SETS), ("a.toml", &good), ("b.toml", &other)];
    let twice = Definitions::parse(files.map(|(name, text)| file(name, text)).to_vec());
    assert!(format!("{:#}", twice.unwrap_err()).contains("the id a"));
    let other =
        other.replace("id = \"a\"", "id = \"b\"").replace("latency_us = 50", "latency_us = 60");
    let files = [("sets.toml", SETS), ("a.toml", &good), ("b.toml", &other)];
    let other = Definitions::parse(files.map(|(name, text)| file(name, text)).to_vec());
    assert!(format!("{:#}", other.unwrap_err()).contains("layout 'two hosts' is another in a"));
}

#[test]
fn a_tiny_item_becomes_a_record_and_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let items = [
        ("1.toml", item("table2", "accuracy", "\"tiny\"", 100.0)),
        ("2.toml", item("fig5", "throughput", "\"tiny\"", 100.0)),
        ("3.toml", item("fig4", "traces", "\"tiny\"", 100.0)),
    ];
    measure(&arguments(folder.path(), &items)).unwrap();
    let first = record(folder.path(), "-tiny");
    let read = |name: &str| fs::read_to_string(first.join(name)).unwrap();
    // Three policies, and runs that the items share.
    assert_eq!(read("times.csv").lines().count(), 1 + 3);
    assert_eq!(read("scores.csv").lines().count(), 1 + 3 * 2);
    assert_eq!(read("curves.csv").lines().count(), 1 + 3 * 2 * 5);
    assert!(read("epochs.csv").lines().count() > 3);
    assert!(read("machine.txt").contains("command: cargo xtask bench"));
    assert_eq!(read("definitions/sets.toml"), SETS);
    let verdicts = read("verdicts.csv");
    for claim in ["sylvie-s scores as fp32 does", "ahead of every baseline", "rows and all-reduce"]
    {
        assert!(verdicts.contains(claim), "{verdicts}");
    }
    assert!(!verdicts.contains("not measured"), "{verdicts}");
    let page = read("report.html");
    for part in ["Table 2: tiny", "<svg", "agree", "19.90", "what is expected"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("Beside the earlier record"));

    let again = PaperArguments {
        compare: Some(first),
        item: vec!["fig5".to_owned()],
        ..arguments(folder.path(), &items)
    };
    measure(&again).unwrap();
    let second = fs::read_to_string(record(folder.path(), "-tiny-2").join("report.html")).unwrap();
    assert!(second.contains("Beside the earlier record") && second.contains("now / before"));
}

#[test]
fn a_record_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let mut items = vec![
        ("1.toml", item("fig5", "throughput", "\"tiny\"", 100.0)),
        ("2.toml", item("table2", "accuracy", "\"tiny\"", 100.0)),
    ];
    let only = |id: &str| vec![id.to_owned()];
    let usual = |items: &[(&str, String)]| arguments(folder.path(), items);
    measure(&PaperArguments { item: only("fig5"), ..usual(&items) }).unwrap();
    let record = record(folder.path(), "-tiny");
    let read = |name: &str| fs::read_to_string(record.join(name)).unwrap();
    let (times, epochs) = (read("times.csv"), read("epochs.csv"));
    assert_eq!(read("scores.csv").lines().count(), 1);

    let again = |items: &[(&str, String)]| PaperArguments {
        resume: Some(record.clone()),
        name: None,
        out: None,
        quick: false,
        ..usual(items)
    };
    // Another item, and one that there was not yet: what was measured stays as it was.
    items.push(("3.toml", item("fig4", "traces", "\"tiny\"", 100.0)));
    measure(&PaperArguments { item: vec!["fig5".into(), "table2".into()], ..again(&items) })
        .unwrap();
    assert_eq!((read("times.csv"), read("epochs.csv")), (times.clone(), epochs));
    let (scores, curves) = (read("scores.csv"), read("curves.csv"));
    assert_eq!(scores.lines().count(), 1 + 3 * 2);
    assert_eq!(read("machine.txt").matches("command: ").count(), 2);

    // Steps of an epoch are in no file, so that they are measured again; scores are not.
    measure(&again(&items)).unwrap();
    assert_eq!((read("scores.csv"), read("curves.csv")), (scores, curves));
    assert_eq!(read("times.csv").lines().count(), times.lines().count());
    assert!(read("report.html").contains("the last epoch measured"));

    items[0].1 = items[0].1.replace("seeds = 2", "seeds = 3");
    let error = format!("{:#}", measure(&again(&items)).unwrap_err());
    assert!(error.contains("1.toml") && error.contains("new record"), "{error}");
}

#[test]
fn an_item_that_fails_leaves_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let late = item("b", "volume", "\"tiny\"", 0.0).replace("two hosts", "other hosts");
    let items = [
        ("1.toml", item("a", "ablation", "\"tiny\", \"broken\"", 100.0)),
        ("2.toml", late),
        ("3.toml", item("c", "codec", "\"tiny\"", 0.0)),
        ("4.toml", item("d", "share", "\"tiny\"", 100.0)),
    ];
    let error = measure(&arguments(folder.path(), &items)).unwrap_err();
    // Three policies with two seeds.
    assert!(error.to_string().contains("6 runs failed"), "{error:#}");
    let record = record(folder.path(), "-tiny");
    let page = fs::read_to_string(record.join("report.html")).unwrap();
    assert!(page.contains("broken, sage, fp32, seed 1 (failed: "), "no failure");
    // What an item had no time for and another has run is there after all.
    assert!(page.contains("other hosts, fp32 (the item"), "nothing was left out");
    assert!(
        !page.contains("two hosts, fp32 (the item"),
        "left out, though another item has run it"
    );
    let verdicts = fs::read_to_string(record.join("verdicts.csv")).unwrap();
    assert!(verdicts.contains("b,not measured,\"one bit sends 32 times less\""), "{verdicts}");
    assert!(verdicts.contains("c,agrees") || verdicts.contains("c,does not agree"), "{verdicts}");
    assert_eq!(fs::read_to_string(record.join("times.csv")).unwrap().lines().count(), 1 + 3);
}

#[test]
fn arguments_that_cannot_be_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let items = [("1.toml", item("a", "share", "\"tiny\"", 100.0))];
    let usual = || arguments(folder.path(), &items);
    for (arguments, expected) in [
        (PaperArguments { item: vec!["b".to_owned()], ..usual() }, "expected one of a"),
        (PaperArguments { scale: 0.0, ..usual() }, "--scale"),
        (PaperArguments { data: Some("no/folder".into()), ..usual() }, "no/folder"),
        (PaperArguments { compare: Some("no/record".into()), ..usual() }, "no/record"),
        (PaperArguments { definitions: Some("no/items".into()), ..usual() }, "no/items"),
    ] {
        let error = format!("{:#}", measure(&arguments).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
    assert!(!folder.path().join("record").exists());
}
