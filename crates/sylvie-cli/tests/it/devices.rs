//! The program on CUDA devices: stand-ins of NVIDIA's libraries, on the emulated device.

use std::env;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::program::{GRAPH, computed, fail, objects, run, train};

const SETTINGS: &str = "--epochs 4 --eval-every 2 --hidden 16 --parts 2";

/// LD_LIBRARY_PATH with a folder before what is there.
pub(crate) fn library_path(first: &Path) -> std::ffi::OsString {
    let others = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let others = env::split_paths(&others).filter(|path| !path.as_os_str().is_empty());
    env::join_paths(std::iter::once(first.to_owned()).chain(others)).expect("paths without colons")
}

/// Runs `sylvie` where these libraries are.
fn run_with(libraries: &Path, variables: &[(&str, &str)], words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sylvie"));
    command.args(words.split_whitespace()).env("LD_LIBRARY_PATH", library_path(libraries));
    command.envs(variables.iter().copied()).output().expect("the program starts")
}

/// Runs `sylvie` on stand-ins, which must succeed; they report on standard error.
#[track_caller]
pub(crate) fn succeed_on_standins(variables: &[(&str, &str)], words: &str) -> String {
    let output = run_with(sylvie_standins::folder(), variables, words);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{words}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn fail_with(libraries: &Path, variables: &[(&str, &str)], words: &str) -> String {
    let output = run_with(libraries, variables, words);
    let errors = String::from_utf8(output.stderr).expect("text");
    assert!(!output.status.success() && errors.lines().count() == 1, "{words}: {errors}");
    let line = errors.trim_end().strip_prefix("error: ");
    line.unwrap_or_else(|| panic!("{words}: {errors}")).to_owned()
}

/// Losses, and bytes sent, of each epoch.
fn losses(folder: &Path) -> Vec<(f64, Value)> {
    let epochs = computed(folder);
    epochs.iter().map(|epoch| (epoch[1].as_f64().expect("a loss"), epoch[5].clone())).collect()
}

#[test]
fn devices_are_listed() {
    let text = succeed_on_standins(&[], "info --devices");
    assert_eq!(text.lines().count(), 4, "{text}");
    let first = "cuda:0  emulated device, 8.0 GiB, 4 processors, compute capability 8.0";
    assert_eq!(text.lines().next(), Some(first));
    let listed = objects(&succeed_on_standins(&[], "info --devices --json"));
    assert_eq!(listed.len(), 4);
    assert_eq!((&listed[3]["device"], &listed[3]["capability"]), (&3.into(), &"8.0".into()));
}

#[test]
fn losses_on_devices_are_the_hosts() {
    let folder = tempfile::tempdir().unwrap();
    for (name, policy) in [
        ("gcn", "--model gcn --preset vanilla"),
        ("sage", "--model sage --preset sylvie-s"),
        ("gat", "--model gat --heads 2 --preset sylvie-a"),
    ] {
        let place = |how: &str| folder.path().join(format!("{name}-{how}"));
        let words = format!("--data {GRAPH} {policy} {SETTINGS}");
        let host = place("cpu");
        train(&host, &words);
        for (how, flags) in [
            ("shared", "--device cuda:1"),
            ("each", "--device cuda --transport threads"),
            ("nccl", "--device cuda --transport nccl"),
        ] {
            let out = place(how);
            let line = format!("train --quiet {words} {flags} --out {}", out.display());
            succeed_on_standins(&[], &line);
            let (found, expected) = (losses(&out), losses(&host));
            assert_eq!(found.len(), expected.len());
            for (epoch, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let error = (found.0 - expected.0).abs() / expected.0.abs();
                assert!(error <= 1e-5, "{name}, {how}, epoch {epoch}: {found:?}, {expected:?}");
                assert_eq!(found.1, expected.1, "{name}, {how}, epoch {epoch}: bytes");
            }
        }
        // Where messages go by makes no difference at all.
        assert_eq!(computed(&place("nccl")), computed(&place("each")), "{name}");
        assert_eq!(computed(&place("shared")), computed(&place("each")), "{name}");
    }
}

#[test]
fn a_run_on_a_device_goes_on_there_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, cut] = ["whole", "cut"].map(|name| folder.path().join(name));
    let words = format!("--data {GRAPH} {SETTINGS} --preset sylvie-a --device cuda");
    succeed_on_standins(&[], &format!("train --quiet {words} --out {}", whole.display()));
    let first = format!("train --quiet {words} --epochs 2 --checkpoint-every 2");
    succeed_on_standins(&[], &format!("{first} --out {}", cut.display()));
    let resume = format!("train --quiet --resume {} --epochs 4", cut.display());
    let (_, line) = fail(&resume);
    assert!(line.contains("--device cuda"), "{line}");
    succeed_on_standins(&[], &format!("{resume} --device cuda --transport nccl"));
    assert_eq!(computed(&cut), computed(&whole));
}

