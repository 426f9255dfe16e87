//! Readers of graph data sets, and a generator of graphs with planted communities.
#![doc = include_str!("../README.md")]

mod arrays;
mod class_map;
mod detect;
mod error;
mod file;
mod gnn_benchmark;
mod graphsaint;
mod heterophilous;
mod labels;
mod normalization;
mod npy;
mod npy_header;
mod npz;
mod options;
mod raw;
mod read;
mod sparse;
mod splits;
mod synthetic;

pub use detect::detect;
pub use error::{DataError, Place, shown};
pub use options::{Format, Normalization, ReadOptions};
pub use read::read;
