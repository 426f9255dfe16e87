//! A rank's own threads, and loops over row chunks whose results do not depend on their number.

use std::io;
use std::sync::Arc;

use rayon::prelude::*;

/// Rows a chunk of element-wise work.
pub(crate) const CHUNK_ROWS: usize = 512;

/// Runs chunks of work on a fixed number of threads.
#[derive(Clone, Debug)]
pub(crate) struct Threads {
    /// Absent with one thread: work then stays on the caller's.
    pool: Option<Arc<rayon::ThreadPool>>,
}

impl Threads {
    /// # Errors
    /// The operating system refuses the threads.
    pub(crate) fn try_new(n_threads: usize) -> io::Result<Self> {
        Self::build(n_threads, rayon::ThreadPoolBuilder::new())
    }

    fn build(n_threads: usize, builder: rayon::ThreadPoolBuilder) -> io::Result<Self> {
        if n_threads <= 1 {
            return Ok(Self { pool: None });
        }
        let pool = builder.num_threads(n_threads).build();
        // As text: what the system says is in it, and its source would say it once more.
        let pool = pool.map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self { pool: Some(Arc::new(pool)) })
    }

    /// Whether work can be shared out at all.
    pub(crate) fn are_several(&self) -> bool {
        self.pool.is_some()
    }

    /// Calls `work(first_row, rows)` on consecutive chunks of `chunk_rows` rows of `out`.
    pub(crate) fn row_chunks<T: Send>(
        &self,
        out: &mut [T],
        n_cols: usize,
        chunk_rows: usize,
        work: impl Fn(usize, &mut [T]) + Sync,
    ) {
        if out.is_empty() {
            return;
        }
        let size = chunk_rows * n_cols;
        match &self.pool {
            Some(pool) if out.len() > size => pool.install(|| {
                out.par_chunks_mut(size)
                    .enumerate()
                    .for_each(|(chunk, rows)| work(chunk * chunk_rows, rows));
            }),
            _ => {
                for (chunk, rows) in out.chunks_mut(size).enumerate() {
                    work(chunk * chunk_rows, rows);
                }
            }
        }
    }

    /// Calls `work(first_row, rows)` on consecutive chunks of rows of `out`, which begin at `starts`.
    ///
    /// # Panics
    /// If `starts` does not ascend from 0 to at most the number of rows.
    pub(crate) fn uneven_chunks<T: Send>(
        &self,
        out: &mut [T],
        n_cols: usize,
        starts: &[u32],
        work: impl Fn(usize, &mut [T]) + Sync,
    ) {
        if out.is_empty() {
            return;
        }
        assert_eq!(starts.first(), Some(&0), "first row of the first chunk");
        match &self.pool {
            Some(pool) if starts.len() > 1 => {
                pool.install(|| split_chunks(out, n_cols, starts, &work));
            }
            _ => one_by_one(out, n_cols, starts, &work),
        }
    }

    /// Like [`Threads::row_chunks`] for two outputs with the same number of rows.
    pub(crate) fn row_chunks2<T: Send, U: Send>(
        &self,
        (first, first_cols): (&mut [T], usize),
        (second, second_cols): (&mut [U], usize),
        chunk_rows: usize,
        work: impl Fn(usize, &mut [T], &mut [U]) + Sync,
    ) {
        if first.is_empty() || second.is_empty() {
            return;
        }
        let (first_size, second_size) = (chunk_rows * first_cols, chunk_rows * second_cols);
        match &self.pool {
            Some(pool) if first.len() > first_size => pool.install(|| {
                first
                    .par_chunks_mut(first_size)
                    .zip(second.par_chunks_mut(second_size))
                    .enumerate()
                    .for_each(|(chunk, (a, b))| work(chunk * chunk_rows, a, b));
            }),
            _ => {
                let chunks = first.chunks_mut(first_size).zip(second.chunks_mut(second_size));
                for (chunk, (a, b)) in chunks.enumerate() {
                    work(chunk * chunk_rows, a, b);
                }
            }
        }
    }

    /// Calls `work(index, item)` for each item, on all threads.
    pub(crate) fn each<T: Send>(&self, items: Vec<T>, work: impl Fn(usize, T) + Sync) {
        match &self.pool {
            Some(pool) if items.len() > 1 => pool.install(|| {
                items.into_par_iter().enumerate().for_each(|(index, item)| work(index, item));
            }),
            _ => items.into_iter().enumerate().for_each(|(index, item)| work(index, item)),
        }
    }

    /// `work(item)` for each item in order, computed on all threads.
    pub(crate) fn map_items<T: Send, R: Send>(
        &self,
        items: Vec<T>,
        work: impl Fn(T) -> R + Sync,
    ) -> Vec<R> {
        match &self.pool {
            Some(pool) if items.len() > 1 => {
                pool.install(|| items.into_par_iter().map(&work).collect())
            }
            _ => items.into_iter().map(work).collect(),
        }
    }

    /// `work(0), ..., work(n - 1)` in order of the index, computed on all threads.
    pub(crate) fn map<R: Send>(&self, n: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
        match &self.pool {
            Some(pool) if n > 1 => pool.install(|| (0..n).into_par_iter().map(&work).collect()),
            _ => (0..n).map(work).collect(),
        }
    }
}

