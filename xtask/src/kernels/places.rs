//! Where CUDA's tools may lie, and how they come from PyPI.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Variables that name a toolkit's folder.
const TOOLKITS: [&str; 3] = ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"];

/// The environment that `--fetch` fills.
fn own_environment(root: &Path) -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("kernels-venv")
}

/// Installs packages from PyPI into an environment of their own, without what they depend on.
///
/// # Errors
/// There is no python3 with venv, or pip fails.
pub(crate) fn fetch(root: &Path, packages: &[&str]) -> Result<()> {
    let environment = own_environment(root);
    let python = environment.join("bin/python");
    if !python.is_file() {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    }
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    succeed(pip.args(packages))
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

fn toolkits() -> Vec<PathBuf> {
    let named = TOOLKITS.iter().filter_map(env::var_os).map(PathBuf::from);
    named.chain(["/usr/local/cuda", "/opt/cuda"].map(PathBuf::from)).collect()
}

/// Folders of Python packages: those of `--fetch`, of the active environment, of python3.
fn site_packages(root: &Path) -> Vec<PathBuf> {
    let environments = [Some(own_environment(root)), env::var_os("VIRTUAL_ENV").map(PathBuf::from)];
    let mut folders = Vec::new();
    for environment in environments.into_iter().flatten() {
        folders.extend(
            entries(&environment.join("lib"))
                .into_iter()
                .map(|python| python.join("site-packages")),
        );
    }
    let question = "import sysconfig; print(sysconfig.get_path('purelib')); print(sysconfig.get_path('platlib'))";
    if let Ok(output) = Command::new("python3").args(["-c", question]).output() {
        folders.extend(String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from));
    }
    folders
}

/// Every libnvrtc.so that can be found, the likeliest first.
pub(crate) fn libraries(root: &Path) -> Vec<PathBuf> {
    let named = env::var_os("SYLVIE_NVRTC").map(PathBuf::from);
    let packages = site_packages(root).into_iter().flat_map(|folder| {
        ["nvidia/cuda_nvrtc/lib", "nvidia/cu13/lib"].map(|inside| folder.join(inside))
    });
    let toolkits = toolkits()
        .into_iter()
        .flat_map(|folder| ["lib64", "lib"].map(|inside| folder.join(inside)));
    let files = packages.chain(toolkits).flat_map(|folder| entries(&folder));
    let libraries =
        files.filter(|path| path.file_name().is_some_and(|name| is_nvrtc(&name.to_string_lossy())));
    named.into_iter().chain(libraries).collect()
}

/// `libnvrtc.so` with or without a version; not its built-ins, nor its alternative build.
fn is_nvrtc(name: &str) -> bool {
    name == "libnvrtc.so" || name.starts_with("libnvrtc.so.")
}

/// Every nvcc that can be found.
pub(crate) fn nvccs() -> Vec<PathBuf> {
    programs("nvcc", "SYLVIE_NVCC", &[])
}

/// Every ptxas that can be found; packages have it too.
pub(crate) fn assemblers(root: &Path) -> Vec<PathBuf> {
    let packages = site_packages(root);
    let inside = packages.iter().flat_map(|folder| {
        ["nvidia/cuda_nvcc/bin", "nvidia/cu13/bin"].map(|inside| folder.join(inside))
    });
    programs("ptxas", "SYLVIE_PTXAS", &inside.collect::<Vec<_>>())
}

fn programs(name: &str, variable: &str, folders: &[PathBuf]) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let toolkits = toolkits().into_iter().map(|folder| folder.join("bin"));
    let folders = folders.iter().cloned().chain(toolkits).chain(env::split_paths(&path));
    let files = folders.map(|folder| folder.join(name));
    env::var_os(variable)
        .map(PathBuf::from)
        .into_iter()
        .chain(files)
        .filter(|p| p.is_file())
        .collect()
}

/// What lies in a folder, sorted; nothing if it is not there.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    paths.sort();
    paths
}

#[test]
fn libraries_are_told_by_their_names() {
    assert!(is_nvrtc("libnvrtc.so") && is_nvrtc("libnvrtc.so.12"));
    assert!(!is_nvrtc("libnvrtc-builtins.so.12.2") && !is_nvrtc("libnvrtc.alt.so.12"));
}
