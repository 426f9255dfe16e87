//! A compiler of CUDA sources: NVRTC, or else nvcc.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::PINNED;
use super::nvrtc::Nvrtc;
use super::places;
use super::source::{ARCHITECTURE, OPTIONS, Source};

/// A compiler that was found.
pub(crate) enum Compiler {
    /// NVIDIA's library for run-time compilation.
    Nvrtc { library: Nvrtc, path: PathBuf },
    /// NVIDIA's compiler driver, and its version.
    Nvcc { path: PathBuf, version: String },
}

impl Compiler {
    /// The pinned NVRTC if there is one; else, unless `is_pinned`, any other, or nvcc.
    ///
    /// # Errors
    /// There is none; what was looked for is said.
    pub(crate) fn find(root: &Path, is_pinned: bool) -> Result<Self> {
        let mut others = Vec::new();
        for path in places::libraries(root) {
            let Ok(library) = Nvrtc::open(&path) else { continue };
            if library.version() == PINNED {
                return Ok(Self::Nvrtc { library, path });
            }
            others.push(Self::Nvrtc { library, path });
        }
        for path in places::nvccs() {
            let Ok(version) = nvcc_version(&path) else { continue };
            others.push(Self::Nvcc { path, version });
        }
        let (major, minor) = PINNED;
        let advice = format!(
            "`--fetch` gets NVRTC {major}.{minor} from PyPI; SYLVIE_NVRTC names a libnvrtc.so, CUDA_HOME a toolkit"
        );
        let found: Vec<_> = others.iter().map(Self::to_string).collect();
        match others.into_iter().next() {
            Some(_) if is_pinned => bail!(
                "PTX is compared by NVRTC {major}.{minor}, found {}; {advice}",
                found.join(", ")
            ),
            Some(other) => Ok(other),
            None => bail!("no NVRTC and no nvcc; {advice}"),
        }
    }

    /// Name and version, as PTX names them.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Nvrtc { library, .. } => {
                let (major, minor) = library.version();
                format!("NVRTC {major}.{minor}")
            }
            Self::Nvcc { version, .. } => format!("nvcc {version}"),
        }
    }

    /// PTX of a source.
    ///
    /// # Errors
    /// What the compiler says.
    pub(crate) fn compile(&self, source: &Source) -> Result<String> {
        match self {
            Self::Nvrtc { library, .. } => {
                let architecture = format!("--gpu-architecture={ARCHITECTURE}");
                library.compile(source, &[&[architecture.as_str()], &OPTIONS[..]].concat())
            }
            Self::Nvcc { path, .. } => {
                let folder = tempfile::tempdir().context("no folder for nvcc")?;
                let (from, to) = (folder.path().join("source.cu"), folder.path().join("out.ptx"));
                fs::write(&from, &source.text)?;
                let mut command = Command::new(path);
                command
                    .args(["--ptx", "-arch", ARCHITECTURE])
                    .args(OPTIONS)
                    .arg(&from)
                    .arg("-o")
                    .arg(&to);
                let output = command.output().with_context(|| path.display().to_string())?;
                ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                fs::read_to_string(&to).context("nvcc wrote no PTX")
            }
        }
    }
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Nvrtc { path, .. } | Self::Nvcc { path, .. }) = self;
        write!(f, "{} ({})", self.name(), path.display())
    }
}

fn nvcc_version(path: &Path) -> Result<String> {
    let output = Command::new(path).arg("--version").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    version_in(&text).context("nvcc says no version")
}

/// The version in a line such as `Cuda compilation tools, release 12.4, V12.4.131`.
fn version_in(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("release ")?;
    Some(rest.split([',', '\n']).next()?.trim().to_owned())
}

#[test]
fn a_version_is_read() {
    let text =
        "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88\n";
    assert_eq!(version_in(text).as_deref(), Some("13.0"));
    assert_eq!(version_in("nvcc"), None);
}
