//! Bad input: one clear line, a status that is not zero, no panic.

use std::fs;
use std::path::Path;

use crate::files::{self, N_FEATURES, N_NODES};
use crate::program::{GRAPH, fail, succeed, train};

#[test]
fn flags_that_cannot_be() {
    for (words, named) in [
        ("train --bits 3", "--bits"),
        ("train --metadata f64", "--metadata"),
        ("train --model mlp", "--model"),
        ("train --norm batch", "--norm"),
        ("train --preset fastest", "--preset"),
        ("train --partitioner best", "--partitioner"),
        ("train --objective time", "--objective"),
        ("train --metric f1", "--metric"),
        ("train --class-weights 1,0", "--class-weights"),
        ("train --class-weights even", "--class-weights"),
        ("train --normalize l2", "--normalize"),
        ("train --format csv", "--format"),
        ("train --split random:0.9,0.2", "--split <RULE>': shares of 0.9"),
        ("info --split random:60,20", "sum to 80: each must be above 0"),
        ("train --split per-class:20", "--split"),
        ("train --epochs 0", "--epochs"),
        ("train --eval-every 0", "--eval-every"),
        ("train --layers 0", "--layers"),
        ("train --layers 256", "--layers"),
        ("train --hidden 0", "--hidden"),
        ("train --heads 0", "--heads"),
        ("train --parts 0", "--parts"),
        ("train --parts 65536", "--parts"),
        ("train --threads 0", "--threads"),
        ("train --lr 0", "--lr"),
        ("train --lr -0.1", "--lr"),
        ("train --lr inf", "--lr"),
        ("train --lr NaN", "--lr"),
        ("train --weight-decay -1", "--weight-decay"),
        ("train --dropout 1", "--dropout"),
        ("train --dropout -0.1", "--dropout"),
        ("train --seed -1", "whole number from 0"),
        ("train --bits -1", "--bits"),
        ("train --lr 1e-300", "too small"),
        ("train --directed=perhaps", "--directed"),
        ("train --epoch 3", "--epochs"),
        ("train --quiet --json", "--json"),
        ("train --overwrite", "--out"),
        ("partition --parts 0", "--parts"),
        ("evaluate --data synthetic", "--run"),
        ("info --devices --data synthetic", "--devices"),
        ("predict --run there", "--scores"),
        ("tarin", "train"),
    ] {
        let (status, line) = fail(words);
        assert_eq!(status, 2, "{words}: {line}");
        assert!(line.contains(named), "{words}: {line}");
    }
}

#[test]
fn settings_that_do_not_go_together() {
    let two = "synthetic:nodes=40,degree=3,classes=2,features=2";
    for (words, named) in [
        (format!("train --data {GRAPH} --model gcn --directed"), "symmetric"),
        (format!("train --data {GRAPH} --model gat --hidden 16 --heads 3"), "3 heads"),
        (format!("train --data {GRAPH} --linear-layers 3"), "no graph layer"),
        (format!("train --data {GRAPH} --metric roc-auc"), "roc-auc"),
        (format!("train --data {GRAPH} --class-weights 1,2"), "--class-weights has 2 values"),
        (format!("train --data {two} --parts 41"), "41 parts"),
        (format!("partition --data {two} --parts 41"), "41 parts"),
        (format!("train --data {two} --parts 40 --threads 400"), "40 parts of 400 threads"),
        ("partition --partitioner random --objective cut".to_owned(), "--objective has no effect"),
        ("train --data synthetic:nodes=3".to_owned(), "nodes"),
        ("train --data synthetic:colour=red".to_owned(), "colour"),
        (format!("train --data {GRAPH} --split per-class:2000,30"), "--split per-class:2000,30"),
        (format!("train --data {GRAPH} --parts 1 --bits 4"), "--bits has no effect with one part"),
        (format!("train --data {GRAPH} --parts 1 --overlap"), "--overlap has no effect"),
        (format!("train --data {GRAPH} --parts 1 --link 1Gbps"), "--link has no effect"),
        ("train --config nowhere.toml".to_owned(), "nowhere.toml"),
        ("train --init nowhere.safetensors".to_owned(), "nowhere.safetensors"),
    ] {
        let (status, line) = fail(&words);
        assert_eq!(status, 1, "{words}: {line}");
        assert!(line.contains(named), "{words}: {line}");
    }
}

#[test]
fn a_file_of_settings_with_an_unknown_key() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("mine.toml");
    for (text, named) in [
        ("epochs = 3\nlearning_rate = 0.1\n", "`learning_rate`"),
        ("bits = 3\n", "--bits"),
        ("epochs = \n", "line 1"),
        ("lr = \"0.1\"\n", "`lr`"),
    ] {
        fs::write(&config, text).unwrap();
        let (status, line) = fail(&format!("train --config {}", config.display()));
        assert_eq!(status, 1);
        assert!(line.contains("mine.toml") && line.contains(named), "{text}: {line}");
    }
}

