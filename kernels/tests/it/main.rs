//! The committed PTX against its sources and against what is said of the kernels, without a compiler.

use sha2::{Digest as _, Sha256};
use sylvie_kernels::{
    BLOCK_THREADS, COMPILE_OPTIONS, KERNELS, Kernel, Kind, MODULES, SUM_VALUES, Share,
    TILE_COLUMNS, TILE_ROWS, VECTOR, lanes,
};

#[test]
fn ptx_carries_the_hash_of_its_source() {
    for module in MODULES {
        let digest = Sha256::digest(module.source.as_bytes());
        let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = format!("// source-sha256: {hash}");
        let lines: Vec<_> = module.ptx.lines().take(3).collect();
        let advice = "run `cargo xtask kernels --fetch`";
        assert_eq!(
            lines[1], expected,
            "{}.ptx is not of {0}.cu and the header: {advice}",
            module.name
        );
        assert!(lines[2].ends_with(&COMPILE_OPTIONS.join(" ")), "{}: {}", module.name, lines[2]);
    }
}

#[test]
fn ptx_is_for_the_machines_that_are_promised() {
    for module in MODULES {
        assert!(module.ptx.contains("\n.target sm_80\n"), "{}", module.name);
        // 8.2 is what drivers from 535 on take.
        assert!(module.ptx.contains("\n.version 8.2\n"), "{}", module.name);
        // What the CPU does not do, and what would cost its determinism.
        for forbidden in ["fma.rn.f", "atom.global.add.f", "red.global.add.f", ".ftz"] {
            let uses = module.ptx.lines().find(|line| line.contains(forbidden));
            let is_library = uses.is_some_and(|_| uses_library_functions(module.name));
            assert!(uses.is_none() || is_library, "{}: {forbidden}: {uses:?}", module.name);
        }
    }
}

#[test]
fn memory_is_read_or_written_sixteen_bytes_at_a_time() {
    // One value a lane: by rows of edges, by stored values, through all rows, of doubles.
    let single = ["attention_rows_backward", "sparse_dropout", "scatter_add_in_order", "sum_f64"];
    for kernel in KERNELS {
        let body = body(kernel);
        let has =
            |words: &str| body.lines().any(|line| line.contains(words) && line.contains(".v4."));
        let expects = !single.contains(&kernel.entry);
        assert_eq!(has("ld.global") || has("st.global"), expects, "{}", kernel.entry);
        // Whoever writes rows of floats; scores, halves and codes are smaller.
        let writes_rows = kernel.entry.starts_with("decode") || kernel.entry.ends_with("_rows");
        assert!(has("st.global") || !writes_rows, "{} writes", kernel.entry);
    }
}

/// The PTX of an entry from its parameters on.
fn body(kernel: &Kernel) -> &'static str {
    let start = format!(".entry {}(", kernel.entry);
    let (_, rest) = kernel.module.ptx.split_once(&start).expect("an entry of that name");
    rest.split("\n}\n").next().unwrap_or_default()
}

/// Exponentials and logarithms are made of fused operations and approximations, by CUDA.
fn uses_library_functions(module: &str) -> bool {
    ["attention", "attention_backward", "binary_cross_entropy", "softmax_cross_entropy"]
        .contains(&module)
}

/// The parameters that PTX declares for an entry, by their width and whether they are floats.
fn declared(kernel: &Kernel) -> Vec<String> {
    let (list, _) = body(kernel).split_once(')').expect("a list that ends");
    let types = list.lines().filter_map(|line| line.trim().strip_prefix(".param ."));
    types.map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn arguments_are_those_of_the_ptx() {
    for kernel in KERNELS {
        let expected: Vec<_> = kernel
            .parameters
            .iter()
            .map(|parameter| match parameter.kind {
                Kind::F32 => "f32",
                Kind::U32 => "u32",
                _ => "u64",
            })
            .collect();
        assert_eq!(declared(kernel), expected, "{}", kernel.entry);
        let threads = format!(".maxntid {BLOCK_THREADS}, 1, 1");
        assert!(kernel.module.ptx.contains(&threads), "{}", kernel.entry);
    }
}

#[test]
fn a_grid_has_room_for_all_work() {
    for kernel in KERNELS {
        for (n_rows, width) in [(1, 1), (1, 5_000), (700, 1), (333, 64), (1_000, 41), (70_000, 130)]
        {
            let launch = kernel.launch(n_rows, width).unwrap();
            assert_eq!((launch.block, launch.shared_bytes), ([BLOCK_THREADS, 1, 1], 0));
            let n_blocks = u64::from(launch.grid[0]);
            let threads = n_blocks * u64::from(BLOCK_THREADS);
            let (tile_rows, tile_columns) = (u64::from(TILE_ROWS), u64::from(TILE_COLUMNS));
            let (has, needs) = match kernel.share {
                Share::Vectors => (threads * u64::from(VECTOR), n_rows * width),
                Share::Values => (threads, n_rows * width),
                Share::Rows => (threads, n_rows * lanes(width)),
                Share::Codes => (threads, n_rows * lanes(width.div_ceil(4))),
                Share::Tiles => {
                    (n_blocks, n_rows.div_ceil(tile_rows) * width.div_ceil(tile_columns))
                }
                Share::Sums => (n_blocks * u64::from(SUM_VALUES), n_rows * width),
            };
            // Whole blocks, and none of them idle.
            let unit = has / n_blocks;
            assert!(has >= needs && has - needs < unit, "{}: {has} for {needs}", kernel.entry);
        }
        assert_eq!(kernel.launch(0, 5), None);
        assert_eq!(kernel.launch(5, 0), None);
        // Large work strides over a grid that CUDA takes.
        assert!(kernel.launch(u64::from(u32::MAX), 1 << 20).unwrap().grid[0] <= 1 << 20);
    }
}

#[test]
fn lanes_cover_a_row_in_vectors() {
    assert_eq!(
        [1, 4, 5, 8, 9, 64, 65, 128, 129, 5_000].map(lanes),
        [1, 1, 2, 2, 4, 16, 32, 32, 32, 32]
    );
}
