// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of lwIP: blocks of size classes with free lists and an upper limit.

use alloc::alloc::{alloc, dealloc};
use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::ptr;

/// The header of a block, which stores its class. 16 bytes, for alignment.
const HEADER: usize = 16;
/// 64, 80, 96, 112, 128, 160, ... up to 128 KiB: four classes per power of two.
const CLASSES: usize = 45;

struct Heap {
    free: [*mut u8; CLASSES],
    /// Bytes of all blocks, including free ones.
    taken: usize,
    /// Bytes in use.
    used: usize,
    most: usize,
    /// An allocation has failed since the last query.
    refused: bool,
}

struct Cell(UnsafeCell<Heap>);

// SAFETY: only one `Core` exists at a time, on one thread, and lwIP runs in its methods only.
unsafe impl Sync for Cell {}

static HEAP: Cell = Cell(UnsafeCell::new(Heap {
    free: [ptr::null_mut(); CLASSES],
    taken: 0,
    used: 0,
    most: 0,
    refused: false,
}));

const fn size_of_class(class: usize) -> usize {
    (4 + class % 4) << (4 + class / 4)
}

fn class_of(size: usize) -> Option<usize> {
    if size <= 64 {
        return Some(0);
    }
    let quarter = usize::BITS as usize - 3 - (size - 1).leading_zeros() as usize;
    let class = (quarter - 4) * 4 + ((size - 1) >> quarter) - 4 + 1;
    (class < CLASSES).then_some(class)
}

fn layout(class: usize) -> Layout {
    // SAFETY: the size is below 2^18 and not zero, the alignment a power of two.
    unsafe { Layout::from_size_align_unchecked(size_of_class(class) + HEADER, HEADER) }
}

impl Heap {
    fn take(&mut self, size: usize) -> *mut u8 {
        let Some(class) = class_of(size) else {
            return ptr::null_mut();
        };
        let whole = layout(class).size();
        let mut block = self.free[class];
        if block.is_null() {
            if self.taken + whole > self.most {
                self.give_back(whole);
            }
            if self.taken + whole > self.most {
                self.refused = true;
                return ptr::null_mut();
            }
            // SAFETY: the layout is not empty.
            block = unsafe { alloc(layout(class)) };
            if block.is_null() {
                self.refused = true;
                return block;
            }
            self.taken += whole;
            // SAFETY: the header is inside the block and aligned.
            unsafe { block.cast::<usize>().write(class) };
        } else {
            // SAFETY: a free block stores the address of the next one behind its header.
            self.free[class] = unsafe { block.add(HEADER).cast::<*mut u8>().read() };
        }
        self.used += whole;
        // SAFETY: the block is larger than its header.
        unsafe { block.add(HEADER) }
    }

    /// # Safety
    ///
    /// The memory must come from `take` and not be used any more.
    unsafe fn put(&mut self, memory: *mut u8) {
        // SAFETY: each block starts with its header.
        unsafe {
            let block = memory.sub(HEADER);
            let class = block.cast::<usize>().read();
            if cfg!(feature = "address-sanitizer") {
                // AddressSanitizer detects a use after free only if the memory is freed.
                dealloc(block, layout(class));
                self.taken -= layout(class).size();
                self.used -= layout(class).size();
                return;
            }
            memory.cast::<*mut u8>().write(self.free[class]);
            self.free[class] = block;
            self.used -= layout(class).size();
        }
    }

    /// Frees unused blocks, the largest first, until `wanted` bytes are available.
    fn give_back(&mut self, wanted: usize) {
        for class in (0..CLASSES).rev() {
            while !self.free[class].is_null() && self.taken + wanted > self.most {
                let block = self.free[class];
                // SAFETY: as in `take`; the block has no other reference.
                unsafe {
                    self.free[class] = block.add(HEADER).cast::<*mut u8>().read();
                    dealloc(block, layout(class));
                }
                self.taken -= layout(class).size();
            }
        }
    }
}

/// # Safety
///
/// No other reference from here may exist: no function below calls other code.
unsafe fn heap() -> &'static mut Heap {
    // SAFETY: guaranteed by the caller.
    unsafe { &mut *HEAP.0.get() }
}

/// Sets the limit in bytes.
pub fn set_limit(most: usize) {
    // SAFETY: no other reference exists.
    unsafe { heap().most = most };
}

/// Frees all unused blocks.
pub fn clear() {
    // SAFETY: no other reference exists.
    let heap = unsafe { heap() };
    heap.most = 0;
    heap.give_back(0);
    heap.refused = false;
}

/// Returns the bytes in use and the bytes of all blocks.
pub fn usage() -> (usize, usize) {
    // SAFETY: no other reference exists.
    let heap = unsafe { heap() };
    (heap.used, heap.taken)
}

/// Returns whether an allocation has failed and an eighth of the memory is free now; then clears
/// that state.
pub fn recovered() -> bool {
    // SAFETY: no other reference exists.
    let heap = unsafe { heap() };
    let recovered = heap.refused && heap.used <= heap.most - heap.most / 8;
    heap.refused &= !recovered;
    recovered
}

#[unsafe(no_mangle)]
extern "C" fn lw_rust_malloc(size: usize) -> *mut u8 {
    // SAFETY: no other reference exists.
    unsafe { heap().take(size) }
}

#[unsafe(no_mangle)]
extern "C" fn lw_rust_calloc(count: usize, size: usize) -> *mut u8 {
    let Some(whole) = count.checked_mul(size) else {
        return ptr::null_mut();
    };
    let memory = lw_rust_malloc(whole);
    if !memory.is_null() {
        // SAFETY: the block has at least `whole` bytes.
        unsafe { memory.write_bytes(0, whole) };
    }
    memory
}

/// # Safety
///
/// As for C's `free`.
#[unsafe(no_mangle)]
unsafe extern "C" fn lw_rust_free(memory: *mut u8) {
    if !memory.is_null() {
        // SAFETY: guaranteed by the caller; no other reference exists.
        unsafe { heap().put(memory) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_fit() {
        for size in 1..=size_of_class(CLASSES - 1) {
            let class = class_of(size).unwrap();
            assert!(size_of_class(class) >= size, "{size}");
            assert!(class == 0 || size_of_class(class - 1) < size, "{size}");
        }
        assert_eq!(class_of(size_of_class(CLASSES - 1) + 1), None);
        assert!(size_of_class(CLASSES - 1) > 0x1_0000 + 256);
    }

    #[test]
    fn limits_hold_and_memory_is_used_again() {
        let mut heap = Heap {
            free: [ptr::null_mut(); CLASSES],
            taken: 0,
            used: 0,
            most: 1000,
            refused: false,
        };
        let first = heap.take(600);
        assert!(!first.is_null());
        assert!(heap.take(600).is_null());
        assert!(heap.refused);
        // SAFETY: it is from this heap.
        unsafe { heap.put(first) };
        let again = heap.take(600);
        assert!(!again.is_null());
        // With AddressSanitizer no block is reused.
        assert!(again == first || cfg!(feature = "address-sanitizer"));
        // SAFETY: it is from this heap.
        unsafe { heap.put(again) };
        // Free memory of one class is available to others.
        let other = heap.take(100);
        assert!(!other.is_null());
        // SAFETY: it is from this heap.
        unsafe { heap.put(other) };
        assert_eq!(heap.used, 0);
        heap.most = 0;
        heap.give_back(0);
        assert_eq!(heap.taken, 0);
    }
}
