//! Where a draw is used, and how that becomes a counter.

use crate::philox::{philox4x32, philox4x32_7, philox4x32_lanes};

/// Direction of a layer's computation.
///
/// # Example
/// ```
/// use sylvie_random::Pass;
///
/// assert_eq!([Pass::Forward, Pass::Backward].map(Pass::name), ["forward", "backward"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pass {
    /// From features to loss; embeddings are exchanged.
    Forward,
    /// From loss to weights; gradients of halo rows are exchanged.
    Backward,
}

impl Pass {
    /// The word used in messages and files: `forward` or `backward`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        }
    }
}

/// What a family of draws is for; draws of different streams are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Stream {
    /// Initial weights.
    Weights = 0,
    /// Dropout of a layer's input rows.
    Dropout = 1,
    /// Dropout of the first layer's kept aggregate.
    DropoutAggregate = 2,
    /// Stochastic rounding of exchanged rows.
    Rounding = 3,
    /// Boundary sampling.
    Sampling = 4,
    /// Random splits of nodes into training, validation and test.
    Split = 5,
    /// Random partitions.
    Partition = 6,
    /// Generated graphs.
    Generator = 7,
}

/// The coordinates that a family of draws has in common; node and column are given per draw.
///
/// # Example
/// ```
/// use sylvie_random::{Coordinates, Pass, Stream};
///
/// let rounding = Coordinates::new(7, Stream::Rounding).at(3, 1, Pass::Backward);
/// let [for_part_0, for_part_1] = [0, 1].map(|part| rounding.reader(part).family());
/// // Columns 4 to 7 of node 42, whoever asks, and in whatever order.
/// assert_eq!(for_part_0.block(42, 1), for_part_0.block(42, 1));
/// assert_ne!(for_part_0.block(42, 1), for_part_1.block(42, 1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coordinates {
    /// Seed of the run.
    pub seed: u64,
    /// Epoch, from 0.
    pub epoch: u32,
    /// Purpose.
    pub stream: Stream,
    /// Layer, from 0.
    pub layer: u8,
    /// Forward or backward.
    pub pass: Pass,
    /// The part that reads the row, where rows are drawn per (reader, owner) pair.
    pub reader: Option<u16>,
}

impl Coordinates {
    /// Coordinates of `stream` at epoch 0, layer 0, forward, without a reader.
    #[must_use]
    pub const fn new(seed: u64, stream: Stream) -> Self {
        Self { seed, epoch: 0, stream, layer: 0, pass: Pass::Forward, reader: None }
    }

    /// The same stream at another epoch, layer and pass.
    #[must_use]
    pub const fn at(self, epoch: u32, layer: u8, pass: Pass) -> Self {
        Self { epoch, layer, pass, ..self }
    }

    /// The same coordinates for rows that `reader` alone reads.
    #[must_use]
    pub const fn reader(self, reader: u16) -> Self {
        Self { reader: Some(reader), ..self }
    }

    /// The generator of these coordinates.
    #[must_use]
    pub const fn family(self) -> Family {
        let reader = match self.reader {
            None => 0,
            Some(reader) => reader as u32 + 1,
        };
        let pass = match self.pass {
            Pass::Forward => 0,
            Pass::Backward => 1,
        };
        let tag = (self.stream as u32) << 26 | (self.layer as u32) << 18 | pass << 17 | reader;
        Family { key: [self.seed as u32, (self.seed >> 32) as u32], epoch: self.epoch, tag }
    }
}

/// A generator of 128-bit blocks, addressed by node and column block.
///
/// # Layout
/// Key: low and high word of the seed. Counter: `[column block, node, epoch, tag]` with
/// `tag = stream << 26 | layer << 18 | pass << 17 | reader + 1` (0 without a reader).
///
/// # Example
/// ```
/// use sylvie_random::{Coordinates, Pass, Stream, unit_f32};
///
/// let dropout = Coordinates::new(7, Stream::Dropout).at(3, 1, Pass::Forward).family();
/// // One number for column 6 of node 42: the third word of its second block.
/// let number = unit_f32(dropout.block(42, 1)[2]);
/// assert!((0.0..1.0).contains(&number));
/// // Two blocks at once, word by word.
/// let words = dropout.blocks(42, [0, 1]);
/// assert_eq!(unit_f32(words[2][1]), number);
/// // Seven rounds give other numbers than ten.
/// assert_ne!(dropout.short_block(42, 1), dropout.block(42, 1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Family {
    /// Philox key: the seed's low and high word.
    pub key: [u32; 2],
    /// Third word of the counter.
    pub epoch: u32,
    /// Fourth word of the counter.
    pub tag: u32,
}

impl Family {
    /// The four random words of `(node, column_block)`.
    #[inline]
    #[must_use]
    pub const fn block(&self, node: u32, column_block: u32) -> [u32; 4] {
        philox4x32([column_block, node, self.epoch, self.tag], self.key)
    }

    /// The four random words of `(node, column_block)` by the generator with 7 rounds; they have
    /// nothing to do with those of [`Self::block`].
    #[inline]
    #[must_use]
    pub const fn short_block(&self, node: u32, column_block: u32) -> [u32; 4] {
        philox4x32_7([column_block, node, self.epoch, self.tag], self.key)
    }

    /// The blocks of `N` column blocks side by side: word `w` of `column_blocks[lane]`'s block is
    /// `[w][lane]`.
    #[inline(always)]
    #[must_use]
    pub fn blocks<const N: usize>(&self, node: u32, column_blocks: [u32; N]) -> [[u32; N]; 4] {
        philox4x32_lanes([column_blocks, [node; N], [self.epoch; N], [self.tag; N]], self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::{Coordinates, Pass, Stream};

    #[test]
    fn every_coordinate_changes_the_draw() {
        let base = Coordinates::new(1, Stream::Rounding);
        let others = [
            Coordinates::new(2, Stream::Rounding),
            Coordinates::new(1 << 32 | 1, Stream::Rounding),
            Coordinates::new(1, Stream::Dropout),
            base.at(1, 0, Pass::Forward),
            base.at(0, 1, Pass::Forward),
            base.at(0, 0, Pass::Backward),
            base.reader(0),
            base.reader(u16::MAX),
        ];
        for other in others {
            assert_ne!(base.family().block(5, 6), other.family().block(5, 6), "{other:?}");
        }
        assert_ne!(base.family().block(5, 6), base.family().block(6, 5));
    }

    #[test]
    fn tags_do_not_overlap() {
        let a = Coordinates::new(1, Stream::Weights).at(0, 255, Pass::Backward).reader(u16::MAX);
        let b = Coordinates::new(1, Stream::Dropout);
        assert!(a.family().tag < b.family().tag);
    }
}
