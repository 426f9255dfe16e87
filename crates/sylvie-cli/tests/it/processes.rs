//! Ranks that are processes: jobs under the launcher that `SYLVIE_MPI_LAUNCHER` names.
//!
//! `cargo xtask mpi-test` runs these. A launcher's status is not believed: what a job left is looked at.

use std::env;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use sylvie::random::{Coordinates, Sequence, Stream};

use crate::devices::library_path;
use crate::program::{GRAPH, computed, objects, succeed, summary, train};

const SETTINGS: &str = "--hidden 16 --eval-every 2";
/// Longest that a job may take which is to end by itself.
const LIMIT: Duration = Duration::from_secs(60);

/// Starts a job of so many ranks; words are separated by spaces.
fn start(n_ranks: u32, words: &str) -> Child {
    let mut command = launcher();
    command.args(["-n", &n_ranks.to_string(), env!("CARGO_BIN_EXE_sylvie")]);
    command.args(words.split_whitespace());
    if !words.contains("--transport") {
        command.args(["--transport", "mpi"]);
    }
    if words.contains("--device cuda") {
        command.env("LD_LIBRARY_PATH", library_path(sylvie_standins::folder()));
        command.env("SYLVIE_STANDIN_NCCL", "processes");
    }
    command.spawn().expect("the launcher starts")
}

/// The launcher, with what it must be told on this machine.
fn launcher() -> Command {
    let launcher = env::var("SYLVIE_MPI_LAUNCHER").unwrap_or_else(|_| "mpirun".to_owned());
    let version = Command::new(&launcher).arg("--version").output();
    let version =
        version.unwrap_or_else(|error| panic!("{launcher}: {error}; see docs/cluster.md"));
    let mut command = Command::new(launcher);
    let version = String::from_utf8_lossy(&version.stdout);
    if ["Open MPI", "OpenRTE"].iter().any(|name| version.contains(name)) {
        command.args(["--oversubscribe", "--bind-to", "none"]);
    }
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits for a job's end, which must come.
#[track_caller]
fn wait(mut job: Child, limit: Duration) -> Output {
    let start = Instant::now();
    while job.try_wait().expect("a child").is_none() {
        if start.elapsed() > limit {
            let _ = job.kill();
            let mut said = String::new();
            let _ = job.stderr.take().map(|mut text| text.read_to_string(&mut said));
            panic!("not over after {limit:?}: {said}");
        }
        sleep(Duration::from_millis(10));
    }
    job.wait_with_output().expect("a child")
}

#[track_caller]
fn run_job(n_ranks: u32, words: &str) {
    let output = wait(start(n_ranks, words), LIMIT);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {said}");
}

/// Runs a job that must fail, and gives what was said.
#[track_caller]
fn fail_job(n_ranks: u32, words: &str) -> String {
    let output = wait(start(n_ranks, words), LIMIT);
    assert!(!output.status.success(), "{words}: succeeded");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a run computed, and the model.
fn left(folder: &Path) -> (Vec<Vec<serde_json::Value>>, Vec<u8>) {
    (computed(folder), fs::read(folder.join("model.safetensors")).expect("a model"))
}

/// Processes of ranks whose command line has these words.
fn ranks_with(words: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc") {
        let name = entry.expect("an entry").file_name().into_string().unwrap_or_default();
        let Ok(id) = name.parse() else { continue };
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.starts_with(env!("CARGO_BIN_EXE_sylvie")) && line.contains(words) {
            found.push(id);
        }
    }
    found.sort_unstable();
    found
}

fn signal(name: &str, process: u32) {
    let status = Command::new("kill").args(["-s", name, &process.to_string()]).status();
    assert!(status.expect("kill").success());
}

/// Waits until a run has written so many epochs.
fn wait_for_epochs(folder: &Path, n_epochs: usize) {
    let metrics = folder.join("metrics.jsonl");
    let start = Instant::now();
    while fs::read_to_string(&metrics).map_or(0, |text| text.lines().count()) < n_epochs {
        assert!(start.elapsed() < LIMIT, "no {n_epochs} epochs");
        sleep(Duration::from_millis(2));
    }
}

#[test]
fn processes_give_the_bits_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    // From a file, where one rank alone may have a bound too.
    let bounded = folder.path().join("bounded.toml");
    fs::write(&bounded, "preset = 'sylvie-a'\nstaleness = 3\n").unwrap();
    let bounded = format!("--config {}", bounded.display());
    for n_ranks in 1..=4 {
        for (model, heads) in [("gcn", ""), ("sage", ""), ("gat", "--heads 2")] {
            for (name, policy) in
                [("s", "--preset sylvie-s"), ("a", "--preset sylvie-a"), ("e", bounded.as_str())]
            {
                let place = |how| folder.path().join(format!("{how}{n_ranks}-{model}-{name}"));
                let (threads, processes) = (place("t"), place("p"));
                let words = format!(
                    "--data {GRAPH} --model {model} {heads} {policy} --epochs 10 --parts {n_ranks}"
                );
                train(&threads, &words);
                let out = processes.display();
                run_job(n_ranks, &format!("train {SETTINGS} {words} --out {out}"));
                assert_eq!(left(&processes), left(&threads), "{n_ranks} ranks, {model}, {policy}");
            }
        }
    }
}

