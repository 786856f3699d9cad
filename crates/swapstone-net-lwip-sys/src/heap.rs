//! lwIP's memory: blocks of size classes, kept for the next use, up to a limit.

use alloc::alloc::{alloc, dealloc};
use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::ptr;

/// Before each block: its class. Sixteen bytes, so that the block is aligned for anything.
const HEADER: usize = 16;
/// 64, 80, 96, 112, 128, 160, ... up to 128 KiB: four classes for each doubling.
const CLASSES: usize = 45;

struct Heap {
    free: [*mut u8; CLASSES],
    /// Bytes taken from the allocator, those that are free now among them.
    taken: usize,
    /// Bytes in use.
    used: usize,
    most: usize,
    /// Whether an allocation has failed since this was last asked.
    refused: bool,
}

struct Cell(UnsafeCell<Heap>);

// SAFETY: only one `Core` exists at a time, it stays on its thread, and all of lwIP runs inside its methods.
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
            // SAFETY: the header is inside the block, which is aligned for it.
            unsafe { block.cast::<usize>().write(class) };
        } else {
            // SAFETY: a free block's first bytes behind its header are the next one's address.
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
        // SAFETY: before each block is its header.
        unsafe {
            let block = memory.sub(HEADER);
            let class = block.cast::<usize>().read();
            if cfg!(feature = "address-sanitizer") {
                // The sanitizer sees a use after free only if it is one.
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

    /// Give free blocks back to the allocator, the largest first, until there is room for `wanted` bytes.
    fn give_back(&mut self, wanted: usize) {
        for class in (0..CLASSES).rev() {
            while !self.free[class].is_null() && self.taken + wanted > self.most {
                let block = self.free[class];
                // SAFETY: as in `take`; nobody else knows the block.
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
/// Not while another reference from here lives: no function below calls out.
unsafe fn heap() -> &'static mut Heap {
    // SAFETY: the caller's promise.
    unsafe { &mut *HEAP.0.get() }
}

/// Set the limit, in bytes.
pub fn set_limit(most: usize) {
    // SAFETY: no other reference lives.
    unsafe { heap().most = most };
}

/// Give everything that is free back to the allocator.
pub fn clear() {
    // SAFETY: no other reference lives.
    let heap = unsafe { heap() };
    heap.most = 0;
    heap.give_back(0);
    heap.refused = false;
}

/// Bytes in use, and bytes taken from the allocator.
pub fn usage() -> (usize, usize) {
    // SAFETY: no other reference lives.
    let heap = unsafe { heap() };
    (heap.used, heap.taken)
}

/// Whether an allocation has failed, and an eighth is free now; forgets it then.
pub fn recovered() -> bool {
    // SAFETY: no other reference lives.
    let heap = unsafe { heap() };
    let recovered = heap.refused && heap.used <= heap.most - heap.most / 8;
    heap.refused &= !recovered;
    recovered
}

#[unsafe(no_mangle)]
extern "C" fn lw_rust_malloc(size: usize) -> *mut u8 {
    // SAFETY: no other reference lives.
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
/// As of C's `free`.
#[unsafe(no_mangle)]
unsafe extern "C" fn lw_rust_free(memory: *mut u8) {
    if !memory.is_null() {
        // SAFETY: the caller's promise; no other reference lives.
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
        // For the sanitizer's sake its build uses no block twice.
        assert!(again == first || cfg!(feature = "address-sanitizer"));
        // SAFETY: it is from this heap.
        unsafe { heap.put(again) };
        // What is free in one class makes room for another.
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
