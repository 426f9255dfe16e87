//! `cargo xtask bench hosts`: trainings over real links between hosts that are namespaces.
//!
//! Each policy is trained by one rank a host under Open MPI, then by threads over the modelled link of
//! the same rate, then by threads without a link, which tells what the link costs. Bytes are read off
//! the interfaces, from outside.

mod testbed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use serde_json::Value;

use crate::step::Step;
use testbed::{Links, Testbed};

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct HostsArguments {
    /// Numbers of hosts.
    #[arg(long, value_delimiter = ',', default_value = "2,3,4")]
    hosts: Vec<usize>,
    /// Rate of each host's link, each way, in Mbit/s: 100mbit.
    #[arg(long, default_value = "100mbit", value_parser = mbit)]
    rate: u64,
    /// What the queue at each end of a link holds, in milliseconds of the link: where several hosts send to one
    /// at once, what does not fit is lost and sent again 0.2 s later.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    queue_ms: u32,
    /// How TCP finds its rate, by the kernel's name: cubic, reno, bbr.
    #[arg(long, default_value = "cubic")]
    congestion: String,
    /// Graph, as `sylvie train --data` takes it.
    #[arg(long, default_value = "synthetic:nodes=6000,degree=10,features=32,locality=0")]
    data: String,
    /// How nodes are assigned to parts.
    #[arg(long, default_value = "random")]
    partitioner: String,
    /// Columns between the three layers.
    #[arg(long, default_value_t = 128)]
    hidden: u32,
    /// Policies; the first is what others are compared with.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "vanilla,pipegcn,bns-gcn,sylvie-s,sylvie-a"
    )]
    policies: Vec<String>,
    /// Epochs of each run.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(2..))]
    epochs: u32,
    /// How many of them, the first, are not counted: two at least where rows are used an epoch late.
    #[arg(long, default_value_t = 5)]
    warm: u32,
    /// More flags of `sylvie train`, in one word: --train '--layers 4'.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    train: String,
    /// Only builds the program, and tries whether hosts can be made here.
    #[arg(long)]
    check: bool,
    /// Open MPI's launcher.
    #[arg(long, default_value = "mpirun.openmpi")]
    launcher: String,
    /// Writes all figures here.
    #[arg(long)]
    csv: Option<PathBuf>,
}

impl HostsArguments {
    fn links(&self) -> Links<'_> {
        Links { mbit: self.rate, queue_ms: self.queue_ms, congestion: &self.congestion }
    }
}

fn mbit(word: &str) -> Result<u64, String> {
    let number = word.strip_suffix("mbit").unwrap_or(word).parse().ok();
    number.filter(|rate| (1..=100_000).contains(rate)).ok_or_else(|| "not as in 100mbit".to_owned())
}

/// What a run says of itself.
#[derive(Clone, Copy, Debug)]
struct Figures {
    /// Median, over the epochs that count.
    epoch_s: f64,
    /// Of an epoch, over all ranks.
    halo_bytes: f64,
    reduce_bytes: f64,
    /// Of the whole run.
    all_bytes: f64,
}

/// Measures, and prints a line a run.
///
/// # Errors
/// A system that cannot have such hosts; a run that fails.
pub(crate) fn run(root: &Path, arguments: &HostsArguments) -> Result<()> {
    let HostsArguments { epochs, warm, .. } = arguments;
    ensure!(warm < epochs, "--warm {warm} leaves none of --epochs {epochs} to be counted");
    check_tools(&arguments.launcher)?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let scratch = tempfile::tempdir()?;
    if arguments.check {
        // Root is not enough in a container, which may forbid namespaces.
        drop(Testbed::up(2, &arguments.links(), scratch.path())?);
    }
    let build = "build --release --package sylvie-cli --features mpi --target-dir target/mpi";
    Step::cargo(build).run(root).context("docs/cluster.md says what to install")?;
    if arguments.check {
        return Ok(());
    }
    let bench = Bench {
        arguments,
        program: root.join("target/mpi/release/sylvie"),
        scratch: scratch.path(),
        interrupted: &interrupted,
    };
    let mut table = vec![HEADING.join(",")];
    println!(
        "{}, hidden {}; {} Mbit/s a host, queues of {} ms, {}",
        arguments.data, arguments.hidden, arguments.rate, arguments.queue_ms, arguments.congestion
    );
    println!(
        "times in ms an epoch, medians; wire: payload on the interfaces over the program's count"
    );
    println!("{}", HEADING.map(|word| format!("{word:>11}")).join(""));
    for &n_hosts in &arguments.hosts {
        bench.hosts(n_hosts, &mut table)?;
    }
    match &arguments.csv {
        Some(path) => {
            fs::write(path, table.join("\n") + "\n").with_context(|| path.display().to_string())
        }
        None => Ok(()),
    }
}

