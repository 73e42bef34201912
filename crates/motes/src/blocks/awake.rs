//! Workers that stay awake between the steps of a run: to wake one takes longer than many a step.
//!
//! A worker without work looks for some for a while before it parks. That is only for pools that have a core for each worker.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rayon::Yield;

/// For so long a worker looks for work.
const PATIENCE: Duration = Duration::from_micros(100);
/// A clock is read after so many looks.
const LOOKS: u32 = 16;

/// The workers of a pool.
#[derive(Default)]
pub(super) struct Workers {
    /// Whether all of them have been woken and none has parked since.
    awake: AtomicBool,
}

thread_local! {
    static OWN: OnceCell<Arc<Workers>> = const { OnceCell::new() };
    static LOOKING: Cell<bool> = const { Cell::new(false) };
}

/// Makes the calling thread one of these workers.
pub(super) fn belong_to(workers: &Arc<Workers>) {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    if (2..=cores).contains(&rayon::current_num_threads()) {
        OWN.with(|own| _ = own.set(workers.clone()));
    }
}

/// Wakes the other workers of the pool that the calling thread belongs to.
#[inline]
pub(super) fn wake() {
    OWN.with(|own| {
        if let Some(workers) = own.get()
            && !workers.awake.load(Ordering::Relaxed)
            && !workers.awake.swap(true, Ordering::Relaxed)
        {
            let (workers, caller) = (workers.clone(), rayon::current_thread_index());
            rayon::spawn_broadcast(move |here| {
                if Some(here.index()) != caller && !LOOKING.replace(true) {
                    look_for_work();
                    LOOKING.set(false);
                    workers.awake.store(false, Ordering::Relaxed);
                }
            });
        }
    });
}

/// Does what work there is until there has been none for a while.
fn look_for_work() {
    let mut since = Instant::now();
    let mut looks = 0u32;
    loop {
        if rayon::yield_now() == Some(Yield::Executed) {
            looks = 0;
            continue;
        }
        if looks == 0 {
            since = Instant::now();
        }
        looks = looks.wrapping_add(1).max(1);
        if looks.is_multiple_of(LOOKS) && since.elapsed() > PATIENCE {
            return;
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;
    use crate::blocks::for_each;

    /// Many short regions, with rests in which the workers park, see each block once.
    #[test]
    fn every_block_is_done_whether_workers_wait_or_park() {
        let pool = Pool::new(Some(2)).unwrap();
        pool.install(|| {
            let mut counts = vec![0u32; 64];
            for round in 0..400 {
                let done: Result<(), ()> = for_each(true, (&mut counts, 3), |_, part| {
                    part.iter_mut().for_each(|n| *n += 1);
                    Ok(())
                });
                assert!(done.is_ok());
                if round % 100 == 0 {
                    std::thread::sleep(3 * PATIENCE);
                }
            }
            assert_eq!(counts, [400; 64]);
        });
    }
}
