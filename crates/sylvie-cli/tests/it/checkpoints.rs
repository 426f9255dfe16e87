//! Runs that go on from a checkpoint.

use std::fs;
use std::path::Path;

use crate::program::{GRAPH, computed, fail, run, succeed, summary, train};

const SETTINGS: &str = "--hidden 16 --eval-every 2";

/// Everything that a run leaves, but for its times.
fn left(folder: &Path) -> (Vec<Vec<serde_json::Value>>, Vec<u8>, Vec<serde_json::Value>) {
    let summary = summary(folder);
    let keys =
        ["best_val", "best_epoch", "epochs", "loss", "eval_bytes", "payload_bytes_per_epoch"];
    let model = fs::read(folder.join("model.safetensors")).unwrap();
    (computed(folder), model, keys.map(|key| summary[key].clone()).to_vec())
}

fn checkpoints(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder.join("checkpoints")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Cuts a finished run back to what a run that was killed after its checkpoint leaves.
fn kill(folder: &Path, epochs_more: usize) {
    fs::remove_file(folder.join("model.safetensors")).unwrap();
    fs::remove_file(folder.join("summary.json")).unwrap();
    let path = folder.join("metrics.jsonl");
    let mut text = fs::read_to_string(&path).unwrap();
    (0..epochs_more).for_each(|_| text += "{\"epoch\": half of a li");
    fs::write(path, text).unwrap();
}

#[test]
fn a_run_goes_on_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    for (name, words) in [
        ("sync", "--model gcn --preset sylvie-s"),
        ("async", "--model sage --preset sylvie-a --staleness 3"),
        ("smooth", "--model sage --preset pipegcn --smooth both"),
        ("sampled", "--model gat --preset sylvie-a --boundary-sampling 0.5 --parts 3"),
        ("inductive", "--model sage --preset sylvie-a --inductive"),
    ] {
        let (whole, cut) = (folder.path().join(name), folder.path().join(format!("{name}-cut")));
        let words = format!("--data {GRAPH} --epochs 7 {SETTINGS} {words}");
        train(&whole, &words);
        train(&cut, &format!("{words} --epochs 4 --checkpoint-every 2"));
        assert_eq!(checkpoints(&cut), ["epoch-000004"], "{name}");
        kill(&cut, 1);
        let resume = format!("train --quiet --resume {} --epochs 7 --threads 2", cut.display());
        succeed(&resume);
        // The end of four epochs, at which the run was evaluated, falls on an evaluation anyway.
        assert_eq!(left(&cut), left(&whole), "{name}");
        assert_eq!(checkpoints(&cut), ["epoch-000007"], "{name}");
        let (_, line) = fail(&resume);
        assert!(line.contains("7 epochs done"), "{line}");
        // Killed after its last checkpoint, it has its results left to write.
        kill(&cut, 0);
        succeed(&resume);
        assert_eq!(left(&cut), left(&whole), "{name}");
    }
}

#[test]
fn what_is_trained_does_not_change_on_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    train(&out, &format!("--data {GRAPH} {SETTINGS} --epochs 2 --checkpoint-every 1"));
    let resume = format!("train --epochs 4 --resume {}", out.display());
    for (flags, named) in [
        ("--lr 0.1", "--lr 0.01"),
        ("--preset sylvie-a", "--preset"),
        ("--schedule async", "--schedule"),
        ("--parts 2", "--parts 4"),
        ("--seed 2", "--seed"),
        ("--bits 4", "--bits"),
        ("--eval-every 3", "--eval-every"),
        ("--init w.safetensors", "--init"),
        ("--data synthetic:nodes=240,degree=6,features=9,classes=3,seed=2", "part 0 of the graph"),
        ("--epochs 2", "2 epochs done"),
        ("--epochs 1", "2 epochs done"),
        ("--config run.toml", "--config"),
        ("--out elsewhere", "--out"),
    ] {
        let before = fs::read(out.join("metrics.jsonl")).unwrap();
        let (_, line) = fail(&format!("{resume} {flags}"));
        assert!(line.contains(named), "{flags}: {line}");
        assert_eq!(fs::read(out.join("metrics.jsonl")).unwrap(), before, "{flags}");
    }
    let (_, line) = fail(&format!("train --epochs 2 --data {GRAPH} --checkpoint-every 1"));
    assert!(line.contains("--out"), "{line}");
    let (_, line) = fail(&format!("train --resume {}", folder.path().display()));
    assert!(line.contains("it has no run.toml"), "{line}");
    let (_, line) = fail(&format!("train --resume {}/none", folder.path().display()));
    assert!(line.contains("no folder of a run"), "{line}");
    succeed(&format!("{resume} --quiet --checkpoint-every 2 --patience 9 --link 10Gbps,1us"));
}