/// Checks that there is what hosts are made with.
fn check_tools(launcher: &str) -> Result<()> {
    ensure!(cfg!(target_os = "linux"), "hosts are made of Linux's namespaces, which are not here");
    let user = Command::new("id").arg("-u").output().context("id, of coreutils")?;
    ensure!(user.stdout == b"0\n", "only root may make namespaces and limit links");
    let tools = [
        ("ip", "-V", "iproute2"),
        ("tc", "-V", "iproute2"),
        ("nsenter", "--version", "util-linux"),
        ("unshare", "--version", "util-linux"),
        (launcher, "--version", "Open MPI"),
    ];
    for (tool, argument, package) in tools {
        let output = Command::new(tool).arg(argument).output();
        ensure!(output.is_ok_and(|output| output.status.success()), "no {tool}, of {package}");
    }
    Ok(())
}

const HEADING: [&str; 10] = [
    "hosts",
    "policy",
    "measured",
    "predicted",
    "ratio",
    "modelled",
    "ratio",
    "linkless",
    "speed-up",
    "wire",
];

struct Bench<'a> {
    arguments: &'a HostsArguments,
    program: PathBuf,
    scratch: &'a Path,
    interrupted: &'a AtomicBool,
}

impl Bench<'_> {
    /// Measures every policy on so many hosts.
    fn hosts(&self, n_hosts: usize, table: &mut Vec<String>) -> Result<()> {
        let HostsArguments { data, partitioner, rate, .. } = self.arguments;
        let parts = self.scratch.join(format!("parts-{n_hosts}"));
        let mut partition = Command::new(&self.program);
        partition.args(["partition", "--data", data, "--partitioner", partitioner, "--parts"]);
        partition.arg(n_hosts.to_string()).arg("--out").arg(&parts);
        self.wait(&mut partition)?;
        let mut first_s = None;
        for policy in &self.arguments.policies {
            let testbed = Testbed::up(n_hosts, &self.arguments.links(), self.scratch)?;
            let before = testbed.payload_bytes()?;
            let job = testbed.job(&self.arguments.launcher, &self.program);
            let measured = self.train(job, policy, &parts, &["--transport", "mpi"])?;
            let wire = testbed.payload_bytes()? - before;
            drop(testbed);
            let link = format!("{rate}Mbps,50us");
            let threads =
                |more: &[&str]| self.train(Command::new(&self.program), policy, &parts, more);
            let modelled = threads(&["--link", &link])?;
            let linkless = threads(&[])?;
            let predicted_s = self.predicted_s(policy, n_hosts, &linkless);
            let first_s = *first_s.get_or_insert(measured.epoch_s);
            let ms = |seconds: f64| format!("{:.1}", seconds * 1e3);
            let row = [
                n_hosts.to_string(),
                policy.clone(),
                ms(measured.epoch_s),
                ms(predicted_s),
                format!("{:.2}", measured.epoch_s / predicted_s),
                ms(modelled.epoch_s),
                format!("{:.2}", measured.epoch_s / modelled.epoch_s),
                ms(linkless.epoch_s),
                format!("{:.2}", first_s / measured.epoch_s),
                format!("{:.3}", wire as f64 / measured.all_bytes),
            ];
            println!("{}", row.each_ref().map(|word| format!("{word:>11}")).join(""));
            table.push(row.join(","));
        }
        Ok(())
    }

    /// What rate and bytes imply: transfers after computing, or beside it where rows are used an epoch
    /// late, and sums in any case. Hosts send alike.
    fn predicted_s(&self, policy: &str, n_hosts: usize, linkless: &Figures) -> f64 {
        let bytes_a_second = self.arguments.rate as f64 * 1e6 / 8.0 * n_hosts as f64;
        let halo_s = linkless.halo_bytes / bytes_a_second;
        let reduce_s = linkless.reduce_bytes / bytes_a_second;
        let is_late = ["pipegcn", "sylvie-a"].contains(&policy);
        let both_s = if is_late { linkless.epoch_s.max(halo_s) } else { linkless.epoch_s + halo_s };
        both_s + reduce_s
    }

    /// Trains on the parts and reads what the run left.
    fn train(
        &self,
        mut command: Command,
        policy: &str,
        parts: &Path,
        more: &[&str],
    ) -> Result<Figures> {
        let out = self.scratch.join("run");
        let (epochs, hidden) =
            (self.arguments.epochs.to_string(), self.arguments.hidden.to_string());
        command.args(["train", "--quiet", "--preset", policy, "--threads", "1"]).args(more);
        command.args(["--epochs", &epochs, "--eval-every", &epochs, "--hidden", &hidden]);
        command.args(self.arguments.train.split_whitespace());
        command.arg("--partition").arg(parts).arg("--out").arg(&out);
        self.wait(&mut command).with_context(|| format!("{policy} {}", more.join(" ")))?;
        let figures = Figures::read(&out, self.arguments.warm as usize);
        fs::remove_dir_all(&out)?;
        figures
    }

    /// Runs a command to its end, or until somebody interrupts.
    fn wait(&self, command: &mut Command) -> Result<()> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        loop {
            if let Some(status) = child.try_wait()? {
                ensure!(status.success(), "{status}");
                return Ok(());
            }
            if self.interrupted.load(Ordering::Relaxed) {
                let _ = child.kill();
                let _ = child.wait();
                bail!("interrupted");
            }
            sleep(Duration::from_millis(20));
        }
    }
}

