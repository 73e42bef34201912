//! What it costs to add up sums in a fixed order over ranks, beside MPI's own reduction, whose order depends on their number:
//! `mpirun -n 2 target/release/examples/combine` (docs/clusters.md).

use std::time::Instant;

use motes::ranks::{Ranks, share, sum_over_ranks};
use motes_cli::ranks;
use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::CommunicatorCollectives;

/// The smallest and the middle time of some rounds, in microseconds a call.
fn time(rounds: usize, calls: usize, mut call: impl FnMut()) -> (f64, f64) {
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            SimpleCommunicator::world().barrier();
            let began = Instant::now();
            (0..calls).for_each(|_| call());
            began.elapsed().as_secs_f64() * 1e6 / calls as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[0], times[rounds / 2])
}

fn main() -> Result<(), String> {
    let _joined = ranks::join()?;
    let all: &dyn Ranks = ranks::ranks();
    let (rank, size) = (all.rank(), all.size());
    for (width, blocks, rounds, calls) in [(3, 64, 200, 50), (350_000, 8, 30, 1)] {
        let mut slots: Vec<f64> = (0..blocks * width).map(|i| (i as f64).sin()).collect();
        let ours = time(rounds, calls, || {
            sum_over_ranks(all, &mut slots, width, |rank| share(rank, size, blocks));
        });
        let mut total = vec![0.0; width];
        let theirs = time(rounds, calls, || {
            let own = share(rank, size, blocks);
            let sums = motes::blocks::sum_slots(&mut slots[own.start * width..own.end * width], width);
            SimpleCommunicator::world().all_reduce_into(&*sums, &mut total[..], SystemOperation::sum());
        });
        if rank == 0 {
            println!(
                "{size} ranks, width {width}, {blocks} blocks: {:.1} us ({:.1}) in a fixed order, {:.1} us ({:.1}) by MPI_Allreduce",
                ours.0, ours.1, theirs.0, theirs.1
            );
        }
    }
    Ok(())
}
