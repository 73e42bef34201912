//! Who works: one process, or several that share the work of a run.
//!
//! All ranks make the same run with the same state. Only what takes long is shared: blocks have numbers that do not depend on who
//! works, a rank evaluates a run of them, and what they have written is exchanged. Sums are made by the binary tree over the
//! blocks' numbers ([`crate::blocks::sum_slots`]): a rank adds up the nodes that lie wholly in its run, and joins them with those
//! of the others. So theta, and all that follows from it, has the same bits for any number of ranks.
//!
//! A rank must never decide by itself: whatever one of them alone may know (a failure, a clock, a signal, a full disk) becomes known
//! to all in [`poll`], before anything is done about it.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::blocks::sum_slots;
use crate::{Error, ModelError, Stop};

/// The processes that share a run.
pub trait Ranks: Sync {
    /// The number of this one.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// Gathers the bytes of all ranks, in their order; rank r gives `lengths[r]` of them. Every rank must call it, with the same
    /// lengths, which sum up to less than 2^31.
    fn all_gather(&self, mine: &[u8], lengths: &[usize], all: &mut [u8]);
}

/// One process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Solo;

impl Ranks for Solo {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn all_gather(&self, mine: &[u8], _lengths: &[usize], all: &mut [u8]) {
        all.copy_from_slice(mine);
    }
}

/// Who works, and how they are told to end early: one process that is not told to, unless something else is said.
#[derive(Clone, Copy)]
pub struct Team<'a> {
    /// The processes that share the run.
    pub ranks: &'a dyn Ranks,
    /// Set by whoever wants long work to end early.
    pub stop: Stop<'a>,
}

impl Default for Team<'_> {
    fn default() -> Self {
        Stop::default().into()
    }
}

impl<'a> From<Stop<'a>> for Team<'a> {
    fn from(stop: Stop<'a>) -> Self {
        Team { ranks: &Solo, stop }
    }
}

/// Which of `count` blocks belong to a rank: runs of nearly equal length, in the order of the ranks.
pub fn share(rank: usize, size: usize, count: usize) -> Range<usize> {
    rank * count / size..(rank + 1) * count / size
}

/// What can go wrong, as ranks tell each other.
#[derive(Debug, Serialize, Deserialize)]
pub enum Told {
    /// The model has no value there.
    Rejected(String),
    /// It was to end early.
    Stopped,
    /// The model is at fault.
    Failed(String),
    /// A coordinate of this magnitude, bit by bit: it may be NaN.
    OutOfRange(u64),
    /// A log density that is NaN.
    Density,
    /// Anything else.
    Sentence(String),
}

/// A failure that ranks can tell each other of.
pub trait Tell: Sized {
    /// What the others hear.
    fn tell(&self) -> Told;
    /// What they make of it.
    fn hear(told: Told) -> Self;
}

impl Tell for ModelError {
    fn tell(&self) -> Told {
        match self {
            ModelError::Reject(reason) => Told::Rejected(reason.clone()),
            ModelError::Stopped => Told::Stopped,
            ModelError::Failed(source) => Told::Failed(source.to_string()),
        }
    }

    fn hear(told: Told) -> Self {
        match told {
            Told::Rejected(reason) => ModelError::Reject(reason),
            Told::Stopped => ModelError::Stopped,
            Told::Failed(text) | Told::Sentence(text) => ModelError::new(text),
            Told::OutOfRange(_) | Told::Density => ModelError::new("it left the range of its numbers"),
        }
    }
}

impl Tell for Error {
    fn tell(&self) -> Told {
        match self {
            Error::Stopped => Told::Stopped,
            other => Told::Sentence(other.to_string()),
        }
    }

    fn hear(told: Told) -> Self {
        match told {
            Told::Stopped => Error::Stopped,
            Told::Rejected(text) | Told::Failed(text) | Told::Sentence(text) => Error::Settings(text),
            Told::OutOfRange(_) | Told::Density => Error::Settings("the numbers left their range".into()),
        }
    }
}

