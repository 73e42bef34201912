//! Fixed blocks of work over a thread pool, so that results never depend on the number of threads.
//!
//! Work is cut into blocks whose size the thread count does not enter; each block is evaluated by one worker and
//! writes into its own slot; the slots are added up by a fixed binary tree over their numbers.

mod awake;

use std::sync::{Arc, Mutex, MutexGuard};

use rayon::prelude::*;

use crate::Error;

/// Work estimated below this stays on the calling thread: waking another costs about as much.
pub const INLINE_NANOSECONDS: f64 = 20_000.0;

/// A thread pool of a chosen size. Everything a run does happens inside [`Pool::install`].
pub struct Pool(rayon::ThreadPool);

impl Pool {
    /// A pool of `threads` workers, or one for each core if `None`.
    pub fn new(threads: Option<usize>) -> Result<Self, Error> {
        let workers = Arc::new(awake::Workers::default());
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads.unwrap_or(0))
            .thread_name(|i| format!("motes-{i}"))
            .start_handler(move |_| awake::belong_to(&workers))
            .build()
            .map(Pool)
            .map_err(|e| {
                Error::Settings(format!("cannot start the threads: {e}; ask for fewer with `threads`"))
            })
    }

    /// Runs `f` on this pool.
    pub fn install<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        self.0.install(f)
    }

    /// The number of workers.
    pub fn threads(&self) -> usize {
        self.0.current_num_threads()
    }
}

/// Calls `f(block, a, b)` for each pair of chunks, in parallel if asked.
///
/// Chunk i of `a` has `a_chunk` elements (the last may be shorter), chunk i of `b` has `b_chunk`.
/// If some calls fail, the error of the lowest block is returned, whichever came first.
pub fn for_each2<A: Send, B: Send, E: Send>(
    parallel: bool,
    (a, a_chunk): (&mut [A], usize),
    (b, b_chunk): (&mut [B], usize),
    f: impl Fn(usize, &mut [A], &mut [B]) -> Result<(), E> + Sync,
) -> Result<(), E> {
    if (1..=a_chunk).contains(&a.len()) && (1..=b_chunk).contains(&b.len()) {
        return f(0, a, b); // without the divisions that cutting takes: small steps are made of as much
    }
    if !parallel {
        let mut pairs = a.chunks_mut(a_chunk).zip(b.chunks_mut(b_chunk)).enumerate();
        return pairs.try_for_each(|(i, (a, b))| f(i, a, b));
    }
    let pairs = a.par_chunks_mut(a_chunk).zip(b.par_chunks_mut(b_chunk));
    lowest_error(numbered(pairs).map(|(i, (a, b))| (i, f(i, a, b))))
}

/// Calls `f(block, a, b, c)` for each three chunks, as [`for_each2`] does.
pub fn for_each3<A: Send, B: Send, C: Send, E: Send>(
    parallel: bool,
    (a, a_chunk): (&mut [A], usize),
    (b, b_chunk): (&mut [B], usize),
    (c, c_chunk): (&mut [C], usize),
    f: impl Fn(usize, &mut [A], &mut [B], &mut [C]) -> Result<(), E> + Sync,
) -> Result<(), E> {
    if [(a.len(), a_chunk), (b.len(), b_chunk), (c.len(), c_chunk)]
        .iter()
        .all(|(len, chunk)| (1..=*chunk).contains(len))
    {
        return f(0, a, b, c);
    }
    if !parallel {
        let chunks = a.chunks_mut(a_chunk).zip(b.chunks_mut(b_chunk)).zip(c.chunks_mut(c_chunk));
        return chunks.enumerate().try_for_each(|(i, ((a, b), c))| f(i, a, b, c));
    }
    let chunks = a.par_chunks_mut(a_chunk).zip(b.par_chunks_mut(b_chunk)).zip(c.par_chunks_mut(c_chunk));
    lowest_error(numbered(chunks).map(|(i, ((a, b), c))| (i, f(i, a, b, c))))
}

/// Calls `f(block, a, b, c, d, e)` for each five chunks, as [`for_each2`] does.
pub fn for_each5<A: Send, B: Send, C: Send, D: Send, E: Send, Fault: Send>(
    parallel: bool,
    (a, a_chunk): (&mut [A], usize),
    (b, b_chunk): (&mut [B], usize),
    (c, c_chunk): (&mut [C], usize),
    (d, d_chunk): (&mut [D], usize),
    (e, e_chunk): (&mut [E], usize),
    f: impl Fn(usize, &mut [A], &mut [B], &mut [C], &mut [D], &mut [E]) -> Result<(), Fault> + Sync,
) -> Result<(), Fault> {
    if !parallel {
        let chunks = a.chunks_mut(a_chunk).zip(b.chunks_mut(b_chunk)).zip(c.chunks_mut(c_chunk));
        let mut chunks = chunks.zip(d.chunks_mut(d_chunk)).zip(e.chunks_mut(e_chunk)).enumerate();
        return chunks.try_for_each(|(i, ((((a, b), c), d), e))| f(i, a, b, c, d, e));
    }
    let chunks = a.par_chunks_mut(a_chunk).zip(b.par_chunks_mut(b_chunk)).zip(c.par_chunks_mut(c_chunk));
    let chunks = chunks.zip(d.par_chunks_mut(d_chunk)).zip(e.par_chunks_mut(e_chunk));
    lowest_error(numbered(chunks).map(|(i, ((((a, b), c), d), e))| (i, f(i, a, b, c, d, e))))
}

