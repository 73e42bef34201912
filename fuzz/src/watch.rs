//! How much memory a reader asks for at once.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Of this thread alone: tests run side by side.
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn note(size: usize) {
    // A thread that ends has none any more.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
}

/// The system's allocator, watched.
struct Watched;

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: what is asked of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: what is asked of the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: what is asked of the caller.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: what is asked of the caller.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static WATCHED: Watched = Watched;

/// Forgets what this thread has asked for before.
pub fn begin() {
    LARGEST.set(0);
}

/// The most bytes that were asked for at once since [`begin`], by this thread.
pub fn largest() -> usize {
    LARGEST.get()
}
