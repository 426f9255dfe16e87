//! Which machine a rank computes on.

use std::fmt;
use std::str::FromStr;

use anyhow::Result;
use sylvie::comm::Communicator;
use sylvie::tensor::Wire;

#[cfg(not(feature = "cuda"))]
mod disabled;
#[cfg(feature = "cuda")]
mod enabled;

#[cfg(all(feature = "mpi", not(feature = "cuda")))]
pub(crate) use disabled::Opened;
#[cfg(not(feature = "cuda"))]
pub(crate) use disabled::{list, run};
#[cfg(all(feature = "mpi", feature = "cuda"))]
pub(crate) use enabled::Opened;
#[cfg(feature = "cuda")]
pub(crate) use enabled::{list, run};

/// The machine that ranks compute on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    /// Threads of the host.
    Cpu,
    /// CUDA devices, given to ranks in turn; all that there are, where none is named.
    Cuda(Vec<usize>),
}

impl Machine {
    /// The kind of machine, which decides the bits.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda(_) => "cuda",
        }
    }
}

impl FromStr for Machine {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let refusal =
            || format!("`{word}` is neither cpu, nor cuda, nor cuda: with numbers, as in cuda:0,1");
        match word.split_once(':') {
            None if word == "cpu" => Ok(Self::Cpu),
            None if word == "cuda" => Ok(Self::Cuda(Vec::new())),
            Some(("cuda", numbers)) => {
                let numbers =
                    numbers.split(',').map(|number| number.parse().map_err(|_| refusal()));
                numbers.collect::<Result<_, _>>().map(Self::Cuda)
            }
            _ => Err(refusal()),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(numbers) if numbers.is_empty() => f.write_str("cuda"),
            Self::Cuda(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
                write!(f, "cuda:{}", numbers.join(","))
            }
        }
    }
}

/// What a rank does, on whatever machine and transport.
pub(crate) trait RankBody<T>: Sync {
    /// Runs one rank to its end.
    ///
    /// # Errors
    /// Whatever ends it early.
    fn run<B: Wire, C: Communicator<Buffer = B::Bytes>>(
        &self,
        backend: &B,
        comm: &mut C,
    ) -> Result<T>;
}

/// As [`RankBody`], for the one rank of a process.
#[cfg(feature = "mpi")]
pub(crate) trait ProcessBody<T> {
    /// Runs the rank to its end.
    ///
    /// # Errors
    /// Whatever ends it early.
    fn run<B: Wire, C: Communicator<Buffer = B::Bytes>>(
        self,
        backend: &B,
        comm: &mut C,
    ) -> Result<T>;
}

#[cfg(test)]
mod tests {
    use super::Machine;

    #[test]
    fn machines_are_read_as_they_are_shown() {
        for (word, machine) in [
            ("cpu", Machine::Cpu),
            ("cuda", Machine::Cuda(vec![])),
            ("cuda:3", Machine::Cuda(vec![3])),
            ("cuda:0,2,0", Machine::Cuda(vec![0, 2, 0])),
        ] {
            assert_eq!(word.parse(), Ok(machine.clone()));
            assert_eq!(machine.to_string(), word);
        }
        for word in ["", "gpu", "cuda:", "cuda:x", "cuda:1,", "cpu:0", "cuda:-1"] {
            word.parse::<Machine>().unwrap_err();
        }
    }
}
