//! Checks of a CUDA device: `cargo xtask device-check`.
//!
//! Everything is one program, that it may be built elsewhere and carried to the machine: the suite that
//! every backend passes, speeds against what the device copies and multiplies, runs on host and device
//! compared, two ranks that share the device, and NCCL with one rank. With `--standins` it runs on the
//! emulated device, where its figures mean nothing, and what it says of right and wrong does.

mod speeds;
mod training;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use sylvie::cuda::{CudaBackend, Device, OnDevice, Staged, devices};
use sylvie_conformance::backend;

#[derive(Debug, Args)]
pub(crate) struct DevicesArguments {
    /// Number of the device.
    #[arg(long, default_value_t = 0)]
    device: usize,
    /// On the emulated device, with small sizes.
    #[arg(long)]
    standins: bool,
    /// File for all results, as JSON; replaced if it is there.
    #[arg(long, default_value = "device-check.json")]
    out: PathBuf,
}

/// One thing that was looked at.
#[derive(Debug)]
pub(crate) struct Finding {
    name: String,
    /// Whether it holds; a figure always does.
    holds: bool,
    /// What was found, in words.
    text: String,
    /// The same for programs.
    value: Value,
}

impl Finding {
    pub(crate) fn new(
        name: impl Into<String>,
        holds: bool,
        text: impl Into<String>,
        value: Value,
    ) -> Self {
        Self { name: name.into(), holds, text: text.into(), value }
    }
}

/// Checks the device, prints a table, and writes all results.
///
/// # Errors
/// No device; a file that cannot be written; any check that does not hold.
pub(crate) fn check(arguments: &DevicesArguments) -> Result<()> {
    if arguments.standins {
        sylvie_standins::install();
    }
    let start = Instant::now();
    let all = devices().context("no CUDA device to check")?;
    let info = all.get(arguments.device).context("no device of that number")?;
    let (major, minor) = info.capability;
    println!("{}: {}, compute capability {major}.{minor}", arguments.device, info.name);
    let mut findings = Vec::new();
    let device = Device::open(arguments.device)?;
    let backend = CudaBackend::<Staged>::on(device.clone())?;
    findings.extend(conformance(&backend, &CudaBackend::<OnDevice>::on(device)?));
    findings.extend(speeds::measure(&backend, arguments.standins)?);
    findings.extend(training::compare(&backend, arguments.standins)?);
    let seconds = start.elapsed().as_secs_f64();
    let is_good = findings.iter().all(|finding| finding.holds);
    for finding in &findings {
        let mark = if finding.holds { "ok  " } else { "BAD " };
        println!("{mark} {:<44} {}", finding.name, finding.text);
    }
    let results: Vec<Value> = findings
        .iter()
        .map(|f| json!({ "name": f.name, "holds": f.holds, "text": f.text, "value": f.value }))
        .collect();
    let record = json!({
        "device": info.name,
        "capability": [major, minor],
        "memory_bytes": info.memory_bytes,
        "driver": sylvie::cuda::driver_version()?,
        "emulated": arguments.standins,
        "seconds": seconds,
        "passed": is_good,
        "results": results,
    });
    fs::write(&arguments.out, serde_json::to_string_pretty(&record)?)
        .with_context(|| arguments.out.display().to_string())?;
    println!(
        "{} checks in {seconds:.1} s; all results in {}",
        findings.len(),
        arguments.out.display()
    );
    ensure!(is_good, "the device does not pass");
    Ok(())
}

/// Every suite, each by itself, so that one that fails hides no other.
fn conformance(staged: &CudaBackend<Staged>, on_device: &CudaBackend<OnDevice>) -> Vec<Finding> {
    let suites: [(&str, &dyn Fn()); 12] = [
        ("dense products", &|| backend::dense_products(staged)),
        ("sparse products", &|| backend::sparse_products(staged)),
        ("aggregation", &|| backend::aggregation(staged)),
        ("rows moved and summed", &|| backend::rows_moved_and_summed(staged)),
        ("LayerNorm", &|| backend::layer_norm(staged)),
        ("dropout, bit for bit", &|| backend::dropout(staged)),
        ("attention", &|| backend::attention(staged)),
        ("losses", &|| backend::losses(staged)),
        ("Adam", &|| backend::adam(staged)),
        ("bytes of the codec, staged", &|| backend::bytes_of_the_codec(staged)),
        ("bytes of the codec, on the device", &|| backend::bytes_of_the_codec(on_device)),
        ("bad rows and messages", &|| backend::bad_messages(on_device)),
    ];
    let judge = |(name, suite): (&str, &dyn Fn())| {
        let failure = catch_unwind(AssertUnwindSafe(suite)).err().map(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
                .unwrap_or_default()
        });
        let text = failure.clone().unwrap_or_else(|| "as on the host".to_owned());
        Finding::new(format!("suite: {name}"), failure.is_none(), text, json!(failure))
    };
    suites.into_iter().map(judge).collect()
}
