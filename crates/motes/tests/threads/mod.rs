//! Ranks that are threads of one process.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use motes::ranks::Ranks;

/// What ranks that are threads share: what each has given so far, and what all of them gave before.
#[derive(Default)]
pub struct Meeting {
    given: Vec<Option<Vec<u8>>>,
    lengths: Vec<usize>,
    round: u64,
    last: Arc<Vec<u8>>,
}

/// One of them.
pub struct Thread<'a> {
    pub rank: usize,
    pub size: usize,
    pub place: &'a (Mutex<Meeting>, Condvar),
}

impl Ranks for Thread<'_> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_gather(&self, mine: &[u8], lengths: &[usize], all: &mut [u8]) {
        assert_eq!((mine.len(), all.len()), (lengths[self.rank], lengths.iter().sum()));
        let mut meeting = self.place.0.lock().unwrap();
        let round = meeting.round;
        if meeting.given.iter().all(Option::is_none) {
            meeting.lengths = lengths.to_vec();
        }
        assert_eq!(meeting.lengths, lengths, "ranks ask for different things");
        meeting.given.resize(self.size, None);
        meeting.given[self.rank] = Some(mine.to_vec());
        if meeting.given.iter().all(Option::is_some) {
            meeting.last =
                Arc::new(meeting.given.iter_mut().flat_map(|given| given.take().unwrap()).collect());
            meeting.round += 1;
            self.place.1.notify_all();
        } else {
            let limit = Duration::from_secs(60);
            let waiting = self.place.1.wait_timeout_while(meeting, limit, |m| m.round == round).unwrap();
            assert!(!waiting.1.timed_out(), "rank {} waits for ranks that do not come", self.rank);
            meeting = waiting.0;
        }
        all.copy_from_slice(&meeting.last);
    }
}