#[test]
fn each_rank_reads_its_own_part() {
    let folder = tempfile::tempdir().unwrap();
    let [parts, threads, processes] =
        ["parts", "threads", "processes"].map(|name| folder.path().join(name));
    let dir = parts.display();
    succeed(&format!("partition --data {GRAPH} --parts 3 --inductive --out {dir}"));
    train(&threads, &format!("--partition {dir} --epochs 6"));
    let out = processes.display();
    run_job(3, &format!("train {SETTINGS} --epochs 6 --partition {dir} --out {out}"));
    assert_eq!(left(&processes), left(&threads));

    let said = fail_job(2, &format!("train --partition {dir}"));
    assert!(said.contains("has 3 parts, but there are 2 ranks"), "{said}");
    let said = fail_job(2, &format!("train --data {GRAPH} --parts 3"));
    assert!(said.contains("--parts 3 needs 3 ranks, but there are 2"), "{said}");
    let said = fail_job(2, &format!("train --data {GRAPH} --link 1Gbps"));
    assert!(said.contains("--link models"), "{said}");
    let path = parts.join("part-0002.safetensors");
    let mut bytes = fs::read(&path).expect("the file of part 2");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&path, bytes).unwrap();
    let said = fail_job(3, &format!("train --partition {dir}"));
    assert!(said.contains("rank 2") && said.contains("part-0002.safetensors"), "{said}");
    assert_eq!(said.matches("error:").count(), 1, "one rank says it: {said}");
}

#[test]
fn a_run_goes_on_between_threads_and_processes() {
    let folder = tempfile::tempdir().unwrap();
    let words =
        format!("--data {GRAPH} --preset sylvie-a --parts 3 {SETTINGS} --checkpoint-every 2");
    let whole = folder.path().join("whole");
    train(&whole, &format!("{words} --epochs 8"));
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    train(&first, &format!("{words} --epochs 4"));
    run_job(3, &format!("train --resume {} --epochs 8", first.display()));
    assert_eq!(left(&first), left(&whole));
    run_job(3, &format!("train {words} --epochs 4 --out {}", second.display()));
    succeed(&format!("train --quiet --resume {} --epochs 8", second.display()));
    assert_eq!(left(&second), left(&whole));
}

/// A kill: the rank, the epochs after which it comes, and how long after them.
fn draw(seed: u64, number: u32, n_ranks: u32) -> (usize, usize, Duration) {
    let mut draws = Sequence::new(Coordinates::new(seed, Stream::Split).family(), number);
    let (rank, n_epochs) = (draws.below(n_ranks), 1 + draws.below(12));
    (rank as usize, n_epochs as usize, Duration::from_micros(draws.below(20_000).into()))
}

/// Epochs of the newest whole checkpoint.
fn n_kept(folder: &Path) -> Option<usize> {
    let entries = fs::read_dir(folder.join("checkpoints")).ok()?;
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    names.filter_map(|name| name.to_str()?.strip_prefix("epoch-")?.parse().ok()).max()
}

