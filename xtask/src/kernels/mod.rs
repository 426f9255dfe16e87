//! `cargo xtask kernels`: from `kernels/cuda/*.cu` to `kernels/ptx/*.ptx`.

mod assemble;
mod compiler;
mod nvrtc;
mod places;
mod source;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

use self::compiler::Compiler;
use self::source::Source;

/// Version of NVRTC whose PTX is committed: what drivers from 535 on load.
pub(crate) const PINNED: (i32, i32) = (12, 2);
/// What `--fetch` installs: the compiler of the PTX, and an assembler to judge it by.
const PACKAGES: [&str; 2] = ["nvidia-cuda-nvrtc-cu12==12.2.140", "nvidia-cuda-nvcc-cu12==12.4.131"];

/// What to do with the PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Compile and write it.
    Write,
    /// Compile it and compare byte for byte.
    Check,
    /// Assemble it as it lies there, and list registers and spills.
    Assemble,
}

/// Does it; gives back a line about it.
///
/// # Errors
/// No compiler; a source that does not compile; PTX that differs, or that spills registers.
pub(crate) fn run(root: &Path, action: Action, fetches: bool) -> Result<String> {
    if fetches {
        places::fetch(root, &PACKAGES)?;
    }
    if action == Action::Assemble {
        return assemble::run(root);
    }
    let compiler = Compiler::find(root, action == Action::Check)?;
    println!("{compiler}");
    let (mut n_files, mut stale) = (0, Vec::new());
    for source in Source::all(root)? {
        let ptx = compiler.compile(&source).with_context(|| format!("{}.cu", source.name))?;
        let text = source.ptx_file(&compiler.name(), &ptx);
        let path = root.join("kernels/ptx").join(&source.name).with_extension("ptx");
        match action {
            Action::Check => {
                let committed = fs::read_to_string(&path).unwrap_or_default();
                if committed != text {
                    stale.push(source.name);
                }
            }
            _ => fs::write(&path, &text).with_context(|| path.display().to_string())?,
        }
        n_files += 1;
    }
    ensure!(n_files > 0, "no sources");
    if !stale.is_empty() {
        bail!(
            "differ from what the sources give: {}; `cargo xtask kernels` writes them",
            stale.join(", ")
        );
    }
    let done = if action == Action::Check { "are as committed" } else { "written" };
    Ok(format!("{n_files} files of PTX {done}"))
}