/// What any rank wishes for. If some have failed, all get the failure of the lowest.
pub fn poll<T, E: Tell>(
    ranks: &dyn Ranks,
    wishes: [bool; 2],
    mine: Result<T, E>,
) -> Result<([bool; 2], T), E> {
    if ranks.size() == 1 {
        return mine.map(|done| (wishes, done));
    }
    let told = mine.as_ref().err().map(|e| serde_json::to_vec(&e.tell()).unwrap_or_default());
    // Two bits for the wishes; above them nothing, or how long the failure is and one more.
    let length = told.as_ref().map_or(0, |told| told.len() as u64 + 1);
    let words = gather_words(ranks, length << 2 | u64::from(wishes[0]) | u64::from(wishes[1]) << 1);
    let Some(lowest) = words.iter().position(|word| word >> 2 > 0) else {
        let wished = |bit: u64| words.iter().any(|word| word & bit > 0);
        return mine.map(|done| ([wished(1), wished(2)], done));
    };
    let lengths: Vec<usize> = words.iter().map(|word| (word >> 2).saturating_sub(1) as usize).collect();
    let mut all = vec![0; lengths.iter().sum()];
    ranks.all_gather(&told.unwrap_or_default(), &lengths, &mut all);
    // What failed here is told best by itself.
    match mine {
        Err(e) if lowest == ranks.rank() => Err(e),
        _ => Err(E::hear(
            serde_json::from_slice(&all[..lengths[lowest]])
                .unwrap_or_else(|_| Told::Sentence(format!("rank {lowest} failed"))),
        )),
    }
}

/// The same where nobody wishes for anything.
pub fn agree<T, E: Tell>(ranks: &dyn Ranks, mine: Result<T, E>) -> Result<T, E> {
    poll(ranks, [false; 2], mine).map(|(_, done)| done)
}

/// Whether any rank says so.
pub fn any(ranks: &dyn Ranks, mine: bool) -> bool {
    ranks.size() > 1 && gather_words(ranks, u64::from(mine)).contains(&1) || mine
}

/// One word of each rank.
pub fn gather_words(ranks: &dyn Ranks, mine: u64) -> Vec<u64> {
    let mut words = vec![0u64; ranks.size()];
    ranks.all_gather(&mine.to_ne_bytes(), &vec![8; ranks.size()], bytemuck::cast_slice_mut(&mut words));
    words
}

/// The bytes of rank 0, for all.
pub fn of_first(ranks: &dyn Ranks, mine: Vec<u8>) -> Vec<u8> {
    if ranks.size() == 1 {
        return mine;
    }
    let length = gather_words(ranks, mine.len() as u64)[0] as usize;
    let mut all = mine;
    all.resize(length, 0);
    gather(ranks, &mut all, |rank| if rank == 0 { 0..length } else { length..length });
    all
}

/// Bytes that are exchanged at once at the most: counts are 32 bits wide in MPI, and what is exchanged is copied.
const ROUND: usize = 1 << 28;

/// Fills in what other ranks have of an array: rank r has `part(r)`. The parts lie in the order of the ranks.
pub fn gather<T: bytemuck::Pod>(ranks: &dyn Ranks, all: &mut [T], part: impl Fn(usize) -> Range<usize>) {
    let size = ranks.size();
    if size == 1 {
        return;
    }
    let longest = (0..size).map(|rank| part(rank).len()).max().unwrap_or(0);
    let step = (ROUND / size / size_of::<T>()).max(1);
    for from in (0..longest).step_by(step) {
        let piece = |rank| {
            let Range { start, end } = part(rank);
            end.min(start + from)..end.min(start + from + step)
        };
        let lengths: Vec<usize> = (0..size).map(|rank| piece(rank).len() * size_of::<T>()).collect();
        let mine = all[piece(ranks.rank())].to_vec();
        let (first, last) = (piece(0).start, piece(size - 1).end);
        let adjoin = (1..size).all(|rank| piece(rank - 1).end == piece(rank).start);
        if adjoin {
            let all = bytemuck::cast_slice_mut(&mut all[first..last]);
            ranks.all_gather(bytemuck::cast_slice(&mine), &lengths, all);
            continue;
        }
        let mut received = vec![T::zeroed(); lengths.iter().sum::<usize>() / size_of::<T>()];
        ranks.all_gather(bytemuck::cast_slice(&mine), &lengths, bytemuck::cast_slice_mut(&mut received));
        let mut at = 0;
        for piece in (0..size).map(piece) {
            all[piece.clone()].copy_from_slice(&received[at..at + piece.len()]);
            at += piece.len();
        }
    }
}

