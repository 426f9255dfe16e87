//! Unbiased low-bit row quantisation for exchanging matrices
