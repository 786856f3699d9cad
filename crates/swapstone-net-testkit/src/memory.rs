//! An allocator that counts.
//!
//! It counts what a stack under test allocates (calls made while [`enter`] is in force) and how many bytes are alive in all.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Counting;

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static CALLS: Cell<usize> = const { Cell::new(0) };
}
static LIVE: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(grown: usize) {
    LIVE.fetch_add(grown, Relaxed);
    if WATCHED.get() {
        CALLS.set(CALLS.get() + 1);
    }
}

// SAFETY: every call goes to the system's allocator with the caller's own arguments; the counters have no part in the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE.fetch_sub(layout.size(), Relaxed);
        count(size);
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// While it lives, allocations are counted as the stack's.
#[derive(Debug)]
pub struct Inside {
    before: bool,
}

/// Count allocations from here on, until the result is dropped.
pub fn enter(watched: bool) -> Inside {
    Inside {
        before: WATCHED.replace(watched),
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        WATCHED.set(self.before);
    }
}

/// Allocations and reallocations that the stack under test has made so far, on this thread.
pub fn calls() -> usize {
    CALLS.get()
}

/// Bytes of Rust's heap that are in use in this process. (What a C library allocates is not in it.)
pub fn live() -> usize {
    LIVE.load(Relaxed)
}

/// The process's resident memory in bytes, C's heap included; `None` where there is no `/proc`.
pub fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_happens_inside_counts() {
        let before = calls();
        drop(vec![0_u8; 100]);
        assert_eq!(calls(), before);
        let inside = enter(true);
        let memory = vec![0_u8; 100];
        drop(inside);
        assert_eq!(calls(), before + 1);
        drop(memory);
    }
}