/// The largest nodes of the tree over `count` blocks that lie in a run of them, in order.
fn nodes(run: Range<usize>, count: usize) -> impl Iterator<Item = Range<usize>> {
    let mut from = run.start;
    std::iter::from_fn(move || {
        if from >= run.end {
            return None;
        }
        let fits = |size: &usize| from.is_multiple_of(*size) && (from + size).min(count) <= run.end;
        let size = std::iter::successors(Some(1usize), |size| size.checked_mul(2))
            .take_while(|size| size / 2 < count)
            .filter(fits)
            .last()
            .unwrap_or(1);
        let node = from..(from + size).min(count);
        from = node.end;
        Some(node)
    })
}

/// Adds up the slots of `width` numbers of all blocks, of which rank r has filled those of `part(r)`. All get the total, in the first
/// slot.
pub fn sum_over_ranks<'a>(
    ranks: &dyn Ranks,
    slots: &'a mut [f64],
    width: usize,
    part: impl Fn(usize) -> Range<usize>,
) -> &'a mut [f64] {
    let size = ranks.size();
    if size == 1 {
        return sum_slots(slots, width);
    }
    let count = slots.len() / width;
    let mut mine = Vec::new();
    for node in nodes(part(ranks.rank()), count) {
        mine.extend_from_slice(sum_slots(&mut slots[node.start * width..node.end * width], width));
    }
    let of_rank = |rank| nodes(part(rank), count);
    let of_all: Vec<Range<usize>> = (0..size).flat_map(of_rank).collect();
    let lengths: Vec<usize> = (0..size).map(|rank| 8 * width * of_rank(rank).count()).collect();
    let mut all = vec![0.0; width * of_all.len()];
    ranks.all_gather(bytemuck::cast_slice(&mine), &lengths, bytemuck::cast_slice_mut(&mut all));
    let total = &mut slots[..width];
    join(0..count, &of_all, &all, width, total);
    total
}

/// Joins the sums of nodes that make up the node `whole` of the tree; returns how many they were.
fn join(whole: Range<usize>, nodes: &[Range<usize>], sums: &[f64], width: usize, out: &mut [f64]) -> usize {
    if nodes[0] == whole {
        out.copy_from_slice(&sums[..width]);
        return 1;
    }
    let middle = whole.start + whole.len().next_power_of_two() / 2;
    let left = join(whole.start..middle, nodes, sums, width, out);
    let mut right = vec![0.0; width];
    let used = join(middle..whole.end, &nodes[left..], &sums[left * width..], width, &mut right);
    out.iter_mut().zip(right).for_each(|(l, r)| *l += r);
    left + used
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one of several ranks would send, and what all of them would make of it.
    #[test]
    fn any_number_of_ranks_gives_the_bits_of_one() {
        for count in [1, 2, 3, 5, 7, 8, 13, 31, 32, 33, 100] {
            let values: Vec<f64> = (0..count).map(|i| (i as f64).sin() * 10f64.powi(i as i32 % 7)).collect();
            let alone = sum_slots(&mut values.clone(), 1)[0];
            for size in 1..=count {
                let (mut of_all, mut sums) = (Vec::new(), Vec::new());
                for rank in 0..size {
                    let own = share(rank, size, count);
                    for node in nodes(own, count) {
                        sums.push(sum_slots(&mut values[node.clone()].to_vec(), 1)[0]);
                        of_all.push(node);
                    }
                }
                let mut total = [0.0];
                assert_eq!(join(0..count, &of_all, &sums, 1, &mut total), of_all.len());
                assert_eq!(total[0].to_bits(), alone.to_bits(), "{count} blocks, {size} ranks");
            }
        }
    }
}