/// Twenty with SYLVIE_KILLS=20; SYLVIE_KILL_SEED draws others.
#[test]
fn a_killed_rank_ends_the_job_and_the_run_goes_on_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let number =
        |name, default| env::var(name).map_or(default, |count| count.parse().expect("a number"));
    let (n_kills, seed) = (number("SYLVIE_KILLS", 4) as u32, number("SYLVIE_KILL_SEED", 1));
    for kill in 0..n_kills {
        let (name, policy) =
            [("sync", "--preset sylvie-s"), ("async", "--preset sylvie-a")][kill as usize % 2];
        let words = format!("--data {GRAPH} {policy} --parts 3 {SETTINGS} --checkpoint-every 2");
        let whole_of = |n_epochs: usize| {
            let whole = folder.path().join(format!("{name}-whole-{n_epochs}"));
            if !whole.exists() {
                train(&whole, &format!("{words} --epochs {n_epochs}"));
            }
            whole
        };
        let (rank, n_epochs, delay) = draw(seed, kill, 3);
        let what = format!("seed {seed}, kill {kill}: rank {rank}, epoch {n_epochs} and {delay:?}");
        let out = folder.path().join(format!("{name}-{kill}"));
        let job = start(3, &format!("train {words} --epochs 100000 --out {}", out.display()));
        wait_for_epochs(&out, n_epochs);
        sleep(delay);
        let ranks = ranks_with(&out.display().to_string());
        assert_eq!(ranks.len(), 3, "{what}");
        signal("KILL", ranks[rank]);
        assert!(!wait(job, LIMIT).status.success(), "{what}: a rank is gone");
        assert!(ranks_with(&out.display().to_string()).is_empty(), "{what}: all ranks have ended");
        let resume = format!("train --resume {}", out.display());
        let Some(n_kept) = n_kept(&out) else {
            let said = fail_job(3, &resume);
            assert!(said.contains("no checkpoint"), "{what}: {said}");
            continue;
        };
        // Beyond where the job had got to, however fast it was.
        let n_epochs = (n_kept + 2).max(60);
        let resume = format!("{resume} --epochs {n_epochs}");
        if kill % 4 < 2 {
            run_job(3, &resume);
        } else {
            succeed(&format!("{resume} --quiet"));
        }
        assert_eq!(left(&out), left(&whole_of(n_epochs)), "{what}");
    }
}

#[test]
fn a_signal_to_one_rank_ends_the_job_after_its_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let words = format!("train --data {GRAPH} {SETTINGS} --epochs 1000000 --out {}", out.display());
    let job = start(3, &words);
    wait_for_epochs(&out, 3);
    signal("TERM", ranks_with(&out.display().to_string())[1]);
    let output = wait(job, LIMIT);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("--resume"), "{said}");
    let n_done = computed(&out).len();
    let path = out.join(format!("checkpoints/epoch-{n_done:06}/rank-00002.safetensors"));
    assert!(path.is_file(), "{}", path.display());
    assert!(!out.join("summary.json").exists(), "the run is not over");
    run_job(3, &format!("train --resume {} --epochs {}", out.display(), n_done + 2));
    assert_eq!(summary(&out)["epochs"], n_done + 2);
}

#[test]
fn a_rank_that_stands_still_or_fails_ends_the_job_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let words = format!("train --data {GRAPH} {SETTINGS} --epochs 1000000 --out {}", out.display());
    let job = start(3, &format!("{words} --timeout 2"));
    wait_for_epochs(&out, 3);
    let ranks = ranks_with(&out.display().to_string());
    signal("STOP", ranks[1]);
    let output = wait(job, Duration::from_secs(30));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("in vain for rank 1"), "{said}");
    assert!(said.contains("epoch"), "{said}");

    let said = fail_job(2, &format!("train --data {GRAPH} --lr 1e30 --norm none"));
    assert!(said.contains("error: rank ") && said.contains("epoch"), "{said}");
}

