//! Full-graph GNN training over several workers with one-bit halo exchange
