//! What is copied and allocated, counted in a build with the feature `count`.
//!
//! The linker sends every call of memcpy and memmove here (`--wrap`, see build.rs), from Rust and from C alike. A copy that the compiler
//! made into plain instructions, because its size is small and known, is no call and is not counted; C code is built with
//! `-fno-builtin-memcpy -fno-builtin-memmove`, so that there every copy is a call. There must be no link-time optimisation.

use serde::Serialize;

/// Calls, and the bytes that they were for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    pub calls: u64,
    pub bytes: u64,
}

/// What was counted. `heap` is Rust's global allocator; `lwip` is what lwIP takes from its own store, which
/// keeps what is given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub copies: Tally,
    /// Of those, the ones of up to 16 bytes (addresses, for instance), up to 64, up to 256 (headers and small structures), and more.
    pub copies_by_size: [Tally; 4],
    pub heap: Tally,
    pub lwip: Tally,
}

impl Counts {
    /// What was counted after `earlier`.
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

/// What was counted so far; `None` in a build without counting.
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
    /// As of memcpy.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn __wrap_memcpy(
        to: *mut c_void,
        from: *const c_void,
        size: usize,
    ) -> *mut c_void {
        copied(size);
        // SAFETY: the caller's promise is passed on.
        unsafe { __real_memcpy(to, from, size) }
    }

    /// # Safety
    ///
    /// As of memmove.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn __wrap_memmove(
        to: *mut c_void,
        from: *const c_void,
        size: usize,
    ) -> *mut c_void {
        copied(size);
        // SAFETY: the caller's promise is passed on.
        unsafe { __real_memmove(to, from, size) }
    }

    #[cfg(feature = "lwip")]
    unsafe extern "C" {
        fn __real_mem_malloc(size: usize) -> *mut c_void;
    }

    /// Everything that lwIP allocates, pools and packets alike, is made by this one (MEMP_MEM_MALLOC).
    ///
    /// # Safety
    ///
    /// As of lwIP's own.
    #[cfg(feature = "lwip")]
    #[unsafe(no_mangle)]
    unsafe extern "C" fn __wrap_mem_malloc(size: usize) -> *mut c_void {
        LWIP.add(size);
        // SAFETY: the caller's promise is passed on.
        unsafe { __real_mem_malloc(size) }
    }

    struct Counting;

    // SAFETY: all is the system's allocator's.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            HEAP.add(layout.size());
            // SAFETY: the caller's promise is passed on.
            unsafe { System.alloc(layout) }
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            HEAP.add(layout.size());
            // SAFETY: the caller's promise is passed on.
            unsafe { System.alloc_zeroed(layout) }
        }

        unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            HEAP.add(size);
            // SAFETY: the caller's promise is passed on.
            unsafe { System.realloc(memory, layout, size) }
        }

        unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
            // SAFETY: the caller's promise is passed on.
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
            // Other tests may run meanwhile, so at least.
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
