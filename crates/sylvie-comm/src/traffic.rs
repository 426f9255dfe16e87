//! Counts of what a rank has sent.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use crate::{Purpose, Tag};

/// Messages of exchanges and the bytes in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Count {
    /// Bytes of values.
    pub payload_bytes: u64,
    /// Bytes that say how to read the values, such as scales and zero points.
    pub metadata_bytes: u64,
    /// Messages.
    pub n_messages: u64,
}

impl Count {
    /// Payload and metadata.
    #[must_use]
    pub const fn total_bytes(&self) -> u64 {
        self.payload_bytes + self.metadata_bytes
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.payload_bytes += other.payload_bytes;
        self.metadata_bytes += other.metadata_bytes;
        self.n_messages += other.n_messages;
    }
}

/// Calls of a collective and the bytes that this rank contributed to other ranks.
///
/// # Example
/// ```
/// use sylvie_comm::{CollectiveCount, CommError, Communicator, ThreadOptions, Threads, run_ranks};
///
/// let gathered = run_ranks(3, &ThreadOptions::default(), |comm: &mut Threads<Vec<u8>>| {
///     comm.all_gather(&[0; 5])?;
///     Ok::<_, CommError>(comm.traffic().gathered)
/// })?;
/// assert_eq!(gathered, [CollectiveCount { n_calls: 1, n_bytes: 2 * 5 }; 3]); // to two others
/// # Ok::<(), sylvie_comm::RankError<CommError>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CollectiveCount {
    /// Completed calls.
    pub n_calls: u64,
    /// Bytes. They follow from the arguments alone, so that they are the same on every transport,
    /// whichever way its collectives go: see [`Traffic::gathered`] and [`Traffic::reduced`].
    pub n_bytes: u64,
}

impl CollectiveCount {
    pub(crate) fn record(&mut self, n_bytes: usize) {
        self.n_calls += 1;
        self.n_bytes += n_bytes as u64;
    }
}

impl AddAssign for CollectiveCount {
    fn add_assign(&mut self, other: Self) {
        self.n_calls += other.n_calls;
        self.n_bytes += other.n_bytes;
    }
}

/// What one rank has sent since the counts were last taken.
///
/// Bytes are those of the buffers; what a transport adds (headers, retransmissions) is not in them.
///
/// # Cost
/// One entry per tag: whoever trains for many epochs takes the counts once in a while.
///
/// # Example
/// ```
/// use sylvie_comm::{Count, Pass, Purpose, Tag, Traffic};
///
/// let forward = Tag { epoch: 3, layer: 1, pass: Pass::Forward, purpose: Purpose::Training };
/// let backward = Tag { pass: Pass::Backward, ..forward };
/// let mut traffic = Traffic::default();
/// traffic.record(forward, 16, 4);
/// traffic.record(backward, 32, 4);
/// let count = Count { payload_bytes: 16, metadata_bytes: 4, n_messages: 1 };
/// assert_eq!((traffic.of(forward), count.total_bytes()), (count, 20));
/// assert_eq!(traffic.sum(|tag| tag.layer == 1).metadata_bytes, 8);
/// assert_eq!(traffic.of_purpose(Purpose::Evaluation).n_messages, 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    by_tag: BTreeMap<Tag, Count>,
    /// Calls of `all_gather`, each counted as its length times the number of other ranks.
    pub gathered: CollectiveCount,
    /// Calls of `reduce`: the slices sent to be summed, and the own summed slice to every other rank.
    pub reduced: CollectiveCount,
}

impl Traffic {
    /// Adds one message of an exchange.
    pub fn record(&mut self, tag: Tag, payload_bytes: u64, metadata_bytes: u64) {
        let count = Count { payload_bytes, metadata_bytes, n_messages: 1 };
        *self.by_tag.entry(tag).or_default() += count;
    }

    /// Adds the counts of `other`, another rank or a later time.
    pub fn merge(&mut self, other: &Self) {
        for (tag, count) in other.iter() {
            *self.by_tag.entry(tag).or_default() += count;
        }
        self.gathered += other.gathered;
        self.reduced += other.reduced;
    }

    /// The counts of every tag under which something was sent, in the order of tags.
    pub fn iter(&self) -> impl Iterator<Item = (Tag, Count)> + '_ {
        self.by_tag.iter().map(|(&tag, &count)| (tag, count))
    }

    /// The counts of one tag; zeros if nothing was sent under it.
    #[must_use]
    pub fn of(&self, tag: Tag) -> Count {
        self.by_tag.get(&tag).copied().unwrap_or_default()
    }

    /// The sum over the tags that `select` accepts.
    #[must_use]
    pub fn sum(&self, select: impl Fn(Tag) -> bool) -> Count {
        let mut sum = Count::default();
        for (tag, count) in self.iter() {
            if select(tag) {
                sum += count;
            }
        }
        sum
    }

    /// The sum over the tags of one purpose, so that evaluation is counted apart from training.
    #[must_use]
    pub fn of_purpose(&self, purpose: Purpose) -> Count {
        self.sum(|tag| tag.purpose == purpose)
    }
}

#[cfg(test)]
mod tests {
    use super::{Count, Traffic};
    use crate::{Pass, Purpose, Tag};

    #[test]
    fn counts_add_up_by_tag_and_purpose() {
        let training = Tag { epoch: 1, layer: 2, pass: Pass::Backward, purpose: Purpose::Training };
        let evaluation = Tag { purpose: Purpose::Evaluation, ..training };
        let mut traffic = Traffic::default();
        traffic.record(training, 10, 4);
        traffic.record(training, 20, 4);
        traffic.record(evaluation, 100, 0);
        traffic.gathered.record(7);
        let mut doubled = traffic.clone();
        doubled.merge(&traffic);

        let expected = Count { payload_bytes: 30, metadata_bytes: 8, n_messages: 2 };
        assert_eq!(traffic.of(training), expected);
        assert_eq!(traffic.of_purpose(Purpose::Training), expected);
        assert_eq!(expected.total_bytes(), 38);
        assert_eq!(traffic.of(Tag { epoch: 0, ..training }), Count::default());
        assert_eq!(doubled.of_purpose(Purpose::Evaluation).payload_bytes, 200);
        assert_eq!((doubled.gathered.n_calls, doubled.gathered.n_bytes), (2, 14));
        assert_eq!(doubled.iter().count(), 2);
    }
}
