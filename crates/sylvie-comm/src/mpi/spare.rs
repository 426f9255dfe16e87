//! Buffers that have been sent, kept for what will arrive.

use std::collections::VecDeque;

/// At most so many buffers of any sizes; the oldest goes first.
///
/// What a rank sends in one direction has the lengths of what it receives in the other. So the buffers
/// of one pass, once sent, are those in which the next one's messages arrive.
#[derive(Debug)]
pub(super) struct Spare {
    buffers: VecDeque<Vec<u8>>,
    n_most: usize,
}

impl Spare {
    pub(super) fn new(n_most: usize) -> Self {
        Self { buffers: VecDeque::new(), n_most }
    }

    pub(super) fn put(&mut self, buffer: Vec<u8>) {
        self.buffers.push_back(buffer);
        if self.buffers.len() > self.n_most {
            self.buffers.pop_front();
        }
    }

    /// A buffer with room for `n_bytes`, of any length and contents: the smallest that fits and is not
    /// much too large, else a new one.
    pub(super) fn take(&mut self, n_bytes: usize) -> Vec<u8> {
        let fits = |buffer: &Vec<u8>| {
            let room = buffer.capacity();
            room >= n_bytes && room / 2 <= n_bytes
        };
        let fitting = self.buffers.iter().enumerate().filter(|(_, buffer)| fits(buffer));
        let smallest = fitting.min_by_key(|(_, buffer)| buffer.capacity()).map(|(i, _)| i);
        let found = smallest.and_then(|i| self.buffers.remove(i));
        found.unwrap_or_else(|| Vec::with_capacity(n_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::Spare;

    #[test]
    fn the_smallest_that_fits_is_taken_and_the_oldest_given_up() {
        let mut spare = Spare::new(3);
        for n_bytes in [999, 100, 160, 120] {
            spare.put(vec![1; n_bytes]);
        }
        assert_eq!(spare.take(110).len(), 120);
        assert_eq!(spare.take(110).len(), 160);
        let fresh = spare.take(110);
        assert!(fresh.is_empty() && fresh.capacity() >= 110);
        assert!(spare.take(40).is_empty(), "100 bytes are much for 40");
        assert_eq!(spare.take(50).len(), 100);
        assert!(spare.take(999).is_empty(), "the oldest of four is gone");
    }
}
