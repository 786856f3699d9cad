// SPDX-License-Identifier: MIT OR Apache-2.0
//! An allocator that counts.
//!
//! It counts the allocations of the stack under test (while a guard of [`enter`] exists) and the
//! bytes in use.

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

// SAFETY: each call is passed to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller fulfills the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller fulfills the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller fulfills the contract.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE.fetch_sub(layout.size(), Relaxed);
        count(size);
        // SAFETY: the caller fulfills the contract.
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// While it exists, allocations are attributed to the stack.
#[derive(Debug)]
pub struct Inside {
    before: bool,
}

/// Attributes allocations to the stack, or not, until the result is dropped.
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

/// Returns the allocations and reallocations of the stack under test on this thread.
pub fn calls() -> usize {
    CALLS.get()
}

/// Returns the bytes of Rust's heap in use. Allocations of C libraries are not included.
pub fn live() -> usize {
    LIVE.load(Relaxed)
}

/// Returns the resident memory of the process in bytes; `None` without `/proc`.
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
