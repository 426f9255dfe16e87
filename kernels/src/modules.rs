//! The `.cu` files and what they were compiled to.

use crate::kernel::Module;

macro_rules! modules {
    ($($constant:ident $name:literal),* $(,)?) => {
        $(
            pub(crate) const $constant: Module = Module {
                name: $name,
                ptx: include_str!(concat!("../ptx/", $name, ".ptx")),
                source: concat!(
                    include_str!("../cuda/sylvie.cuh"),
                    "#line 1 \"", $name, ".cu\"\n",
                    include_str!(concat!("../cuda/", $name, ".cu")),
                ),
            };
        )*
        /// Every module.
        pub const MODULES: &[Module] = &[$($constant),*];
    };
}

modules! {
    ADAM "adam",
    AGGREGATE "aggregate",
    ATTENTION "attention",
    ATTENTION_BACKWARD "attention_backward",
    ATTENTION_SCORES "attention_scores",
    BINARY_CROSS_ENTROPY "binary_cross_entropy",
    COLUMN_SUMS "column_sums",
    DEQUANTIZE "dequantize",
    DROPOUT "dropout",
    FLOAT_ROWS "float_rows",
    GATHER "gather",
    HEADS "heads",
    LAYER_NORM "layer_norm",
    QUANTIZE "quantize",
    RELU "relu",
    ROW_FACTORS "row_factors",
    SCATTER "scatter",
    SELECT_ROWS "select_rows",
    SMOOTH "smooth",
    SOFTMAX_CROSS_ENTROPY "softmax_cross_entropy",
    SPARSE_PRODUCT "sparse_product",
    SUM_F64 "sum_f64",
}

/// Declares kernels of one module: name, entry, how work is shared out, arguments.
macro_rules! kernels {
    ($(
        $(#[$doc:meta])*
        $name:ident = $module:ident $entry:literal $share:ident ($($parameter:ident: $kind:ident),* $(,)?);
    )*) => {
        $(
            $(#[$doc])*
            pub const $name: $crate::kernel::Kernel = $crate::kernel::Kernel {
                module: &$crate::modules::$module,
                entry: $entry,
                parameters: &[$($crate::kernel::Parameter {
                    name: stringify!($parameter),
                    kind: $crate::kernel::Kind::$kind,
                }),*],
                share: $crate::kernel::Share::$share,
            };
        )*
    };
}
pub(crate) use kernels;
