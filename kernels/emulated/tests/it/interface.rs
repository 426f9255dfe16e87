//! What `sylvie-kernels` says of a kernel, against what was compiled.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::path::Path;

use sylvie_kernels::{BLOCK_THREADS, KERNELS, Kind, MODULES, TILE_ROWS};
use sylvie_kernels_emulated::raw;

#[test]
fn parameters_are_those_of_the_sources() {
    for kernel in KERNELS {
        let entry = CString::new(kernel.entry).unwrap();
        let mut sizes = std::ptr::null();
        // SAFETY: a string that ends; the table that is handed out lives for ever.
        #[allow(unsafe_code)]
        let sizes = unsafe {
            let found = raw::sylvie_emulated_find(entry.as_ptr());
            assert!(!found.is_null(), "{}", kernel.entry);
            let n = raw::sylvie_emulated_parameters(found, &raw mut sizes);
            std::slice::from_raw_parts(sizes, n)
        };
        let expected: Vec<usize> = kernel.parameters.iter().map(|p| p.kind.bytes()).collect();
        assert_eq!(sizes, expected, "{}", kernel.entry);
        // By name and type, in the file itself.
        let source = kernel.module.source;
        for parameter in kernel.parameters {
            let words = match parameter.kind {
                Kind::F32s => "float* __restrict__",
                Kind::F64s => "double* __restrict__",
                Kind::U32s => "u32* __restrict__",
                Kind::U64s => "u64* __restrict__",
                Kind::U8s => "u8* __restrict__",
                Kind::F32 => "float",
                Kind::U32 => "u32",
                Kind::U64 => "u64",
            };
            let written = format!("{words} {}", parameter.name);
            assert!(source.contains(&written), "{}: no `{written}`", kernel.entry);
        }
    }
}

#[test]
fn entries_are_unique_and_every_file_is_a_module() {
    let entries: BTreeSet<_> = KERNELS.iter().map(|kernel| kernel.entry).collect();
    assert_eq!(entries.len(), KERNELS.len());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cuda");
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: BTreeSet<_> = names
        .filter(|path| path.extension().is_some_and(|e| e == "cu"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(files, MODULES.iter().map(|m| m.name.to_string()).collect());
    for module in MODULES {
        assert!(
            KERNELS.iter().any(|kernel| kernel.module == module),
            "{} has no kernel",
            module.name
        );
    }
}

#[test]
fn sources_and_data_agree_on_sizes() {
    let header = MODULES[0].source;
    assert!(header.contains(&format!("#define BLOCK_THREADS {BLOCK_THREADS}\n")));
    assert!(header.contains(&format!("#define TILE_ROWS {TILE_ROWS}\n")));
}
