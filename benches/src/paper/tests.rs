//! Definitions, and tiny items from definition to page.

use std::fs;
use std::path::{Path, PathBuf};

use sylvie::gnn::ModelKind;
use sylvie::pipeline::{ExchangePolicy, Preset, Schedule};

use super::definition::{Definitions, Kind};
use super::graphs::{Graphs, Mode};
use super::record::Record;
use super::runs::{Results, Runner};
use super::{BENCHES, PaperArguments, measure, stored};

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
        hosts: None,
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
    let expected = "fig5 table2 table3 fig9 fig8 fig2 table4 fig7 fig6 fig10 fig4 hosts";
    assert_eq!(ids.join(" "), expected);
    let quick: f64 = definitions.items.iter().map(|item| item.quick.budget_s).sum();
    assert!(quick <= 29.0 * 60.0, "the quick run may take {quick} s");
    for item in &definitions.items {
        let exchange = item.policies[0].exchange();
        let full = ExchangePolicy { halo: exchange.halo, ..ExchangePolicy::full_precision() };
        assert_eq!(exchange, full, "{}", item.id);
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
        ("seeds = 2", "seeds = 2\nlonger = { none = 3 }", "3 epochs on 'none'"),
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
fn runs_are_in_the_record_before_their_item_ends() {
    let folder = tempfile::tempdir().unwrap();
    let longer = "epochs = 5\nlonger = { tiny = 7 }";
    let item = item("a", "accuracy", "\"tiny\"", 100.0).replace("epochs = 5", longer);
    let items = [("1.toml", item)];
    let definitions = arguments(folder.path(), &items).definitions.unwrap();
    let definitions = Definitions::read(&definitions).unwrap();
    let record = Record::create(folder.path(), "record").unwrap();
    let graphs = Graphs::new(Mode::Quick, 1.0, None);
    let mut runner = Runner::new(&definitions, graphs, (&record, Results::default()));
    // What cannot be written ends the item after its first run.
    let times = record.folder.join("times.csv");
    fs::create_dir(&times).unwrap();
    runner.run(&definitions.items[0]).unwrap_err();
    assert_eq!((runner.results.timed.len(), runner.results.trained.len()), (1, 0));
    fs::remove_dir(&times).unwrap();
    runner.run(&definitions.items[0]).unwrap();
    // No page was written, as where a run is ended.
    assert!(!record.folder.join("report.html").exists());
    let stored = stored::results(&record.folder).unwrap();
    assert_eq!((stored.timed.len(), stored.trained.len()), (3, 3 * 2));
    assert!(stored.trained.iter().all(|run| run.curve.epochs.len() == 7));
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

/// An item on shaped hosts, and a program in the place of the command that makes them.
#[cfg(unix)]
fn on_hosts(folder: &Path, script: &str) -> PaperArguments {
    use std::os::unix::fs::PermissionsExt as _;

    let item = item("hosts", "hosts", "\"plain\"", 100.0)
        .replace("real = [\"own\"]\n", "")
        .replace("warm_epochs = 1", "warm_epochs = 2")
        .replace("data = \"tiny\"", "data = \"plain\"");
    let program = folder.join("hosts.sh");
    fs::write(&program, format!("#!/bin/sh\n{script}")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = arguments(folder, &[("1.toml", item)]);
    let sets = format!("{SETS}{}", SETS[..SETS.find("[broken]").unwrap()].replace("tiny", "plain"));
    let sets = sets.replace(
        "title = \"plain\"\npercent = 20.0\ninductive = true",
        "title = \"plain\"\npercent = 20.0",
    );
    fs::write(folder.join("definitions/sets.toml"), sets).unwrap();
    PaperArguments { hosts: Some(program), ..arguments }
}

#[cfg(unix)]
#[test]
fn shaped_hosts_are_measured_by_the_command_that_makes_them() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"
case " $* " in *" --check "*) exit 0;; esac
echo "$*" > "$(dirname "$0")/arguments"
while [ $# -gt 0 ]; do [ "$1" = --csv ] && csv=$2; shift; done
cat > "$csv" <<END
hosts,policy,measured,predicted,ratio,modelled,ratio,linkless,speed-up,wire
2,vanilla,100.0,90.0,1.11,95.0,1.05,5.0,1.00,1.001
2,sylvie-s,10.0,9.0,1.11,9.5,1.05,5.0,10.00,1.002
2,sylvie-a,12.0,8.0,1.50,9.0,1.33,5.0,8.33,1.050
END
"#;
    measure(&on_hosts(folder.path(), script)).unwrap();
    let record = record(folder.path(), "-tiny");
    let read = |name: &str| fs::read_to_string(record.join(name)).unwrap();
    let figures = read("figures.csv");
    assert!(
        figures.contains("\"hosts/plain sage/sylvie-s/throughput\",10,\"times fp32\""),
        "{figures}"
    );
    assert_eq!(read("hosts.csv").lines().count(), 1 + 3);
    assert!(read("hosts.csv").contains("plain,sage,\"two hosts\",sylvie-a,"));
    let verdicts = read("verdicts.csv");
    for (claim, verdict) in [
        ("ahead of every baseline on shaped hosts", "hosts,agrees,"),
        ("those of the modelled link", "hosts,does not agree,"),
        ("what rate and bytes imply", "hosts,does not agree,"),
        ("what the program counts", "hosts,does not agree,"),
    ] {
        let line = verdicts.lines().find(|line| line.contains(claim)).unwrap();
        assert!(line.starts_with(verdict), "{line}");
    }
    assert!(verdicts.contains("not: plain sage, sylvie-a (1.33)"), "{verdicts}");
    assert!(read("report.html").contains("Mbit/s a host, each way; without a link"));
    let told = fs::read_to_string(folder.path().join("arguments")).unwrap();
    for words in [
        "--hosts 2 --rate ",
        "mbit --data synthetic:nodes=300,",
        "--hidden 16 --policies vanilla,sylvie-s,sylvie-a --epochs 5 --warm 2",
        "--train --model sage --layers 3 --linear-layers 0 --dropout 0",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }

    // A record that is gone on with has its runs, and asks for no hosts.
    let arguments =
        PaperArguments { resume: Some(record.clone()), ..on_hosts(folder.path(), "exit 1\n") };
    measure(&arguments).unwrap();
    assert_eq!(read("figures.csv"), figures);
}

#[cfg(unix)]
#[test]
fn where_no_hosts_can_be_made_they_are_named_as_missing() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo 'bench: failed: only root may' >&2; exit 1\n";
    measure(&on_hosts(folder.path(), script)).unwrap();
    let record_of = |folder: &Path| record(folder, "-tiny");
    let read = |name: &str| fs::read_to_string(record_of(folder.path()).join(name)).unwrap();
    assert!(
        read("report.html").contains("plain, sage, two hosts (not measured here: only root may)")
    );
    let verdicts = read("verdicts.csv");
    assert!(
        verdicts.lines().skip(1).all(|line| line.starts_with("hosts,not measured,")),
        "{verdicts}"
    );

    // A run that breaks is no such case.
    let folder = tempfile::tempdir().unwrap();
    let script = "[ \"$1\" = --check ] || { echo 'mpirun broke' >&2; exit 1; }\n";
    let error = measure(&on_hosts(folder.path(), script)).unwrap_err().to_string();
    assert!(error.contains("1 runs failed"), "{error}");
    let page = fs::read_to_string(record_of(folder.path()).join("report.html")).unwrap();
    assert!(page.contains("two hosts (failed: mpirun broke)"));
}

#[cfg(unix)]
#[test]
fn what_shaped_hosts_cannot_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to, expected) in [
        ("ranks_per_host = 1", "ranks_per_host = 2", "a rank a host"),
        ("preset = \"sylvie-a\"", "preset = \"sylvie-a\"\nstaleness = 5", "no preset as it is"),
        ("data = [\"plain\"]", "data = [\"tiny\"]", "inductive or standardised"),
        ("epochs = 5", "epochs = 2", "more `epochs`"),
    ] {
        let arguments = on_hosts(folder.path(), "exit 1\n");
        let path = folder.path().join("definitions/1.toml");
        let text = fs::read_to_string(&path).unwrap();
        // The paper's figures are of the set.
        let text = text[..text.find("[[paper]]").unwrap()].replace(from, to);
        fs::write(&path, text).unwrap();
        let error = format!("{:#}", measure(&arguments).unwrap_err());
        assert!(error.contains("1.toml") && error.contains(expected), "{to}: {error}");
    }
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
