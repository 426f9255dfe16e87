//! Independence of roundings: of values in a row, of rows, epochs, layers, passes, readers and seeds.
//!
//! A value midway between two levels is a fair coin. Products of coins at two different places are fair
//! coins again, and those along one lag form a martingale with steps of 1, so that Azuma's bound holds for
//! their mean: each alarm has a probability below 1e-10, a run of all below 1e-8.

use sylvie_lowbit::{MetadataType, RowCodec, Width};
use sylvie_random::{Coordinates, Family, Pass, Stream};

use crate::statistics::allowed_deviation;

const N_KEYS: usize = 2048;
const N_COLS: usize = 130;

/// Signs, +1 or -1, of the values midway between the ends, row by row.
struct Coins(Vec<f64>);

impl Coins {
    fn toss(family: Family) -> Self {
        let mut row = vec![0.5; N_COLS + 2];
        (row[N_COLS], row[N_COLS + 1]) = (0.0, 1.0);
        let x = row.repeat(N_KEYS);
        let keys: Vec<u32> = (0..N_KEYS as u32).collect();
        let codec = RowCodec { width: Width::One, metadata: MetadataType::F32 };
        let mut message = vec![0; codec.message_bytes(N_KEYS, row.len())];
        codec.encode_all(&x, row.len(), &keys, family, &mut message).expect("finite");
        let mut decoded = vec![0.0; x.len()];
        codec.decode_rows(&message, row.len(), &mut decoded).expect("just encoded");
        let signs = decoded.chunks(row.len()).flat_map(|row| &row[..N_COLS]);
        Self(signs.map(|&value| f64::from(value) * 2.0 - 1.0).collect())
    }

    fn at(&self, key: usize, column: usize) -> f64 {
        self.0[key * N_COLS + column]
    }

    /// Whether the coins of both, those of `other` further on by the lags, seem independent.
    fn seem_independent(&self, other: &Self, key_lag: usize, column_lag: usize) -> bool {
        let (n_keys, n_cols) = (N_KEYS - key_lag, N_COLS - column_lag);
        let mut sum = 0.0;
        for key in 0..n_keys {
            for column in 0..n_cols {
                sum += self.at(key, column) * other.at(key + key_lag, column + column_lag);
            }
        }
        let n = n_keys * n_cols;
        (sum / n as f64).abs() <= allowed_deviation(4.0, n)
    }
}

fn base() -> Coordinates {
    Coordinates::new(31, Stream::Rounding).at(5, 1, Pass::Forward)
}

#[test]
fn columns_and_rows() {
    let coins = Coins::toss(base().family());
    // Bytes of a word, words of a block, blocks, registers of blocks; neighbouring and distant keys.
    for column_lag in [1, 2, 3, 4, 8, 12, 15, 16, 17, 32, 48, 64, 128] {
        assert!(coins.seem_independent(&coins, 0, column_lag), "columns {column_lag} apart");
    }
    for key_lag in [1, 2, 3, 4, 8, 16, 64, 256, 1024] {
        for column_lag in [0, 1, 4, 16] {
            let what = format!("keys {key_lag} and columns {column_lag} apart");
            assert!(coins.seem_independent(&coins, key_lag, column_lag), "{what}");
        }
    }
}

#[test]
fn every_other_coordinate() {
    let coins = Coins::toss(base().family());
    let others = [
        base().at(6, 1, Pass::Forward),
        base().at(5 + 256, 1, Pass::Forward),
        base().at(5, 2, Pass::Forward),
        base().at(5, 1, Pass::Backward),
        base().reader(0),
        base().reader(1),
        Coordinates { seed: 32, ..base() },
        Coordinates { seed: 31 | 1 << 32, ..base() },
    ];
    for coordinates in others {
        let other = Coins::toss(coordinates.family());
        for (key_lag, column_lag) in [(0, 0), (0, 1), (1, 0), (0, 16)] {
            let independent = coins.seem_independent(&other, key_lag, column_lag);
            assert!(independent, "{coordinates:?} {key_lag} {column_lag}");
        }
    }
}

/// Heads as often as tails.
#[test]
fn coins_are_fair() {
    let coins = Coins::toss(base().family());
    let mean = coins.0.iter().sum::<f64>() / coins.0.len() as f64;
    assert!(mean.abs() <= allowed_deviation(4.0, coins.0.len()), "{mean}");
}

/// The bound sees a shared coordinate, one dither for a whole row, and one coin in fifty shared.
#[test]
fn dependence_is_caught() {
    let coins = Coins::toss(base().family());
    assert!(!coins.seem_independent(&coins, 0, 0), "the same epoch twice");
    let of_row = |key: usize| (0..N_COLS).map(move |_| key);
    let dither: Vec<f64> = (0..N_KEYS).flat_map(of_row).map(|key| coins.at(key, 0)).collect();
    let dither = Coins(dither);
    assert!(!dither.seem_independent(&dither, 0, 1), "one dither for a row");
    let other = Coins::toss(base().at(6, 1, Pass::Forward).family());
    let pairs = coins.0.iter().zip(&other.0).enumerate();
    let shared = pairs.map(|(idx, (&own, &other))| if idx % 50 == 0 { own } else { other });
    assert!(!coins.seem_independent(&Coins(shared.collect()), 0, 0), "one coin in fifty");
}
