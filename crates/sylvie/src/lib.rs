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