/// Calls `f(block, a)` for each chunk of `a_chunk` elements, as [`for_each2`] does.
pub fn for_each<A: Send, E: Send>(
    parallel: bool,
    (a, a_chunk): (&mut [A], usize),
    f: impl Fn(usize, &mut [A]) -> Result<(), E> + Sync,
) -> Result<(), E> {
    if !parallel {
        return a.chunks_mut(a_chunk).enumerate().try_for_each(|(i, a)| f(i, a));
    }
    lowest_error(numbered(a.par_chunks_mut(a_chunk)).map(|(i, a)| (i, f(i, a))))
}

/// The blocks with their numbers, for workers that are awake.
fn numbered<I: IndexedParallelIterator>(blocks: I) -> impl IndexedParallelIterator<Item = (usize, I::Item)> {
    awake::wake();
    blocks.enumerate()
}

fn lowest_error<E: Send>(results: impl ParallelIterator<Item = (usize, Result<(), E>)>) -> Result<(), E> {
    let errors = results.filter_map(|(i, r)| r.err().map(|e| (i, e)));
    errors.min_by_key(|(i, _)| *i).map_or(Ok(()), |(_, e)| Err(e))
}

/// One workspace per worker, lent for the length of a block. Its contents never carry over between blocks.
pub struct PerWorker<W>(Vec<Mutex<W>>);

impl<W> PerWorker<W> {
    /// A workspace for each worker of the current pool.
    pub fn new(make: impl Fn() -> W) -> Self {
        PerWorker((0..rayon::current_num_threads().max(1)).map(|_| Mutex::new(make())).collect())
    }

    /// Whether there is one for each worker of the current pool.
    pub fn fits(&self) -> bool {
        self.0.len() >= rayon::current_num_threads()
    }

    /// The calling worker's own workspace.
    pub fn get(&self) -> MutexGuard<'_, W> {
        let worker = rayon::current_thread_index().unwrap_or(0);
        // A division takes as long as the rest of this.
        let worker = if worker < self.0.len() { worker } else { worker % self.0.len() };
        self.0[worker].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Adds the slots up into the first one, by a binary tree over their numbers: slot 2i and its neighbour 2i + 1 first, then
/// these pairs, and so on. A part of the slots that is a node of the tree can be added up by itself, wherever the others are,
/// and the total has the same bits.
pub fn sum_slots(slots: &mut [f64], width: usize) -> &mut [f64] {
    join_slots(slots, width, |from, into| into.iter_mut().zip(from).for_each(|(i, f)| *i += f))
}

/// Joins the slots in the first one by the same tree, in a way of the caller's: `join(from, into)`.
pub fn join_slots(slots: &mut [f64], width: usize, join: impl Fn(&[f64], &mut [f64])) -> &mut [f64] {
    let mut stride = width;
    while stride < slots.len() {
        for pair in slots.chunks_mut(2 * stride).filter(|pair| pair.len() > stride) {
            let (left, right) = pair.split_at_mut(stride);
            join(&right[..width], &mut left[..width]);
        }
        stride *= 2;
    }
    &mut slots[..width]
}

/// The sum of one number of each slot, by the same tree; the slots stay as they are.
pub fn sum_of_column(slots: &[f64], width: usize, column: usize) -> f64 {
    match slots.len() / width {
        0 => 0.0,
        1 => slots[column],
        count => {
            let (left, right) = slots.split_at(count.next_power_of_two() / 2 * width);
            sum_of_column(left, width, column) + sum_of_column(right, width, column)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_node_of_the_tree_can_be_summed_apart() {
        let values: Vec<f64> = (0..37).map(|i| (f64::from(i) * 0.7).sin() * 10f64.powi(i % 9)).collect();
        for count in 1..=values.len() {
            let mut all = values[..count].to_vec();
            let total = sum_slots(&mut all, 1)[0];
            assert_eq!(sum_of_column(&values[..count], 1, 0).to_bits(), total.to_bits(), "{count}");
            for node in [1, 2, 4, 8, 16] {
                let mut sums: Vec<f64> =
                    values[..count].chunks(node).map(|part| sum_slots(&mut part.to_vec(), 1)[0]).collect();
                assert_eq!(sum_slots(&mut sums, 1)[0].to_bits(), total.to_bits(), "{count} {node}");
            }
        }
        let mut pairs = [1.0, 10.0, 2.0, 20.0, 3.0, 30.0];
        assert_eq!(sum_slots(&mut pairs, 2), [6.0, 60.0]);
    }
}
