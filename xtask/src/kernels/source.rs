//! The sources, and the form in which their PTX is kept.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

/// Architecture that the PTX is for; later ones take it too.
pub(crate) const ARCHITECTURE: &str = "compute_80";
/// Options for every file: those of `sylvie_kernels::COMPILE_OPTIONS`.
pub(crate) const OPTIONS: [&str; 2] = ["--std=c++17", "--fmad=false"];

/// One `.cu` file together with the header.
#[derive(Debug)]
pub(crate) struct Source {
    /// Name of the file, without its ending.
    pub(crate) name: String,
    /// One text without includes: `Module::source` of `sylvie-kernels`.
    pub(crate) text: String,
}

impl Source {
    /// All of them, by name.
    ///
    /// # Errors
    /// The folder or a file cannot be read.
    pub(crate) fn all(root: &Path) -> Result<Vec<Self>> {
        let folder = root.join("kernels/cuda");
        let read =
            |path: &Path| fs::read_to_string(path).with_context(|| path.display().to_string());
        let header = read(&folder.join("sylvie.cuh"))?;
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "cu"));
        paths.sort();
        let one = |path: &std::path::PathBuf| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Ok(Self::of(name, &header, &read(path)?))
        };
        paths.iter().map(one).collect()
    }

    fn of(name: String, header: &str, file: &str) -> Self {
        let text = format!("{header}#line 1 \"{name}.cu\"\n{file}");
        Self { name, text }
    }

    /// What is committed for it: where it comes from, then the compiler's PTX without comments at line starts
    /// and without the tables of targets that NVRTC puts into every file and nothing refers to.
    pub(crate) fn ptx_file(&self, compiler: &str, ptx: &str) -> String {
        let digest = Sha256::digest(self.text.as_bytes());
        let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut text = format!(
            "// {}.cu for {ARCHITECTURE}; made by `cargo xtask kernels`, not by hand\n\
             // source-sha256: {hash}\n\
             // compiler: {compiler} {}\n",
            self.name,
            OPTIONS.join(" ")
        );
        let is_table = |line: &str| line.starts_with(".global") && line.contains("2nv6target");
        let kept = ptx.lines().filter(|line| !line.starts_with("//") && !is_table(line));
        for line in kept.skip_while(|line| line.is_empty()) {
            text.extend([line, "\n"]);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_says_what_it_was_made_of() {
        let source = Source::of("a".to_owned(), "head\n", "body\n");
        assert_eq!(source.text, "head\n#line 1 \"a.cu\"\nbody\n");
        let text = source.ptx_file(
            "NVRTC 1.2",
            "//\n// made today\n\n.version 8.2\n.global .u64 x2nv6target;\n\tret;",
        );
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "// a.cu for compute_80; made by `cargo xtask kernels`, not by hand");
        assert!(
            lines[1].starts_with("// source-sha256: ") && lines[1].len() == 18 + 64,
            "{}",
            lines[1]
        );
        assert_eq!(lines[2], "// compiler: NVRTC 1.2 --std=c++17 --fmad=false");
        assert_eq!(lines[3..], [".version 8.2", "\tret;"]);
        assert_ne!(
            text,
            Source::of("a".to_owned(), "head\n", "body")
                .ptx_file("NVRTC 1.2", ".version 8.2\n\tret;")
        );
    }

    #[test]
    fn the_repository_has_sources() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let sources = Source::all(root).unwrap();
        assert!(sources.iter().any(|source| source.name == "quantize"), "{}", sources.len());
    }
}
