//! The processes that share a run, where a launcher has started several.

use motes::ranks::{Ranks, Solo, agree};
use motes_app::Error;

/// The variables by which launchers tell how many processes they have started.
const SIZES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"];

/// How many processes a launcher has started; 1 without one.
fn launched() -> usize {
    let sizes = SIZES.iter().filter_map(|name| std::env::var(name).ok()?.parse().ok());
    sizes.max().unwrap_or(1)
}

/// The ranks that share what is done here.
pub fn ranks() -> &'static dyn Ranks {
    #[cfg(feature = "mpi")]
    if launched() > 1 {
        return &world::World;
    }
    &Solo
}

/// Whether this process is the one that speaks.
pub fn speaks() -> bool {
    ranks().rank() == 0
}

/// A warning where a launcher has started several processes that know nothing of each other.
pub fn warn_of_copies() {
    if cfg!(not(feature = "mpi")) && std::env::var_os("OMPI_COMM_WORLD_SIZE").is_some() && launched() > 1 {
        say!(
            "warning: this is one of {} processes, each of which makes a whole run; build motes with `cargo build --release --features mpi` to share one",
            launched()
        );
    }
}

/// What all ranks have prepared, if none of them failed.
pub fn prepared<T>(mine: Result<T, String>) -> Result<T, String> {
    agree(ranks(), mine.map_err(Error::from)).map_err(String::from)
}

/// Joins the other processes, if there are any, until what is returned is dropped. To be called once, by the first thread.
pub fn join() -> Result<impl Sized, String> {
    #[cfg(feature = "mpi")]
    return world::join();
    #[cfg(not(feature = "mpi"))]
    Ok(())
}

#[cfg(feature = "mpi")]
mod world {
    use motes::ranks::Ranks;
    use mpi::Threading;
    use mpi::datatype::PartitionMut;
    use mpi::environment::Universe;
    use mpi::topology::SimpleCommunicator;
    use mpi::traits::{Communicator, CommunicatorCollectives};

    /// All processes of an MPI job.
    pub struct World;

    impl Ranks for World {
        fn rank(&self) -> usize {
            SimpleCommunicator::world().rank() as usize
        }

        fn size(&self) -> usize {
            SimpleCommunicator::world().size() as usize
        }

        fn all_gather(&self, mine: &[u8], lengths: &[usize], all: &mut [u8]) {
            let counts: Vec<i32> = lengths.iter().map(|length| *length as i32).collect();
            let sums = counts.iter().scan(0, |sum, count| {
                *sum += count;
                Some(*sum - count)
            });
            let displacements: Vec<i32> = sums.collect();
            let mut all = PartitionMut::new(all, counts, displacements);
            SimpleCommunicator::world().all_gather_varcount_into(mine, &mut all);
        }
    }

    /// MPI is left when the universe is dropped, in good order. In bad order all processes are ended: a panic that unwinds would
    /// wait for the others, which wait for it.
    pub fn join() -> Result<Option<Universe>, String> {
        if super::launched() < 2 {
            return Ok(None);
        }
        // Collectives are called by one thread at a time, of the pool or the first.
        let (universe, threading) = mpi::initialize_with_threading(Threading::Serialized)
            .ok_or("MPI was initialised already; start motes by the launcher itself")?;
        if threading < Threading::Serialized {
            return Err(
                "this MPI allows one thread alone to call it; use one that was built with threads".into()
            );
        }
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            usual(panic);
            SimpleCommunicator::world().abort(101);
        }));
        Ok(Some(universe))
    }
}
