//! Partition-parallel training: schedule, low-bit halo exchange, epoch driver
