// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of copies and allocations, in a build with the feature `count`.
//!
//! The linker redirects all calls of memcpy and memmove to this module (`--wrap`, see build.rs),
//! from Rust and C. A copy of small, constant size that the compiler has inlined is not counted. C
//! code is compiled with `-fno-builtin-memcpy -fno-builtin-memmove`, so that each copy is a call.
//! Link-time optimization must be off.

use serde::Serialize;

/// The number of calls and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    pub calls: u64,
    pub bytes: u64,
}

/// The counters. `heap` is Rust's global allocator; `lwip` is lwIP's heap, which reuses freed
/// blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub copies: Tally,
    /// Calls of up to 16 bytes (addresses), up to 64, up to 256 (headers and small structures), and
    /// above.
    pub copies_by_size: [Tally; 4],
    pub heap: Tally,
    pub lwip: Tally,
}

impl Counts {
    /// Returns the difference to `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        let less = |now: Tally, then: Tally| Tally {
            calls: now.calls - then.calls,
            bytes: now.bytes - then.bytes,
        };
        Self {
            copies: less(self.copies, earlier.copies),
            copies_by_size: std::array::from_fn(|class| {
                less(self.copies_by_size[class], earlier.copies_by_size[class])
            }),
            heap: less(self.heap, earlier.heap),
            lwip: less(self.lwip, earlier.lwip),
        }
    }
}

/// Returns the counters; `None` in a build without counting.
pub fn now() -> Option<Counts> {
    #[cfg(feature = "count")]
    return Some(Counts {
        copies: counting::COPIES.read(),
        copies_by_size: counting::BY_SIZE.each_ref().map(|counter| counter.read()),
        heap: counting::HEAP.read(),
        lwip: counting::LWIP.read(),
    });
    #[cfg(not(feature = "count"))]
    None
}

#[cfg(feature = "count")]
mod counting {
    use super::Tally;
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::ffi::c_void;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    pub struct Counter {
        calls: AtomicU64,
        bytes: AtomicU64,
    }

    impl Counter {
        const fn new() -> Self {
            Self {
                calls: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
            }
        }

        fn add(&self, bytes: usize) {
            self.calls.fetch_add(1, Relaxed);
            self.bytes.fetch_add(bytes as u64, Relaxed);
        }

        pub fn read(&self) -> Tally {
            Tally {
                calls: self.calls.load(Relaxed),
                bytes: self.bytes.load(Relaxed),
            }
        }
    }

    pub static COPIES: Counter = Counter::new();
    pub static BY_SIZE: [Counter; 4] = [const { Counter::new() }; 4];
    pub static HEAP: Counter = Counter::new();
    pub static LWIP: Counter = Counter::new();

    fn copied(size: usize) {
        COPIES.add(size);
        let class = match size {
            0..=16 => 0,
            17..=64 => 1,
            65..=256 => 2,
            _ => 3,
        };
        BY_SIZE[class].add(size);
    }

    unsafe extern "C" {
        fn __real_memcpy(to: *mut c_void, from: *const c_void, size: usize) -> *mut c_void;
        fn __real_memmove(to: *mut c_void, from: *const c_void, size: usize) -> *mut c_void;
    }

    /// # Safety
    ///
    /// As for memcpy.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn __wrap_memcpy(
        to: *mut c_void,
        from: *const c_void,
        size: usize,
    ) -> *mut c_void {
        copied(size);
        // SAFETY: guaranteed by the caller.
        unsafe { __real_memcpy(to, from, size) }
    }

    /// # Safety
    ///
    /// As for memmove.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn __wrap_memmove(
        to: *mut c_void,
        from: *const c_void,
        size: usize,
    ) -> *mut c_void {
        copied(size);
        // SAFETY: guaranteed by the caller.
        unsafe { __real_memmove(to, from, size) }
    }

    #[cfg(feature = "lwip")]
    unsafe extern "C" {
        fn __real_mem_malloc(size: usize) -> *mut c_void;
    }

    /// lwIP allocates all memory with this function (MEMP_MEM_MALLOC).
    ///
    /// # Safety
    ///
    /// As for lwIP's function.
    #[cfg(feature = "lwip")]
    #[unsafe(no_mangle)]
    unsafe extern "C" fn __wrap_mem_malloc(size: usize) -> *mut c_void {
        LWIP.add(size);
        // SAFETY: guaranteed by the caller.
        unsafe { __real_mem_malloc(size) }
    }

    struct Counting;

    // SAFETY: each call is passed to the system allocator.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            HEAP.add(layout.size());
            // SAFETY: guaranteed by the caller.
            unsafe { System.alloc(layout) }
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            HEAP.add(layout.size());
            // SAFETY: guaranteed by the caller.
            unsafe { System.alloc_zeroed(layout) }
        }

        unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            HEAP.add(size);
            // SAFETY: guaranteed by the caller.
            unsafe { System.realloc(memory, layout, size) }
        }

        unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
            // SAFETY: guaranteed by the caller.
            unsafe { System.dealloc(memory, layout) }
        }
    }

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    #[cfg(test)]
    mod tests {
        use super::super::now;
        use std::hint::black_box;

        #[test]
        fn calls_and_bytes_are_counted() {
            let before = now().unwrap();
            let from = black_box(vec![1u8; 5000]);
            let mut to = black_box(vec![0u8; 5000]);
            to[..black_box(4321)].copy_from_slice(&from[..black_box(4321)]);
            black_box(&to);
            let counted = now().unwrap().since(before);
            // At least, because other tests may run concurrently.
            assert!(counted.copies.calls >= 1 && counted.copies.bytes >= 4321);
            assert!(counted.copies_by_size[3].bytes >= 4321);
            assert!(counted.heap.calls >= 2 && counted.heap.bytes >= 10_000);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_of_each() {
        let tally = |calls, bytes| Tally { calls, bytes };
        let counts = |number| Counts {
            copies: tally(number, 2 * number),
            copies_by_size: [tally(7 * number, 8 * number); 4],
            heap: tally(3 * number, 4 * number),
            lwip: tally(5 * number, 6 * number),
        };
        assert_eq!(counts(9).since(counts(7)), counts(2));
        assert_eq!(now().is_some(), cfg!(feature = "count"));
    }
}
