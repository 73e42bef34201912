//! Who works: one process, or several that each have a part of the cloud and know theta.
//!
//! Blocks have numbers that do not depend on who works. A rank evaluates a run of them, adds up the nodes of the binary tree
//! over their numbers that lie wholly in its run, and joins them with those of the others: the total has the same bits for any
//! number of ranks ([`crate::blocks::sum_slots`] is the same tree).

use std::ops::Range;

use crate::blocks::sum_slots;

/// The processes that share a run.
pub trait Ranks: Sync {
    /// The number of this one.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// Gathers the numbers of all ranks, in their order; rank r gives `lengths[r]` of them. Every rank must call it, with the
    /// same lengths.
    fn all_gather(&self, mine: &[f64], lengths: &[usize], all: &mut [f64]);
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

    fn all_gather(&self, mine: &[f64], _lengths: &[usize], all: &mut [f64]) {
        all.copy_from_slice(mine);
    }
}

/// Which of `count` blocks belong to a rank: runs of nearly equal length, in the order of the ranks.
pub fn share(rank: usize, size: usize, count: usize) -> Range<usize> {
    rank * count / size..(rank + 1) * count / size
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

/// Adds up slots of `width` numbers that the ranks have made for their share of `count` blocks. All get the total, in their
/// first slot.
pub fn sum_over_ranks<'a>(
    ranks: &dyn Ranks,
    slots: &'a mut [f64],
    width: usize,
    count: usize,
) -> &'a mut [f64] {
    if ranks.size() == 1 {
        return sum_slots(slots, width);
    }
    let own = share(ranks.rank(), ranks.size(), count);
    let mut mine = Vec::new();
    for node in nodes(own.clone(), count) {
        let at = (node.start - own.start) * width..(node.end - own.start) * width;
        mine.extend_from_slice(sum_slots(&mut slots[at], width));
    }
    let of_all: Vec<Range<usize>> =
        (0..ranks.size()).flat_map(|r| nodes(share(r, ranks.size(), count), count)).collect();
    let lengths: Vec<usize> =
        (0..ranks.size()).map(|r| width * nodes(share(r, ranks.size(), count), count).count()).collect();
    let mut all = vec![0.0; width * of_all.len()];
    ranks.all_gather(&mine, &lengths, &mut all);
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
