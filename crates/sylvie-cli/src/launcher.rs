//! Whoever started this process together with others: `mpirun`, `mpiexec`, `srun`.

use std::env;
use std::ffi::{OsStr, OsString};

/// Variables in which launchers tell a process its number and how many there are: Open MPI's, MPICH's, Slurm's.
const VARIABLES: [(&str, &str); 3] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
];
/// Transports that may join processes.
const OF_PROCESSES: [&str; 2] = ["mpi", "nccl"];

/// One of several processes that were started together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Started {
    /// Its number, from 0.
    pub(crate) number: usize,
    /// All of them: two at least.
    pub(crate) n_processes: usize,
}

/// This process and those that were started with it, where there are several.
pub(crate) fn started() -> Option<Started> {
    started_by(|name| env::var(name).ok())
}

/// Its number among them.
pub(crate) fn number() -> Option<usize> {
    started().map(|started| started.number)
}

fn started_by(variable: impl Fn(&str) -> Option<String>) -> Option<Started> {
    let count = |name: &str| variable(name)?.trim().parse::<usize>().ok();
    let found = VARIABLES.iter().find_map(|(number, size)| Some((count(number)?, count(size)?)));
    let started = found.map(|(number, n_processes)| Started { number, n_processes });
    started.filter(|started| started.n_processes > 1)
}

/// Whether this process is to print what is wrong with its command line.
///
/// Ranks of one job are given the same words, and the first says it for all. Processes that are no ranks speak
/// for themselves, whoever started them.
pub(crate) fn is_heard(words: &[OsString]) -> bool {
    !asks_for_processes(words) || number().is_none_or(|number| number == 0)
}

fn asks_for_processes(words: &[OsString]) -> bool {
    let is_one = |word: &OsStr| OF_PROCESSES.iter().any(|name| word == *name);
    let in_one_word = |word: &OsString| {
        let value = word.to_str().and_then(|word| word.strip_prefix("--transport="));
        value.is_some_and(|value| is_one(OsStr::new(value)))
    };
    words.iter().any(in_one_word)
        || words.windows(2).any(|pair| pair[0] == "--transport" && is_one(&pair[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_tell_who_is_who() {
        let told = |pairs: &[(&str, &str)]| {
            let of = |name: &str| pairs.iter().find(|(key, _)| *key == name);
            let started = started_by(|name| of(name).map(|(_, value)| (*value).to_owned()));
            started.map(|started| (started.number, started.n_processes))
        };
        assert_eq!(told(&[]), None);
        assert_eq!(
            told(&[("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4")]),
            Some((2, 4))
        );
        assert_eq!(told(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]), Some((0, 2)));
        assert_eq!(told(&[("SLURM_PROCID", "3"), ("SLURM_STEP_NUM_TASKS", "4")]), Some((3, 4)));
        // A job of one, and the script of a batch job, are nobody's ranks.
        assert_eq!(told(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]), None);
        assert_eq!(told(&[("SLURM_PROCID", "0")]), None);
        assert_eq!(told(&[("PMI_RANK", "x"), ("PMI_SIZE", "2")]), None);
    }

    #[test]
    fn only_ranks_leave_it_to_the_first() {
        let asks = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            asks_for_processes(&words)
        };
        assert!(asks("sylvie train --transport mpi --bits 3") && asks("sylvie --transport=nccl"));
        assert!(!asks("sylvie train --bits 3") && !asks("sylvie train --transport threads"));
        assert!(!asks("sylvie train mpi --transport") && !asks("sylvie train --transport=mpii"));
    }
}