/// The launcher of another library starts processes that do not find each other.
#[test]
fn ranks_that_are_alone_though_several_were_started_are_no_job() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sylvie"));
    command.args(["train", "--transport", "mpi", "--data", GRAPH, "--epochs", "1", "--quiet"]);
    command.env("SLURM_PROCID", "0").env("SLURM_STEP_NUM_TASKS", "3");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = wait(command.spawn().expect("the program starts"), LIMIT);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("3 processes were started"), "{said}");
}

#[test]
fn what_is_wrong_with_a_command_line_is_said_once() {
    for words in ["train --bits 3", "train --epochs 0", "train --colour red"] {
        let said = fail_job(3, words);
        assert_eq!(said.matches("error:").count(), 1, "{words}: {said}");
    }
}

#[test]
fn a_run_folder_that_hosts_do_not_share_is_noticed_before_the_first_epoch() {
    let folder = tempfile::tempdir().unwrap();
    // Hosts that have different folders at one path are made of working directories.
    let hosts = ["a", "b"].map(|name| folder.path().join(name));
    hosts.iter().for_each(|host| fs::create_dir(host).unwrap());
    let run_in = |words: &str| {
        let mut command = launcher();
        for (number, host) in hosts.iter().enumerate() {
            if number > 0 {
                command.arg(":");
            }
            command.args(["-n", "1", "-wdir"]).arg(host).arg(env!("CARGO_BIN_EXE_sylvie"));
            let settings = format!("train --data {GRAPH} {SETTINGS} --epochs 2 --out run");
            command.args(settings.split(' ')).args(["--transport", "mpi"]).args(words.split(' '));
        }
        wait(command.spawn().expect("the launcher starts"), LIMIT)
    };
    let output = run_in("--checkpoint-every 1");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("rank 1 does not find"), "{said}");
    assert_eq!(said.matches("error:").count(), 1, "{said}");
    assert!(!hosts[0].join("run").exists(), "nothing is left of it");
    // Without checkpoints rank 0 alone writes there.
    let output = run_in("--json");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("warning: run: rank 1"), "{said}");
    assert!(hosts[0].join("run/summary.json").exists() && !hosts[1].join("run").exists());
    assert!(!hosts[0].join("run/.sylvie-shared").exists());
}

#[test]
fn the_trace_of_all_ranks_is_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json");
    run_job(3, &format!("train --data {GRAPH} {SETTINGS} --epochs 3 --trace {}", trace.display()));
    let text = fs::read_to_string(&trace).expect("a trace");
    let events = objects(&text.replace('\n', ""))[0]["traceEvents"].clone();
    let events = events.as_array().expect("a list");
    for rank in 0..3 {
        for name in ["process_name", "loss", "encode forward 1"] {
            let is_it = |event: &&serde_json::Value| event["pid"] == rank && event["name"] == name;
            let n_least = if name == "loss" { 3 } else { 1 };
            assert!(events.iter().filter(is_it).count() >= n_least, "rank {rank}: {name}");
        }
    }
    let times: Vec<_> = events.iter().filter_map(|event| event["ts"].as_f64()).collect();
    assert!(times.is_sorted(), "in the order of time");
}

#[test]
fn processes_on_devices_give_the_bits_of_threads_on_devices() {
    let folder = tempfile::tempdir().unwrap();
    let words =
        format!("train --data {GRAPH} {SETTINGS} --epochs 3 --preset sylvie-a --device cuda");
    let run = |transport: &str| {
        let out = folder.path().join(transport);
        run_job(2, &format!("{words} --transport {transport} --out {}", out.display()));
        left(&out)
    };
    let (mpi, nccl) = (run("mpi"), run("nccl"));
    assert_eq!(mpi, nccl);
    let out = folder.path().join("threads");
    crate::devices::succeed_on_standins(
        &[],
        &format!("{words} --quiet --parts 2 --out {}", out.display()),
    );
    assert_eq!(left(&out), mpi);
    let said = fail_job(2, &format!("{words}:1 --transport nccl"));
    assert!(said.contains("ranks 0 and 1 have the same"), "{said}");
    assert_eq!(said.matches("error:").count(), 1, "{said}");
    let said = fail_job(2, &format!("{words}:9 --transport mpi"));
    assert!(said.contains("no CUDA device 9"), "{said}");
    assert_eq!(said.matches("error:").count(), 1, "{said}");
}