#[test]
fn edited_settings_are_followed_or_refused_and_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, out] = ["whole", "run"].map(|name| folder.path().join(name));
    let words = format!("--data {GRAPH} {SETTINGS}");
    train(&whole, &format!("{words} --epochs 6"));
    train(&out, &format!("{words} --epochs 2 --checkpoint-every 2"));
    let path = out.join("run.toml");
    let good = fs::read_to_string(&path).unwrap();
    let resume = format!("train --quiet --resume {}", out.display());
    let lines: Vec<_> = good.lines().filter(|line| line.starts_with("lr = ")).collect();
    let edits = [
        (good.replace(lines[0], "lr = 0.5"), "lr = 0.5 instead of 0.01"),
        (good.replace("seed = 1", "seed = 9"), "seed = 9 instead of 1"),
        (good.clone() + "colour = 1\n", "unknown key `colour`"),
        (good.replace("epochs", "epochs = "), "run.toml"),
    ];
    for (text, named) in edits {
        assert_ne!(text, good, "{named}");
        fs::write(&path, &text).unwrap();
        let (_, line) = fail(&format!("{resume} --epochs 6"));
        assert!(line.contains("run.toml") && line.contains(named), "{line}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "kept as it is");
    }
    // What may change may be changed there.
    let more = good.replace("\nepochs = 2", "\nepochs = 6");
    let more: Vec<_> = more.lines().filter(|line| !line.starts_with("threads")).collect();
    fs::write(&path, format!("threads = 2\n{}\n", more.join("\n"))).unwrap();
    succeed(&resume);
    assert!(fs::read_to_string(&path).unwrap().lines().any(|line| line == "threads = 2"));
    assert_eq!(left(&out), left(&whole));
    // A flag comes before the file, and a folder without one has the checkpoint's settings.
    fs::remove_file(&path).unwrap();
    succeed(&format!("{resume} --epochs 7"));
    assert!(fs::read_to_string(&path).unwrap().contains("\nepochs = 7"));
}

#[cfg(unix)]
#[test]
fn a_run_that_goes_on_is_not_gone_on_with() {
    use std::process::{Command, Stdio};

    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sylvie"));
    command.args(["train", "--quiet", "--epochs", "1000000", "--checkpoint-every", "1", "--out"]);
    command.arg(&out).args(["--data", GRAPH, "--hidden", "16", "--parts", "2"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let start = std::time::Instant::now();
    while computed_lines(&out) < 3 {
        assert!(start.elapsed() < std::time::Duration::from_secs(60), "no three epochs");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let n_before = computed_lines(&out);
    let (_, line) = fail(&format!("train --resume {} --epochs 2000000", out.display()));
    let is_alive = child.try_wait().unwrap().is_none();
    let killed = Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert!(line.contains("another run is being written to"), "{line}");
    assert!(is_alive && output.status.code() == Some(143), "the run is not disturbed");
    assert!(computed(&out).len() >= n_before, "nothing was cut off");
}

#[cfg(unix)]
fn computed_lines(folder: &Path) -> usize {
    fs::read_to_string(folder.join("metrics.jsonl")).map_or(0, |text| text.lines().count())
}

#[test]
fn damaged_checkpoints_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let words =
        format!("--data {GRAPH} {SETTINGS} --parts 2 --preset sylvie-a --checkpoint-every 2");
    let (out, other) = (folder.path().join("run"), folder.path().join("other"));
    train(&out, &format!("{words} --epochs 2"));
    train(&other, &format!("{words} --epochs 2 --seed 2"));
    let place = |run: &Path, file: &str| run.join("checkpoints/epoch-000002").join(file);
    let resume = format!("train --quiet --epochs 4 --resume {}", out.display());
    for file in ["shared.safetensors", "rank-00001.safetensors"] {
        let path = place(&out, file);
        let good = fs::read(&path).unwrap();
        let refused = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let (_, line) = fail(&resume);
            line
        };
        for length in [0, 7, 100, good.len() - 1] {
            let line = refused(&good[..length]);
            assert!(line.contains(file), "{line}");
        }
        for at in (0..good.len()).step_by(good.len() / 25) {
            let mut bad = good.clone();
            bad[at] ^= 4;
            let line = refused(&bad);
            assert!(line.contains(file), "byte {at}: {line}");
        }
        // A whole file of another run: which of the two is the wrong one nobody can tell.
        let line = refused(&fs::read(place(&other, file)).unwrap());
        let named = match file {
            "shared.safetensors" => "run.toml says seed = 1 instead of 2",
            _ => "of another checkpoint",
        };
        assert!(line.contains(named), "{line}");
        fs::write(&path, &good).unwrap();
    }
    fs::copy(place(&out, "rank-00000.safetensors"), place(&out, "x")).unwrap();
    fs::copy(place(&out, "rank-00001.safetensors"), place(&out, "rank-00000.safetensors")).unwrap();
    let (_, line) = fail(&resume);
    assert!(line.contains("rank-00000.safetensors: is of rank 1"), "{line}");
    fs::rename(place(&out, "x"), place(&out, "rank-00000.safetensors")).unwrap();
    // A checkpoint that was not finished is in nobody's way.
    let unfinished = out.join("checkpoints/epoch-000003.new");
    fs::create_dir(&unfinished).unwrap();
    fs::write(unfinished.join("shared.safetensors"), "half").unwrap();
    fs::create_dir(out.join("checkpoints/epoch-000009.new")).unwrap();
    succeed(&resume);
    assert_eq!(
        checkpoints(&out),
        ["epoch-000004"],
        "the unfinished ones are gone, wherever they were"
    );
}

#[test]
fn a_file_that_is_missing_is_told_with_the_way_on() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    train(&out, &format!("--data {GRAPH} {SETTINGS} --parts 2 --epochs 4 --checkpoint-every 4"));
    let place = out.join("checkpoints/epoch-000004");
    let resume = format!("train --quiet --epochs 6 --resume {}", out.display());
    let older = out.join("checkpoints/epoch-000002");
    for file in ["shared.safetensors", "rank-00001.safetensors"] {
        let aside = folder.path().join("aside");
        fs::rename(place.join(file), &aside).unwrap();
        let (_, line) = fail(&resume);
        let missing = format!("{}: is missing", place.join(file).display());
        assert!(line.contains(&missing) && !line.contains("os error"), "{line}");
        let again = format!("sylvie train --config {}/run.toml --out DIR", out.display());
        assert!(line.contains("there is no other checkpoint") && line.contains(&again), "{line}");
        fs::create_dir(&older).unwrap();
        let (_, line) = fail(&resume);
        let way = format!("{} is gone on from once this one is moved away", older.display());
        assert!(line.contains(&way) && !line.contains("no other"), "{line}");
        fs::remove_dir(&older).unwrap();
        fs::rename(&aside, place.join(file)).unwrap();
    }
    succeed(&resume);
}

