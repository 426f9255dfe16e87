//! Readers and writers of graph data sets, and a generator of graphs with planted communities.
#![doc = include_str!("../README.md")]

mod arrays;
mod class_map;
mod detect;
mod edge_list;
mod error;
mod file;
mod gnn_benchmark;
mod graphsaint;
mod heterophilous;
mod input;
mod labels;
mod matrix_market;
mod normalization;
mod npy;
mod npy_floats;
mod npy_header;
mod npy_values;
mod npz;
mod ogb;
mod options;
mod pickle;
mod planetoid;
mod raw;
mod read;
mod reddit;
mod sparse;
mod split_rule;
mod splits;
mod synthetic;
mod tables;
mod text;
mod write;

pub use detect::{detect, has_own_split};
pub use error::{DataError, Place, shown};
pub use options::{Format, Normalization, ReadOptions};
pub use read::read;
pub use split_rule::SplitRule;
pub use write::{WRITE_CHOICES, write};