impl Figures {
    /// What a run folder says.
    fn read(folder: &Path, n_warm: usize) -> Result<Self> {
        let text = fs::read_to_string(folder.join("metrics.jsonl"))?;
        let epochs = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
        let summary: Value = serde_json::from_slice(&fs::read(folder.join("summary.json"))?)?;
        Self::of(&epochs, n_warm, &summary)
    }

    /// The first `n_warm` epochs are not counted.
    fn of(epochs: &[Value], n_warm: usize, summary: &Value) -> Result<Self> {
        let number = |value: &Value, key: &str| {
            value[key].as_f64().with_context(|| format!("no figure {key} in the run folder"))
        };
        let mut times = Vec::new();
        let (mut halo_bytes, mut reduce_bytes) = (0.0, 0.0);
        for (place, epoch) in epochs.iter().enumerate() {
            halo_bytes += number(epoch, "payload_bytes")? + number(epoch, "metadata_bytes")?;
            reduce_bytes += number(epoch, "reduce_bytes")?;
            if place >= n_warm {
                times.push(number(epoch, "epoch_ms")? / 1e3);
            }
        }
        ensure!(!times.is_empty(), "{} epochs, of which none counts", epochs.len());
        times.sort_by(f64::total_cmp);
        let apart = number(summary, "eval_bytes")? + number(summary, "setup_bytes")?;
        let n_epochs = epochs.len() as f64;
        Ok(Self {
            epoch_s: times[times.len() / 2],
            halo_bytes: halo_bytes / n_epochs,
            reduce_bytes: reduce_bytes / n_epochs,
            all_bytes: halo_bytes + reduce_bytes + apart,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rates_are_read_as_tc_writes_them() {
        assert_eq!(mbit("100mbit"), Ok(100));
        assert_eq!(mbit("25"), Ok(25));
        assert!(mbit("0mbit").is_err() && mbit("1gbit").is_err());
    }

    #[test]
    fn warm_up_does_not_count_and_bytes_do() {
        let epoch = |ms: f64| json!({"epoch_ms": ms, "payload_bytes": 90, "metadata_bytes": 10, "reduce_bytes": 7});
        let epochs: Vec<Value> = (0..8).map(|at| epoch(if at < 5 { 900.0 } else { 2.0 })).collect();
        let summary = json!({"eval_bytes": 40, "setup_bytes": 4});
        let figures = Figures::of(&epochs, 5, &summary).unwrap();
        assert_eq!(figures.epoch_s, 0.002);
        assert_eq!((figures.halo_bytes, figures.reduce_bytes), (100.0, 7.0));
        assert_eq!(figures.all_bytes, 900.0);
        assert!(Figures::of(&epochs[..3], 5, &summary).is_err());
        assert!(Figures::of(&epochs[..3], 2, &summary).is_ok());
        assert!(Figures::of(&epochs, 5, &json!({})).is_err());
    }
}