#[test]
fn a_seed_that_draws_no_split() {
    let folder = tempfile::tempdir().unwrap();
    let ring = folder.path().join("ring");
    files::ring(&ring);
    let ring = ring.display();
    for words in ["info", "partition --parts 2", "train --parts 2", "convert --to ogb --out x"] {
        let (status, line) = fail(&format!("{words} --data {ring} --split-seed 7"));
        assert_eq!(status, 1, "{words}: {line}");
        assert!(line.contains(&format!("--split-seed has no effect on {ring}")), "{words}: {line}");
        assert!(line.contains("--split random:0.6,0.2 draws another"), "{words}: {line}");
    }
    let run = folder.path().join("run");
    train(&run, &format!("--data {ring} --parts 2 --split random:0.5,0.25 --split-seed 7"));
    train(&folder.path().join("own"), &format!("--data {ring} --parts 2"));
    let own = folder.path().join("own");
    let (_, line) = fail(&format!("evaluate --run {} --split-seed 7", own.display()));
    assert!(line.contains("--split-seed has no effect"), "{line}");
    succeed(&format!("evaluate --run {} --split-seed 9", run.display()));
}

/// Launchers tell processes of each other by variables: ranks must not become runs beside each other unsaid.
#[test]
fn one_of_several_processes_is_told_what_to_say() {
    let start = |words: &str, variables: [(&str, &str); 2]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sylvie"));
        command.args(words.split(' ')).envs(variables).output().unwrap()
    };
    let words = format!("train --data {GRAPH} --hidden 8 --epochs 1 --quiet");
    for names in [["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"], ["PMI_RANK", "PMI_SIZE"]] {
        let first = start(&words, [(names[0], "0"), (names[1], "3")]);
        let said = String::from_utf8(first.stderr).unwrap();
        assert_eq!((first.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        for word in ["3 processes", "--transport mpi", "--transport threads"] {
            assert!(said.contains(word), "{word}: {said}");
        }
        let second = start(&words, [(names[0], "1"), (names[1], "3")]);
        assert_eq!((second.status.code(), second.stderr.len()), (Some(1), 0), "the first says it");
        let alone = start(&words, [(names[0], "0"), (names[1], "1")]);
        assert!(alone.status.success(), "a job of one");
        let meant = format!("{words} --transport threads");
        assert!(start(&meant, [(names[0], "1"), (names[1], "3")]).status.success());
    }
}

/// Damages a folder of arrays.
type Damage = fn(&Path);

#[test]
fn files_that_are_no_graph() {
    let cases: &[(&str, Damage, &str)] = &[
        ("missing path", |folder| fs::remove_dir_all(folder).unwrap(), "no such file"),
        ("unknown format", |f| fs::remove_file(f.join("indptr.npy")).unwrap(), "--format"),
        ("truncated npy", |folder| truncate(&folder.join("feat.npy")), "feat.npy"),
        (
            "truncated header",
            |f| fs::write(f.join("label.npy"), b"\x93NUMPY").unwrap(),
            "label.npy",
        ),
        (
            "wrong shape",
            |f| files::array(f, "feat.npy", &[N_NODES - 1, 2], &[0.0_f32; (N_NODES - 1) * 2]),
            "feat.npy",
        ),
        (
            "label out of range",
            |f| files::array(f, "label.npy", &[N_NODES], &[-7_i64; N_NODES]),
            "-7",
        ),
        (
            "huge label",
            |f| files::array(f, "label.npy", &[N_NODES], &[1_i64 << 40; N_NODES]),
            "label.npy",
        ),
        (
            "NaN feature",
            |f| {
                let values = [f32::NAN; N_NODES * N_FEATURES];
                files::array(f, "feat.npy", &[N_NODES, N_FEATURES], &values);
            },
            "not a finite 32-bit number",
        ),
        (
            "index beyond n",
            |f| files::array(f, "indices.npy", &[N_NODES], &[N_NODES as i64; N_NODES]),
            "indices.npy",
        ),
        ("empty split", |f| files::array::<i64>(f, "val.npy", &[0], &[]), "validation"),
        ("node in two sets", |f| files::array(f, "val.npy", &[1], &[0_i64]), "node 0"),
    ];
    for (what, damage, named) in cases {
        let folder = tempfile::tempdir().unwrap();
        let ring = folder.path().join("ring");
        files::ring(&ring);
        damage(&ring);
        for command in ["info", "partition --parts 2", "train --parts 2"] {
            let (status, line) = fail(&format!("{command} --data {}", ring.display()));
            assert_eq!(status, 1, "{what}: {line}");
            assert!(line.contains(named), "{what}: {line}");
        }
    }
}

fn truncate(path: &Path) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() - 5]).unwrap();
}

