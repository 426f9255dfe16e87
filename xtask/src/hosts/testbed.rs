//! Several hosts on one machine: namespaces joined by a switch, each by a link of limited rate.
//!
//! A host has network, name, processes, shared memory and mounts of its own. Its first process holds it;
//! killing that ends all others on the host. `eth0` is the link that is limited and counted, `eth1` a
//! free one by which the launcher reaches the host. The switch is a namespace too: nothing is put into
//! the machine's own network, and nothing can leave.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// What names of namespaces begin with.
const PREFIX: &str = "sylvie-host-";
const SWITCH: &str = "sylvie-host-switch";
/// Ethernet, IP and TCP with timestamps; what is left of a packet is its payload.
const HEADER_BYTES: u64 = 66;

/// A namespace with a process that holds it.
struct Held {
    name: String,
    holder: Child,
    /// The first process in the namespace.
    inside: u32,
}

/// What hosts are joined by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links<'a> {
    /// Of each host's link, each way.
    pub(crate) mbit: u64,
    /// What the queue at each end of a link holds, in milliseconds of the link.
    pub(crate) queue_ms: u32,
    /// How TCP finds its rate.
    pub(crate) congestion: &'a str,
}

/// Hosts that can be reached until this value is dropped.
pub(crate) struct Testbed {
    switch: Held,
    hosts: Vec<Held>,
    agent: PathBuf,
}

impl Drop for Testbed {
    fn drop(&mut self) {
        for held in self.hosts.iter_mut().chain([&mut self.switch]) {
            // With the holder everything in it ends. What cannot be removed is removed by the next run.
            let _ = held.holder.kill();
            let _ = held.holder.wait();
            let _ = ip(&format!("netns del {}", held.name));
        }
    }
}

impl Testbed {
    /// Makes hosts. Files go into `scratch`.
    ///
    /// # Errors
    /// What the system's commands say, as that this user is not root.
    pub(crate) fn up(n_hosts: usize, links: &Links<'_>, scratch: &Path) -> Result<Self> {
        remove_old()?;
        let names: Vec<String> = (1..=n_hosts).map(|host| format!("{PREFIX}{host}")).collect();
        let mut list = "127.0.0.1 localhost\n".to_owned() + &format!("10.77.1.254 {SWITCH}\n");
        for (name, number) in names.iter().zip(1..) {
            list += &format!("10.77.0.{number} {name}\n");
        }
        let names_file = scratch.join("hosts");
        fs::write(&names_file, list)?;
        let Links { mbit, queue_ms, congestion } = *links;
        let switch = hold(SWITCH, &names_file)?;
        let mut testbed = Self { switch, hosts: Vec::new(), agent: scratch.join("agent") };
        for link in ["data", "control"] {
            ip(&format!("-n {SWITCH} link add {link} type bridge mcast_snooping 0"))?;
            ip(&format!("-n {SWITCH} link set {link} up"))?;
        }
        ip(&format!("-n {SWITCH} link set lo up"))?;
        ip(&format!("-n {SWITCH} addr add 10.77.1.254/24 dev control"))?;
        for (name, number) in names.iter().zip(1..) {
            testbed.hosts.push(hold(name, &names_file)?);
            ip(&format!("-n {name} link set lo up"))?;
            for (link, inner, net) in [("data", "eth0", 0), ("control", "eth1", 1)] {
                let outer = format!("{link}{number}");
                ip(&format!(
                    "-n {SWITCH} link add {outer} type veth peer name {inner} netns {name}"
                ))?;
                ip(&format!("-n {SWITCH} link set {outer} master {link} up"))?;
                ip(&format!("-n {name} addr add 10.77.{net}.{number}/24 dev {inner}"))?;
                ip(&format!("-n {name} link set {inner} up"))?;
            }
            // By the route: which are allowed to be a namespace's default is the machine's choice.
            ip(&format!(
                "-n {name} route replace 10.77.0.0/24 dev eth0 src 10.77.0.{number} congctl {congestion}"
            ))?;
            // A queue limits what leaves a device: one at each end of the link.
            limit(SWITCH, &format!("data{number}"), mbit, queue_ms)?;
            limit(name, "eth0", mbit, queue_ms)?;
        }
        testbed.write_agent()?;
        Ok(testbed)
    }

    /// What the launcher calls instead of ssh.
    fn write_agent(&self) -> Result<()> {
        let mut text =
            "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1; shift\n\
                        case \"$host\" in\n"
                .to_owned();
        for (host, number) in self.hosts.iter().zip(1..) {
            text += &format!("10.77.1.{number}|{}) pid={};;\n", host.name, host.inside);
        }
        text += "*) echo \"no such host: $host\" >&2; exit 1;;\nesac\n\
                 exec nsenter -t \"$pid\" -u -i -n -m -p -- sh -c \"$*\"\n";
        fs::write(&self.agent, text)?;
        fs::set_permissions(&self.agent, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// A command that starts `program` on every host, a rank each, by Open MPI 4's launcher.
    pub(crate) fn job(&self, launcher: &str, program: &Path) -> Command {
        let hosts: Vec<String> =
            (1..=self.hosts.len()).map(|host| format!("10.77.1.{host}:1")).collect();
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.switch.inside.to_string(), "-u", "-n", "--", launcher]);
        command.args(["--mca", "plm", "rsh", "--mca", "plm_rsh_agent"]).arg(&self.agent);
        command
            .args("--mca orte_keep_fqdn_hostnames 1 --mca pml ob1 --mca btl tcp,self".split(' '));
        command.args("--mca btl_tcp_if_include 10.77.0.0/24".split(' '));
        command
            .args("--mca oob_tcp_if_include 10.77.1.0/24 --bind-to none --map-by slot".split(' '));
        command.args(["--host", &hosts.join(","), "-n", &hosts.len().to_string()]).arg(program);
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
    }

