//! The Philox4x32 bijection, with 10 rounds and with 7.

const MULTIPLIER_0: u32 = 0xD251_1F53;
const MULTIPLIER_1: u32 = 0xCD9E_8D57;
const WEYL_0: u32 = 0x9E37_79B9;
const WEYL_1: u32 = 0xBB67_AE85;
const N_ROUNDS: usize = 10;
const N_SHORT_ROUNDS: usize = 7;

/// Maps a 128-bit counter to 128 random bits under a 64-bit key.
///
/// # Cost
/// 20 multiplications of 32 by 32 bits; no state, no branch.
/// # Paper
/// Salmon et al., SC 2011, section 4.2; the tests hold it to the authors' known answers.
///
/// # Example
/// ```
/// use sylvie_random::philox4x32;
///
/// // The first of the known answers that the authors published.
/// let words = philox4x32([0; 4], [0; 2]);
/// assert_eq!(words, [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
/// ```
#[inline]
#[must_use]
pub const fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    rounds::<N_ROUNDS>(counter, key)
}

/// [`philox4x32`] with 7 rounds: the fewest that passed every test of BigCrush, for draws whose cost
/// is felt.
///
/// # Cost
/// 14 multiplications of 32 by 32 bits; no state, no branch.
/// # Paper
/// Salmon et al., SC 2011, table 2 ("Crush-resistant" from 7 rounds on).
///
/// # Example
/// ```
/// use sylvie_random::philox4x32_7;
///
/// let words = philox4x32_7([0; 4], [0; 2]);
/// assert_eq!(words, [0x5f6f_b709, 0x0d89_3f64, 0x4f12_1f81, 0x4f73_0a48]);
/// ```
#[inline]
#[must_use]
pub const fn philox4x32_7(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    rounds::<N_SHORT_ROUNDS>(counter, key)
}

#[inline(always)]
const fn rounds<const N: usize>(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    let [mut k0, mut k1] = key;
    let mut round = 0;
    while round < N {
        let p0 = MULTIPLIER_0 as u64 * c0 as u64;
        let p1 = MULTIPLIER_1 as u64 * c2 as u64;
        (c0, c1, c2, c3) =
            ((p1 >> 32) as u32 ^ c1 ^ k0, p1 as u32, (p0 >> 32) as u32 ^ c3 ^ k1, p0 as u32);
        k0 = k0.wrapping_add(WEYL_0);
        k1 = k1.wrapping_add(WEYL_1);
        round += 1;
    }
    [c0, c1, c2, c3]
}

/// [`philox4x32`] of `N` counters side by side; entry `[word][lane]` of counters and results.
///
/// Written so that the compiler uses the vector registers of its caller's target.
///
/// # Example
/// ```
/// use sylvie_random::{philox4x32, philox4x32_lanes};
///
/// // Counters [0, 0, 0, 5] and [1, 0, 0, 5].
/// let words = philox4x32_lanes([[0, 1], [0, 0], [0, 0], [5, 5]], [7, 0]);
/// assert_eq!(words.map(|word| word[1]), philox4x32([1, 0, 0, 5], [7, 0]));
/// ```
#[inline(always)]
#[must_use]
pub fn philox4x32_lanes<const N: usize>(counters: [[u32; N]; 4], key: [u32; 2]) -> [[u32; N]; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counters;
    let [mut k0, mut k1] = key;
    for _ in 0..N_ROUNDS {
        for lane in 0..N {
            let p0 = u64::from(MULTIPLIER_0) * u64::from(c0[lane]);
            let p1 = u64::from(MULTIPLIER_1) * u64::from(c2[lane]);
            c0[lane] = (p1 >> 32) as u32 ^ c1[lane] ^ k0;
            c1[lane] = p1 as u32;
            c2[lane] = (p0 >> 32) as u32 ^ c3[lane] ^ k1;
            c3[lane] = p0 as u32;
        }
        k0 = k0.wrapping_add(WEYL_0);
        k1 = k1.wrapping_add(WEYL_1);
    }
    [c0, c1, c2, c3]
}

#[cfg(test)]
mod tests {
    use super::{philox4x32, philox4x32_7, philox4x32_lanes};

    #[test]
    fn lanes_are_single_counters() {
        let counter = |lane: u32| [lane, lane * 7, 3, u32::MAX - lane];
        let counters = [0, 1, 2, 3].map(|word| [0, 1, 2, 3, 4].map(|lane| counter(lane)[word]));
        let found = philox4x32_lanes::<5>(counters, [5, 6]);
        for lane in 0..5 {
            let single = philox4x32(counter(lane as u32), [5, 6]);
            assert_eq!(found.map(|word| word[lane]), single);
        }
    }

    /// The known answers published with Random123 (`kat_vectors`, philox4x32 10).
    #[test]
    fn known_answers() {
        assert_eq!(
            philox4x32([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox4x32([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox4x32(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    /// The known answers published with Random123 (`kat_vectors`, philox4x32 7).
    #[test]
    fn known_answers_of_seven_rounds() {
        assert_eq!(
            philox4x32_7([0; 4], [0; 2]),
            [0x5f6f_b709, 0x0d89_3f64, 0x4f12_1f81, 0x4f73_0a48]
        );
        assert_eq!(
            philox4x32_7([u32::MAX; 4], [u32::MAX; 2]),
            [0x5207_ddc2, 0x4516_5e59, 0x4d8e_e751, 0x8c52_f662]
        );
        assert_eq!(
            philox4x32_7(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0x4dfc_caba, 0x190a_87f0, 0xc473_62ba, 0xb6b5_242a]
        );
    }
}
