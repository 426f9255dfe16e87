//! Compiles the kernels through the emulated device's headers, and the device.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use sylvie_kernels::{KERNELS, MODULES};

/// Has the compiler call a check of `cpp/memory.cc` before each access.
const CHECKS: &str = "-fsanitize=thread";

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the package"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names a folder"));
    let sources = here.join("../cuda");
    for watched in ["build.rs", "cpp", "include", "../cuda"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    let kernels = out.join("kernels.cc");
    fs::write(&kernels, kernel_file(&sources)).expect("a file for the kernels");

    let mut checked = compiler(&here, &sources);
    checked.flag(CHECKS);
    // `#pragma unroll` means nothing for a CPU.
    checked.flag("-Wno-unknown-pragmas").file(&kernels);
    let mut device = compiler(&here, &sources);
    for file in ["fiber.cc", "launch.cc", "memory.cc"] {
        device.file(here.join("cpp").join(file));
    }
    let objects = [checked.compile_intermediates(), device.compile_intermediates()].concat();
    cc::Build::new().cpp(true).objects(objects).compile("sylvie_kernels_emulated");
    println!("cargo::metadata=include={}", here.join("include").display());
    println!("cargo::metadata=lib={}", out.join("libsylvie_kernels_emulated.a").display());
}

fn compiler(here: &Path, sources: &Path) -> cc::Build {
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").opt_level(2).debug(false).pic(true).warnings(true);
    build.include(here.join("include")).include(here.join("cpp")).include(sources);
    // Nothing fused, as in the PTX; vectors are looked at through pointers of other types.
    build.flag("-ffp-contract=off").flag("-fno-strict-aliasing");
    build
}

/// The entries of `cpp/faults.cu`.
fn faults() -> Vec<&'static str> {
    let lines = include_str!("cpp/faults.cu").lines();
    let declared = lines.filter_map(|line| line.strip_prefix("KERNEL ")?.split_once('('));
    declared.map(|(name, _)| name).collect()
}

/// One file with all kernels, each `.cu` in a namespace of its own, and the table of them.
fn kernel_file(sources: &Path) -> String {
    let mut text = String::from("#include \"device.h\"\n#include \"sylvie.cuh\"\n");
    for module in MODULES {
        let file = sources.join(module.name).with_extension("cu");
        write!(text, "namespace in_{0} {{\n#include \"{1}\"\n}}\n", module.name, file.display())
            .expect("strings take everything");
    }
    text += "namespace in_faults {\n#include \"faults.cu\"\n}\n";
    text += "namespace sylvie_emulated {\n\
             extern \"C\" const sylvie_emulated_kernel sylvie_emulated_kernels[] = {\n";
    for entry in faults() {
        writeln!(text, "SYLVIE_EMULATED_ENTRY(in_faults, {entry}),").expect("strings take all");
    }
    for kernel in KERNELS {
        let (file, entry) = (kernel.module.name, kernel.entry);
        writeln!(text, "SYLVIE_EMULATED_ENTRY(in_{file}, {entry}),").expect("strings take all");
    }
    text + "{nullptr, nullptr, 0, nullptr}};\n}\n"
}
