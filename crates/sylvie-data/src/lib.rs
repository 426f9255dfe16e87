//! Readers of graph data sets and a generator of planted-community graphs