/// A folder with all stand-ins but one.
fn without(library: &str, folder: &Path) -> PathBuf {
    let place = folder.join(format!("without-{library}"));
    std::fs::create_dir(&place).unwrap();
    for name in ["libcuda.so", "libcublas.so", "libnccl.so", "libnvrtc.so"] {
        if name != library {
            symlink(sylvie_standins::folder().join(name), place.join(name)).unwrap();
        }
    }
    place
}

#[test]
fn an_old_driver_has_the_kernels_compiled_here_or_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let old = [("SYLVIE_STANDIN_REFUSES_PTX", "1")];
    let [new_run, old_run] = ["new", "old"].map(|name| folder.path().join(name));
    let words = format!("train --quiet --data {GRAPH} {SETTINGS} --model gat --device cuda");
    succeed_on_standins(&[], &format!("{words} --out {}", new_run.display()));
    succeed_on_standins(&old, &format!("{words} --out {}", old_run.display()));
    assert_eq!(computed(&old_run), computed(&new_run));

    let line = fail_with(&without("libnvrtc.so", folder.path()), &old, &words);
    assert!(line.contains("CUDA 12.2") && line.contains("cannot be compiled here"), "{line}");
    // Unless this machine has a real one, which compiles what the stand-in does not take.
    assert!(line.contains("libnvrtc.so") || line.contains("UNSUPPORTED_PTX"), "{line}");
    let none = [("SYLVIE_STANDIN_REFUSES_PTX", "2")];
    let line = fail_with(sylvie_standins::folder(), &none, &words);
    assert!(line.contains("UNSUPPORTED_PTX") && line.contains("a newer driver"), "{line}");
}

#[test]
fn what_is_missing_is_said_with_what_was_looked_for_and_where() {
    let folder = tempfile::tempdir().unwrap();
    let train = format!("train --data {GRAPH} {SETTINGS}");
    // A machine with a driver lists its devices here.
    if !run("info --devices").status.success() {
        for words in [
            "info --devices".to_owned(),
            format!("{train} --device cuda"),
            format!("{train} --device cuda:0,1 --transport nccl"),
        ] {
            let (_, line) = fail(&words);
            let named = ["libcuda.so", "libcuda.so.1", "LD_LIBRARY_PATH", "NVIDIA's driver"];
            assert!(named.iter().all(|word| line.contains(word)), "{words}: {line}");
        }
        for (library, flags) in
            [("libcublas.so", "--device cuda"), ("libnccl.so", "--device cuda --transport nccl")]
        {
            let line =
                fail_with(&without(library, folder.path()), &[], &format!("{train} {flags}"));
            assert!(line.contains(library) && line.contains("LD_LIBRARY_PATH"), "{line}");
        }
    }
    let standins = sylvie_standins::folder();
    for (flags, named) in [
        ("--device cuda:7", "no CUDA device 7: the driver lists 4"),
        ("--transport nccl", "add --device cuda"),
        ("--device cuda:1,1 --transport nccl", "a device of its own"),
        ("--device cuda --transport nccl --link 1Gbps", "--link models"),
        ("--device gpu", "cuda:0,1"),
    ] {
        let line = fail_with(standins, &[], &format!("{train} {flags}"));
        assert!(line.contains(named), "{flags}: {line}");
    }
}
