//! Graph partitioning (METIS, contiguous, random), quality figures and halo construction
