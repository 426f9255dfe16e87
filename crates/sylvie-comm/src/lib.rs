//! Exchange of owned buffers between ranks, with traffic counts
