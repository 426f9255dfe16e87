//! GCN, GraphSAGE and GAT layers with explicit forward and backward passes
