//! Graphs, features, labels, splits, parts and halo plans as plain values
