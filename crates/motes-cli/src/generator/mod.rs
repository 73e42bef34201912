//! What a trained generator can do, on the command line.

mod progress;
mod tasks;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use motes_app::numbers::thousands;

pub use tasks::{
    InpaintArgs, InterpolateArgs, ReconstructArgs, SynthesizeArgs, inpaint, interpolate, reconstruct,
    synthesize,
};

/// Says now and then how many images have been decoded.
pub fn told(quiet: bool) -> impl Fn(usize, usize) + Sync {
    let last = Mutex::new(Instant::now());
    move |done, of| {
        if quiet || done == of {
            return;
        }
        let mut last = last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if last.elapsed() >= Duration::from_secs(5) {
            *last = Instant::now();
            say!("decoded {} of {} images", thousands(&done.to_string()), thousands(&of.to_string()));
        }
    }
}
