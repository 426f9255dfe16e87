//! What a network is made of.

use std::fmt;
use std::str::FromStr;

/// The kind of a network's graph layers.
///
/// # Example
/// ```
/// use sylvie_gnn::{ModelKind, ParseModelError};
///
/// let kind: ModelKind = "gat".parse()?;
/// assert_eq!((kind, kind.to_string()), (ModelKind::Gat, "gat".to_owned()));
/// # Ok::<(), ParseModelError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// Graph convolution (Kipf and Welling 2017), on symmetric graphs.
    Gcn,
    /// GraphSAGE with mean aggregation (Hamilton et al. 2017).
    Sage,
    /// Graph attention (Velickovic et al. 2018).
    Gat,
}

/// What stands between two layers, before ReLU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// LayerNorm with gain and offset.
    Layer,
    /// Nothing.
    None,
}

/// A word that names no model, norm, metric or class weights.
///
/// # Example
/// ```
/// use sylvie_gnn::NormKind;
///
/// let error = "batch".parse::<NormKind>().unwrap_err();
/// assert_eq!(error.to_string(), "unknown norm 'batch', expected one of layer, none");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} '{word}', expected one of {expected}")]
pub struct ParseModelError {
    /// What was read.
    pub what: &'static str,
    /// The word found.
    pub word: String,
    /// The words allowed.
    pub expected: &'static str,
}

impl FromStr for ModelKind {
    type Err = ParseModelError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "gcn" => Ok(Self::Gcn),
            "sage" => Ok(Self::Sage),
            "gat" => Ok(Self::Gat),
            _ => {
                let (what, expected) = ("model", "sage, gcn, gat");
                Err(ParseModelError { what, word: word.to_owned(), expected })
            }
        }
    }
}

impl fmt::Display for ModelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gcn => "gcn",
            Self::Sage => "sage",
            Self::Gat => "gat",
        })
    }
}

impl FromStr for NormKind {
    type Err = ParseModelError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "layer" => Ok(Self::Layer),
            "none" => Ok(Self::None),
            _ => {
                let (what, expected) = ("norm", "layer, none");
                Err(ParseModelError { what, word: word.to_owned(), expected })
            }
        }
    }
}

impl fmt::Display for NormKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Layer => "layer",
            Self::None => "none",
        })
    }
}

/// Shape of a network.
///
/// # Example
/// ```
/// use sylvie_gnn::{ModelConfig, ModelKind};
///
/// // 64 features, two layers, 10 classes.
/// let model = ModelConfig { n_heads: 4, ..ModelConfig::new(ModelKind::Gat, vec![64, 32, 10]) };
/// model.check()?;
/// assert_eq!((model.n_layers(), model.n_columns_out(0)), (2, 32));
/// let odd = ModelConfig { n_heads: 5, ..model };
/// assert_eq!(odd.check().unwrap_err().to_string(), "5 heads do not divide 32 hidden columns");
/// # Ok::<(), sylvie_gnn::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Kind of the graph layers.
    pub kind: ModelKind,
    /// Columns before, between and after the layers: features, hidden columns, classes. One more than
    /// there are layers, linear ones included.
    pub widths: Vec<usize>,
    /// How many of the last layers are linear.
    pub n_linear: usize,
    /// Attention heads (GAT).
    pub n_heads: usize,
    /// Dropout rate at the input of every layer.
    pub dropout: f32,
    /// Normalisation between layers.
    pub norm: NormKind,
}

/// A network that cannot be built.
///
/// # Example
/// ```
/// use sylvie_gnn::{ConfigError, ModelConfig, ModelKind, Network};
///
/// let config = ModelConfig { n_linear: 2, ..ModelConfig::new(ModelKind::Sage, vec![64, 32, 10]) };
/// let refused = Network::new(config).map(drop);
/// assert_eq!(refused, Err(ConfigError::NoGraphLayer { n_layers: 2, n_linear: 2 }));
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No layers, or more than 255.
    #[error("{n_layers} layers are not between 1 and 255")]
    LayerCount {
        /// Layers asked for.
        n_layers: usize,
    },
    /// Linear layers only.
    #[error("{n_linear} linear layers of {n_layers} leave no graph layer")]
    NoGraphLayer {
        /// All layers.
        n_layers: usize,
        /// Linear layers.
        n_linear: usize,
    },
    /// A width of zero.
    #[error("the number of {what} is 0")]
    ZeroWidth {
        /// What is zero.
        what: &'static str,
    },
    /// Heads that do not divide the hidden columns.
    #[error("{n_heads} heads do not divide {n_hidden} hidden columns")]
    Heads {
        /// Heads.
        n_heads: usize,
        /// Hidden columns.
        n_hidden: usize,
    },
    /// A weight tensor of more than 2^31 values.
    #[error("layer {layer} of {n_in} times {n_out} columns has more than 2^31 weights")]
    TooManyWeights {
        /// The layer.
        layer: usize,
        /// Columns that it reads.
        n_in: usize,
        /// Columns that it gives, of all heads.
        n_out: usize,
    },
    /// A dropout rate outside [0, 1).
    #[error("a dropout rate of {rate} is not in [0, 1)")]
    DropoutRate {
        /// The rate.
        rate: f32,
    },
}

/// Name and shape of one weight tensor of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name inside the layer: `w`, `b`, ...
    pub name: &'static str,
    /// Rows: inputs, heads, or 1.
    pub n_rows: usize,
    /// Columns.
    pub n_cols: usize,
    /// How it starts.
    pub(crate) start: Start,
}

