//! Full-graph GNN training over several workers, with boundary rows exchanged at one bit a value.
//!
//! This crate only gathers the others under one name; each can be used alone.
//!
//! | module | is |
//! |---|---|
//! | [`random`] | counter-based random numbers |
//! | [`graph`] | graphs, features, labels, splits, parts as plain values |
//! | [`lowbit`] | the row codec |
//! | [`comm`] | ranks and what they exchange |
//! | [`data`] | readers of data sets, a generator |
//! | [`partition`] | METIS and others, quality, halo plans |
//! | [`tensor`] | backend traits and the CPU backend |
//! | [`gnn`] | GCN, GraphSAGE, GAT, losses, metrics |
//! | [`pipeline`] | the training run |
//!
//! With feature `cuda` there is a module of that name besides: the backend on CUDA devices.
//!
//! # Example
//! What one bit a value saves in an exchange of 256 columns between two parts; the README shows a whole run.
//!
//! ```
//! use sylvie::data::{ReadOptions, read};
//! use sylvie::graph::Role;
//! use sylvie::lowbit::{RowCodec, Width};
//! use sylvie::partition::{Metis, Partitioner, quality};
//!
//! // A path to a graph of your own may stand here.
//! let source = "synthetic:nodes=600,degree=10,features=16,classes=4";
//! let dataset = read(source, &ReadOptions::default())?;
//! let train = dataset.split.mask(Role::Train);
//! let assignment = Metis::default().partition(&dataset.graph, &train, 2)?;
//! let n_rows = quality(&dataset.graph, &assignment, &train).communication_volume as usize;
//! let bytes = |width| RowCodec::new(width).message_bytes(n_rows, 256);
//! assert_eq!((bytes(Width::F32), bytes(Width::One)), (n_rows * 1024, n_rows * (32 + 4)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use sylvie_comm as comm;
#[cfg(feature = "cuda")]
pub use sylvie_cuda as cuda;
pub use sylvie_data as data;
pub use sylvie_gnn as gnn;
pub use sylvie_graph as graph;
pub use sylvie_lowbit as lowbit;
pub use sylvie_partition as partition;
pub use sylvie_pipeline as pipeline;
pub use sylvie_random as random;
pub use sylvie_tensor as tensor;

/// The README's examples, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