/// Works on chunks in order; `out` begins at the first of them.
fn one_by_one<T>(
    mut out: &mut [T],
    n_cols: usize,
    starts: &[u32],
    work: &(impl Fn(usize, &mut [T]) + Sync),
) {
    for (chunk, &start) in starts.iter().enumerate() {
        let n_rows = match starts.get(chunk + 1) {
            Some(&next) => (next - start) as usize,
            None => out.len() / n_cols,
        };
        let (rows, rest) = out.split_at_mut(n_rows * n_cols);
        work(start as usize, rows);
        out = rest;
    }
}

/// Halves the chunks until one is left, for other threads to take; nothing is allocated.
fn split_chunks<T: Send>(
    out: &mut [T],
    n_cols: usize,
    starts: &[u32],
    work: &(impl Fn(usize, &mut [T]) + Sync),
) {
    if starts.len() <= 1 {
        return one_by_one(out, n_cols, starts, work);
    }
    let (before, after) = starts.split_at(starts.len() / 2);
    let n_rows = (after[0] - before[0]) as usize;
    let (head, tail) = out.split_at_mut(n_rows * n_cols);
    rayon::join(
        || split_chunks(head, n_cols, before, work),
        || split_chunks(tail, n_cols, after, work),
    );
}

#[cfg(test)]
mod tests {
    use super::Threads;

    #[test]
    fn uneven_chunks_cover_every_row_once() {
        for n_threads in [1, 3] {
            let threads = Threads::try_new(n_threads).expect("a few threads");
            let mut out = vec![0; 2 * 50];
            let starts = [0, 3, 4, 17, 40, 41];
            threads.uneven_chunks(&mut out, 2, &starts, |first, rows| {
                assert!(starts.contains(&(first as u32)), "a chunk at {first}");
                for (offset, row) in rows.chunks_exact_mut(2).enumerate() {
                    row.iter_mut().for_each(|value| *value += first + offset + 1);
                }
            });
            let expected: Vec<usize> = (1..=50).flat_map(|row| [row, row]).collect();
            assert_eq!(out, expected, "{n_threads} threads");
        }
    }

    #[test]
    fn threads_that_the_system_refuses_are_an_error() {
        // No address space holds such a stack.
        let refused = |n_threads| {
            Threads::build(n_threads, rayon::ThreadPoolBuilder::new().stack_size(1 << 60))
        };
        assert!(refused(2).is_err());
        assert!(refused(1).is_ok(), "one thread is the caller's");
    }
}
