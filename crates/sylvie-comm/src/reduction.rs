//! The arithmetic of `reduce`, the same for every transport.

use std::ops::Range;

/// The part of a vector of `n_values` that `rank` sums: `size` consecutive slices, as even as can be.
pub(crate) fn slice_of(n_values: usize, size: usize, rank: usize) -> Range<usize> {
    let (base, n_longer) = (n_values / size, n_values % size);
    let start = rank * base + rank.min(n_longer);
    start..start + base + usize::from(rank < n_longer)
}

/// Takes one rank's term into the sum; terms must come in rank order.
///
/// Rank 0's term is copied rather than added to zero, so that a sum over one rank keeps its bits,
/// negative zeros included.
pub(crate) fn accumulate(sum: &mut [f32], term: &[f32], rank: usize) {
    assert_eq!(sum.len(), term.len(), "a term has as many values as the sum");
    if rank == 0 {
        sum.copy_from_slice(term);
    } else {
        for (sum, term) in sum.iter_mut().zip(term) {
            *sum += term;
        }
    }
}

/// Bytes that `rank` sends in a reduction of `n_values` over `size` ranks.
pub(crate) fn bytes_sent(n_values: usize, size: usize, rank: usize) -> usize {
    let n_own = slice_of(n_values, size, rank).len();
    size_of::<f32>() * (n_values - n_own + n_own * (size - 1))
}

#[cfg(test)]
mod tests {
    use super::{bytes_sent, slice_of};

    #[test]
    fn slices_cover_the_vector_evenly_and_in_order() {
        for size in 1..8 {
            for n_values in 0..40 {
                let mut end = 0;
                for rank in 0..size {
                    let slice = slice_of(n_values, size, rank);
                    assert_eq!(slice.start, end);
                    assert!(slice.len().abs_diff(n_values / size) <= 1);
                    end = slice.end;
                }
                assert_eq!(end, n_values);
            }
        }
    }

    #[test]
    fn one_rank_sends_nothing() {
        assert_eq!(bytes_sent(9, 1, 0), 0);
        // Two ranks, three values: rank 0 sends one value and its sums of two.
        assert_eq!(bytes_sent(3, 2, 0), 4 * (1 + 2));
        assert_eq!(bytes_sent(3, 2, 1), 4 * (2 + 1));
    }
}