#[test]
fn a_run_that_replaces_another_takes_its_checkpoints_along() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let words = format!("--data {GRAPH} {SETTINGS}");
    train(&out, &format!("{words} --epochs 2 --checkpoint-every 1"));
    train(&out, &format!("{words} --epochs 3 --checkpoint-every 1 --overwrite --seed 2"));
    assert_eq!(checkpoints(&out), ["epoch-000003"]);
    train(&out, &format!("{words} --epochs 3 --overwrite"));
    assert!(!out.join("checkpoints").exists(), "no run without checkpoints has another's");
}

#[test]
fn metrics_that_were_cut_are_mended_and_what_are_none_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    train(&out, &format!("--data {GRAPH} {SETTINGS} --epochs 3 --checkpoint-every 3"));
    let path = out.join("metrics.jsonl");
    let good = fs::read_to_string(&path).unwrap();
    let resume = format!("train --quiet --resume {} --epochs", out.display());
    fs::write(&path, good.trim_end()).unwrap();
    succeed(&format!("{resume} 5"));
    assert_eq!(computed(&out).len(), 5);

    for (text, named) in [
        (
            good.lines().next().unwrap().to_owned(),
            "1 epoch, but the checkpoint comes after 5; the checkpoint needs",
        ),
        (good.replace("loss", "lost"), "metrics.jsonl: line 1"),
        (good.repeat(2), "line 4 is of epoch 0"),
    ] {
        fs::write(&path, text).unwrap();
        let (_, line) = fail(&format!("{resume} 6"));
        assert!(line.contains(named) && line.contains("run.toml --out DIR"), "{line}");
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let (_, line) = fail(&format!("{resume} 6"));
    assert!(line.contains("no regular file"), "{line}");
}

#[cfg(unix)]
#[test]
fn a_signal_ends_a_run_after_its_epoch() {
    use std::process::{Command, Stdio};
    use std::thread::sleep;
    use std::time::Duration;

    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let words = format!("--data {GRAPH} --hidden 16 --eval-every 50 --preset sylvie-a --parts 2");
    train(&whole, &format!("{words} --epochs 200"));
    for (signal, status) in [("INT", 130), ("TERM", 143), ("USR1", 138)] {
        let out = folder.path().join(signal);
        let mut command = Command::new(env!("CARGO_BIN_EXE_sylvie"));
        command.args(["train", "--epochs", "1000000", "--out"]).arg(&out);
        command.args(words.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let metrics = out.join("metrics.jsonl");
        let start = std::time::Instant::now();
        while fs::read_to_string(&metrics).map_or(0, |text| text.lines().count()) < 3 {
            assert!(start.elapsed() < Duration::from_secs(60), "no three epochs");
            sleep(Duration::from_millis(5));
        }
        let killed = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
        assert!(killed.unwrap().success());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.contains("--resume"), "{said}");
        let n_done = computed(&out).len();
        assert_eq!(checkpoints(&out), [format!("epoch-{n_done:06}")]);
        assert!(!out.join("summary.json").exists(), "the run is not over");
        let n_more = n_done.max(200);
        let epochs = n_more.to_string();
        let output = run(&format!("train --quiet --resume {} --epochs {epochs}", out.display()));
        if n_done < 200 {
            assert!(output.status.success());
            assert_eq!(left(&out), left(&whole), "{signal}");
        }
    }
}