/// How a weight tensor starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Glorot { fan_in: usize, fan_out: usize },
    Zero,
    One,
}

impl ModelConfig {
    /// A network of graph layers alone, with one head where there is attention, dropout of 0.5 and LayerNorm.
    #[must_use]
    pub fn new(kind: ModelKind, widths: Vec<usize>) -> Self {
        Self { kind, widths, n_linear: 0, n_heads: 1, dropout: 0.5, norm: NormKind::Layer }
    }

    /// Checks that the network can be built.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn check(&self) -> Result<(), ConfigError> {
        let n_layers = self.n_layers();
        if n_layers == 0 || n_layers > 255 {
            return Err(ConfigError::LayerCount { n_layers });
        }
        if self.n_linear >= n_layers {
            return Err(ConfigError::NoGraphLayer { n_layers, n_linear: self.n_linear });
        }
        for (layer, &width) in self.widths.iter().enumerate() {
            if width == 0 {
                let what = match layer {
                    0 => "input features",
                    _ if layer == n_layers => "classes",
                    _ => "hidden columns",
                };
                return Err(ConfigError::ZeroWidth { what });
            }
        }
        if self.n_heads == 0 {
            return Err(ConfigError::ZeroWidth { what: "heads" });
        }
        for layer in 0..n_layers {
            let n_hidden = self.n_columns_out(layer);
            let is_concatenated = self.is_graph_layer(layer) && !self.is_last(layer);
            let divides = n_hidden.is_multiple_of(self.n_heads);
            if self.kind == ModelKind::Gat && is_concatenated && !divides {
                return Err(ConfigError::Heads { n_heads: self.n_heads, n_hidden });
            }
        }
        for layer in 0..n_layers {
            let has_all_heads = self.kind == ModelKind::Gat && self.is_graph_layer(layer);
            let n_copies = if has_all_heads && self.is_last(layer) { self.n_heads } else { 1 };
            let n_in = self.n_columns_in(layer);
            let n_out = self.n_columns_out(layer).saturating_mul(n_copies);
            if n_in.saturating_mul(n_out) > 1 << 31 {
                return Err(ConfigError::TooManyWeights { layer, n_in, n_out });
            }
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(ConfigError::DropoutRate { rate: self.dropout });
        }
        Ok(())
    }

    /// Number of layers, linear ones included.
    #[must_use]
    pub fn n_layers(&self) -> usize {
        self.widths.len().saturating_sub(1)
    }

    /// Number of graph layers; the linear ones follow them.
    #[must_use]
    pub fn n_graph_layers(&self) -> usize {
        self.n_layers() - self.n_linear
    }

    /// Whether layer `layer` is the last, which is bare.
    #[must_use]
    pub fn is_last(&self, layer: usize) -> bool {
        layer + 1 == self.n_layers()
    }

    /// Columns that layer `layer` reads.
    #[must_use]
    pub fn n_columns_in(&self, layer: usize) -> usize {
        self.widths[layer]
    }

    /// Columns that layer `layer` gives.
    #[must_use]
    pub fn n_columns_out(&self, layer: usize) -> usize {
        self.widths[layer + 1]
    }

    /// Whether layer `layer` reads neighbours.
    #[must_use]
    pub fn is_graph_layer(&self, layer: usize) -> bool {
        layer < self.n_graph_layers()
    }

    /// The weight tensors of a layer, in the order in which they are kept.
    ///
    /// # Example
    /// ```
    /// use sylvie_gnn::{ModelConfig, ModelKind};
    ///
    /// let config = ModelConfig { n_heads: 4, ..ModelConfig::new(ModelKind::Gat, vec![64, 32, 10]) };
    /// let last = config.tensors(1).into_iter().map(|spec| (spec.name, spec.n_rows, spec.n_cols));
    /// let expected = [("w", 32, 4 * 10), ("a_src", 4, 10), ("a_dst", 4, 10), ("b", 1, 10)];
    /// assert!(last.eq(expected)); // each head has all ten columns
    /// ```
    #[must_use]
    pub fn tensors(&self, layer: usize) -> Vec<TensorSpec> {
        let (n_in, n_out) = (self.n_columns_in(layer), self.n_columns_out(layer));
        let dense = |name, n_rows, n_cols| {
            let start = Start::Glorot { fan_in: n_rows, fan_out: n_cols };
            TensorSpec { name, n_rows, n_cols, start }
        };
        let row = |name, n_cols, start| TensorSpec { name, n_rows: 1, n_cols, start };
        let bias = row("b", n_out, Start::Zero);
        let mut tensors = if !self.is_graph_layer(layer) || self.kind == ModelKind::Gcn {
            vec![dense("w", n_in, n_out), bias]
        } else if self.kind == ModelKind::Sage {
            vec![dense("w_self", n_in, n_out), dense("w_neigh", n_in, n_out), bias]
        } else {
            // Concatenated heads share the columns; in the last layer each head has them all.
            let width = if self.is_last(layer) { n_out } else { n_out / self.n_heads };
            let start = Start::Glorot { fan_in: width, fan_out: 1 };
            let scores = |name| TensorSpec { name, n_rows: self.n_heads, n_cols: width, start };
            vec![dense("w", n_in, self.n_heads * width), scores("a_src"), scores("a_dst"), bias]
        };
        if !self.is_last(layer) && self.norm == NormKind::Layer {
            tensors.push(row("ln_w", n_out, Start::One));
            tensors.push(row("ln_b", n_out, Start::Zero));
        }
        tensors
    }
}
