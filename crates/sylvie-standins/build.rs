//! Compiles each stand-in into a shared library of its own.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=libraries");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rustc-env=SYLVIE_STANDINS={}", out.display());
    let emulated = |what: &str| {
        let name = format!("DEP_SYLVIE_KERNELS_EMULATED_{what}");
        env::var(&name).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let (include, device) = (emulated("INCLUDE"), emulated("LIB"));
    println!("cargo::rerun-if-changed={device}");
    // The order matters: the others are linked against the first.
    for (library, source) in [
        ("libcuda.so", "cuda.cc"),
        ("libcublas.so", "cublas.cc"),
        ("libnccl.so", "nccl.cc"),
        ("libnvrtc.so", "nvrtc.cc"),
    ] {
        let compiler =
            cc::Build::new().cpp(true).std("c++17").opt_level(1).pic(true).try_get_compiler();
        let mut command: Command = compiler.expect("a C++ compiler").to_command();
        command.args(["-shared", "-pthread", "-Wall", "-Wextra", "-Werror=return-type"]);
        command.arg(format!("-Wl,-soname,{library}")).arg(format!("libraries/{source}"));
        command.arg("-o").arg(out.join(library));
        match library {
            // Its kernels are its own, whatever else of the emulated device the process holds.
            "libcuda.so" => {
                command.arg(format!("-I{include}")).arg(&device);
                command.args(["-Wl,--exclude-libs,ALL", "-Wl,-Bsymbolic"])
            }
            "libnvrtc.so" => &mut command,
            // By its soname the loader finds the one that is already there.
            _ => command.arg(out.join("libcuda.so")),
        };
        let status = command.status().expect("the C++ compiler starts");
        assert!(status.success(), "{library}: {status}");
    }
}
