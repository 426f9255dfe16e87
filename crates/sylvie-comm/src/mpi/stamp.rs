//! What a message is: sixteen bytes behind its own.

use sylvie_random::Pass;

use crate::{Purpose, Tag};

/// What a message says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// It belongs to the exchange with this tag.
    Exchange(Tag),
    /// It is a rank's contribution to an `all_gather`.
    Gathered,
    /// It is a slice of a vector of so many values.
    Reduced { n_values: u64 },
    /// It is the last one of its rank.
    Goodbye,
}

/// Bytes behind each message.
///
/// They stand behind and not before, so that a buffer with room at its end is sent as it is, and the
/// receiver's loses them by being cut.
pub(super) const STAMP_BYTES: usize = 16;

/// Layout of what follows: changes with it, so that ranks of different versions find out.
const VERSION: u8 = 1;

impl Stamp {
    /// Layout: `S`, version, kind, pass, purpose, 0, layer (u16), epoch or number of values (u64),
    /// little-endian.
    pub(super) fn to_bytes(self) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        bytes[..2].copy_from_slice(&[b'S', VERSION]);
        let number = match self {
            Self::Exchange(Tag { epoch, layer, pass, purpose }) => {
                bytes[3] = u8::from(pass == Pass::Backward);
                bytes[4] = PURPOSES.iter().position(|&p| p == purpose).unwrap_or(0) as u8;
                bytes[6..8].copy_from_slice(&layer.to_le_bytes());
                u64::from(epoch)
            }
            Self::Reduced { n_values } => n_values,
            Self::Gathered | Self::Goodbye => 0,
        };
        bytes[2] = self.kind();
        bytes[8..].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    const fn kind(self) -> u8 {
        match self {
            Self::Exchange(_) => 0,
            Self::Gathered => 1,
            Self::Reduced { .. } => 2,
            Self::Goodbye => 3,
        }
    }

    /// What [`to_bytes`](Self::to_bytes) wrote, and nothing else.
    pub(super) fn from_bytes(bytes: [u8; STAMP_BYTES]) -> Option<Self> {
        let [_, _, kind, pass, purpose, _, layer_low, layer_high, number @ ..] = bytes;
        let number = u64::from_le_bytes(number);
        let stamp = match kind {
            0 => Self::Exchange(Tag {
                epoch: u32::try_from(number).ok()?,
                layer: u16::from_le_bytes([layer_low, layer_high]),
                pass: if pass == 0 { Pass::Forward } else { Pass::Backward },
                purpose: *PURPOSES.get(usize::from(purpose))?,
            }),
            1 => Self::Gathered,
            2 => Self::Reduced { n_values: number },
            3 => Self::Goodbye,
            _ => return None,
        };
        (stamp.to_bytes() == bytes).then_some(stamp)
    }

    /// Takes the stamp off a message.
    pub(super) fn cut(message: &mut Vec<u8>) -> Option<Self> {
        let stamp = Self::from_bytes(*message.last_chunk()?)?;
        message.truncate(message.len() - STAMP_BYTES);
        Some(stamp)
    }

    /// Puts the stamp behind a message.
    pub(super) fn append(self, message: &mut Vec<u8>) {
        message.reserve_exact(STAMP_BYTES);
        message.extend_from_slice(&self.to_bytes());
    }
}

const PURPOSES: [Purpose; 3] = [Purpose::Setup, Purpose::Training, Purpose::Evaluation];

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};
    use sylvie_random::Pass;

    use super::{PURPOSES, Stamp};
    use crate::Tag;

    #[test]
    fn every_kind_comes_back() {
        let mut stamps = vec![Stamp::Gathered, Stamp::Goodbye];
        stamps.extend([0, 7, u64::MAX].map(|n_values| Stamp::Reduced { n_values }));
        for (epoch, layer) in [(0, 0), (u32::MAX, 3), (1 << 20, u16::MAX)] {
            for pass in [Pass::Forward, Pass::Backward] {
                let tags = PURPOSES.map(|purpose| Tag { epoch, layer, pass, purpose });
                stamps.extend(tags.map(Stamp::Exchange));
            }
        }
        for stamp in stamps {
            let mut message = vec![1, 2, 3];
            stamp.append(&mut message);
            assert_eq!(Stamp::cut(&mut message), Some(stamp));
            assert_eq!(message, [1, 2, 3]);
        }
    }

    proptest! {
        #[test]
        fn other_bytes_are_refused(mut message in any::<Vec<u8>>(), place in 0..16_usize, flip in 1..=255_u8) {
            // Random bytes begin with the mark of this version once in 65536 times, and then hardly
            // ever go on as a stamp does.
            assert_eq!(Stamp::cut(&mut message.clone()), None);
            Stamp::Gathered.append(&mut message);
            let at = message.len() - 16 + place;
            message[at] ^= flip;
            let changed = Stamp::cut(&mut message);
            assert_ne!(changed, Some(Stamp::Gathered));
        }
    }

    #[test]
    fn a_short_message_has_no_stamp() {
        assert_eq!(Stamp::cut(&mut Stamp::Goodbye.to_bytes()[1..].to_vec()), None);
        assert_eq!(Stamp::cut(&mut Vec::new()), None);
    }
}