    /// TCP payload that all hosts have sent so far, counted at the switch, behind the receivers' queues:
    /// what is dropped there and sent again counts once.
    ///
    /// # Errors
    /// What `ip` says.
    pub(crate) fn payload_bytes(&self) -> Result<u64> {
        let text = output("ip", &format!("-n {SWITCH} -s -j link show"))?;
        payload_in(&text)
    }
}

/// The payload in the counters of `ip -s -j link show`.
fn payload_in(text: &str) -> Result<u64> {
    let links: Vec<Value> = serde_json::from_str(text).context("ip -j: no JSON")?;
    let mut sum = 0;
    for link in &links {
        let name = link["ifname"].as_str().unwrap_or_default();
        if name.strip_prefix("data").is_some_and(|number| !number.is_empty()) {
            let count = |what: &str| link["stats64"]["tx"][what].as_u64();
            let bytes = count("bytes").context("ip -j: no counters")?;
            let packets = count("packets").context("ip -j: no counters")?;
            sum += bytes.saturating_sub(HEADER_BYTES * packets);
        }
    }
    Ok(sum)
}

/// Removes namespaces that a run left which was killed.
fn remove_old() -> Result<()> {
    for line in output("ip", "netns list")?.lines() {
        if let Some(name) = line.split_whitespace().next().filter(|name| name.starts_with(PREFIX)) {
            let processes = output("ip", &format!("netns pids {name}"))?;
            for process in processes.split_whitespace() {
                let _ = Command::new("kill").args(["-9", process]).status();
            }
            ip(&format!("netns del {name}"))?;
        }
    }
    Ok(())
}

/// Makes a namespace and the process that holds it.
fn hold(name: &str, names_file: &Path) -> Result<Held> {
    ip(&format!("netns add {name}"))?;
    let held = hold_added(name, names_file);
    if held.is_err() {
        // The first reason is the one to be told.
        let _ = ip(&format!("netns del {name}"));
    }
    held
}

fn hold_added(name: &str, names_file: &Path) -> Result<Held> {
    let script = format!(
        "hostname {name} && mount -t tmpfs -o size=256m tmpfs /dev/shm && mount --bind '{}' /etc/hosts && \
         echo up && exec sleep 86400",
        names_file.display()
    );
    let mut command = Command::new("ip");
    command.args(format!("netns exec {name} unshare --uts --ipc --mount --pid").split(' '));
    command.args(["--fork", "--kill-child", "--mount-proc", "sh", "-c", &script]);
    // In a group of its own, so that Ctrl-C reaches the job and not the hosts.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let mut holder = command.spawn().context("ip, of iproute2")?;
    let mut line = String::new();
    let stdout = holder.stdout.take().context("a pipe")?;
    BufReader::new(stdout).read_line(&mut line)?;
    ensure!(line == "up\n", "{name} does not come up: root is needed, and util-linux");
    let children = format!("/proc/{0}/task/{0}/children", holder.id());
    let inside = fs::read_to_string(&children).with_context(|| children.clone())?;
    let inside = inside.trim().parse().with_context(|| format!("{children}: {inside}"))?;
    Ok(Held { name: name.to_owned(), holder, inside })
}

/// Limits what leaves a device. The bucket holds 0.5 ms, and three packets at least: what it holds passes at once after a pause, which
/// small messages would gain by. Packets that the sender has put together are taken apart to fit.
fn limit(namespace: &str, device: &str, mbit: u64, queue_ms: u32) -> Result<()> {
    let burst = (mbit * 63).max(5_000);
    let line = format!(
        "netns exec {namespace} tc qdisc replace dev {device} root tbf rate {mbit}mbit burst {burst} \
         latency {queue_ms}ms"
    );
    ip(&line)
}

fn ip(line: &str) -> Result<()> {
    output("ip", line).map(drop)
}

fn output(program: &str, line: &str) -> Result<String> {
    let output = Command::new(program).args(line.split_whitespace()).output();
    let output = output.with_context(|| format!("{program}, of iproute2"))?;
    if !output.status.success() {
        bail!("{program} {line}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::payload_in;

    #[test]
    fn payload_is_bytes_less_headers_of_the_limited_links() {
        let text = r#"[{"ifname": "data1", "stats64": {"tx": {"bytes": 1066, "packets": 1}}},
                       {"ifname": "data2", "stats64": {"tx": {"bytes": 666, "packets": 10}}},
                       {"ifname": "data", "stats64": {"tx": {"bytes": 9000, "packets": 1}}},
                       {"ifname": "control1", "stats64": {"tx": {"bytes": 9000, "packets": 1}}}]"#;
        assert_eq!(payload_in(text).unwrap(), 1006);
        assert!(payload_in("{").is_err());
    }
}