#[test]
fn places_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "in the way").unwrap();
    for out in [file.clone(), file.join("below")] {
        let (status, line) = fail(&format!("train --data {GRAPH} --out {}", out.display()));
        assert_eq!(status, 1);
        assert!(line.contains("file"), "{line}");
    }
    let run = folder.path().join("run");
    train(&run, &format!("--data {GRAPH}"));
    for out in [folder.path().to_owned(), file.join("below.npy"), run.join("no/such/place.npy")] {
        let words = format!("predict --run {} --out {}", run.display(), out.display());
        let (status, line) = fail(&words);
        assert_eq!(status, 1);
        assert!(line.contains(&out.display().to_string()), "{line}");
    }
}

#[test]
fn paths_with_control_characters_stay_on_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two\nlines\u{1b}[2J");
    let path = path.to_str().unwrap();
    for words in [
        &["info", "--data", path][..],
        &["train", "--config", path],
        &["train", "--init", path],
        &["evaluate", "--run", path],
    ] {
        let (_, line) = crate::program::fail_at(words);
        assert!(line.contains("lines\\u{1b}[2J"), "{words:?}: {line}");
        assert!(!line.contains('\u{1b}'), "{words:?}: {line}");
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_neither_read_nor_replaced() {
    use std::os::unix::fs::{FileTypeExt as _, symlink};

    let folder = tempfile::tempdir().unwrap();
    let (run, pipe) = (folder.path().join("run"), folder.path().join("pipe"));
    train(&run, &format!("--data {GRAPH}"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (link, dangling) = (folder.path().join("link"), folder.path().join("dangling"));
    symlink(&pipe, &link).unwrap();
    symlink(folder.path().join("nothing"), &dangling).unwrap();
    let pipe_line = pipe.display().to_string();
    for words in [
        format!("train --data {GRAPH} --config {pipe_line}"),
        format!("train --data {GRAPH} --hidden 16 --init {pipe_line}"),
        format!("train --data {pipe_line}"),
        format!("info --data {pipe_line} --format gnn-benchmark"),
        format!("train --data {GRAPH} --out {pipe_line}"),
        format!("predict --run {} --out {pipe_line}", run.display()),
    ] {
        assert!(fail(&words).1.contains(&pipe_line), "{words}");
    }
    for out in [&link, &dangling] {
        for command in [
            format!("train --data {GRAPH}"),
            format!("train --data {GRAPH} --overwrite"),
            format!("predict --run {}", run.display()),
        ] {
            let line = fail(&format!("{command} --out {}", out.display())).1;
            assert!(line.contains(&out.display().to_string()), "{line}");
        }
        assert!(out.is_symlink());
    }
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
}

/// Stacks that no address space holds: the system refuses every thread whose stack is not set.
#[test]
fn threads_that_the_system_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let words =
        format!("train --quiet --data {GRAPH} --hidden 8 --epochs 1 --out {}", out.display());
    let run = |threads: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sylvie"));
        let stack = (1_u64 << 60).to_string();
        command.args(words.split(' ')).args(["--parts", "2", "--threads", threads]);
        command.env("RUST_MIN_STACK", stack).output().unwrap()
    };
    let output = run("2");
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(line.lines().count() == 1 && line.contains("--threads"), "{line}");
    assert_eq!(line.matches("os error").count(), 1, "{line}");
    fs::remove_dir_all(&out).unwrap();
    assert!(run("1").status.success());
}

#[test]
fn weights_of_the_run_that_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &format!("--data {GRAPH}"));
    let model = run.join("model.safetensors");
    let words = format!("train --quiet --data {GRAPH} --hidden 16 --init {}", model.display());
    let (_, line) = fail(&format!("{words} --out {} --overwrite", run.display()));
    assert!(line.contains("--init"), "{line}");
    assert!(model.exists() && !run.join(".new").exists());
}

#[test]
fn starting_weights_that_do_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &format!("--data {GRAPH}"));
    let init = run.join("model.safetensors");
    for (words, named) in [
        ("--model gcn --hidden 16", "layers.0.w"),
        ("--hidden 16 --layers 2", "layers.2."),
        ("--hidden 16 --layers 4", "layers.3."),
        ("--hidden 8", "layers.0.w_self has shape [9, 16]"),
    ] {
        let words = format!("train --data {GRAPH} --init {} {words}", init.display());
        let output = crate::program::run(&words);
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words}: {line}");
        assert!(line.lines().count() == 1 && line.contains(named), "{words}: {line}");
    }
}
