// SPDX-License-Identifier: MIT OR Apache-2.0
//! The heap, and memory for virtio: all addresses are physical.

use alloc::alloc::{alloc_zeroed, dealloc};
use core::alloc::Layout;
use core::ptr::NonNull;

use linked_list_allocator::LockedHeap;
use virtio_drivers::{BufferDirection, Hal, PAGE_SIZE, PhysAddr};

#[global_allocator]
static HEAP: LockedHeap = LockedHeap::empty();

unsafe extern "C" {
    static mut _heap_start: u8;
    static mut _heap_end: u8;
}

/// Initializes the heap.
///
/// # Safety
///
/// Call it once, before the first allocation.
pub unsafe fn init() {
    let start = &raw mut _heap_start;
    let size = &raw const _heap_end as usize - start as usize;
    // SAFETY: virt.ld reserves this memory for the heap.
    unsafe { HEAP.lock().init(start, size) };
}

/// Returns the bytes of the heap in use, and its size.
pub fn used() -> (usize, usize) {
    let heap = HEAP.lock();
    (heap.used(), heap.size())
}

/// The address translation of virtio-drivers: devices use physical addresses, as programs do.
pub struct Flat;

fn layout(pages: usize) -> Option<Layout> {
    Layout::from_size_align(pages * PAGE_SIZE, PAGE_SIZE).ok()
}

// SAFETY: pages are allocated from the heap, aligned, zeroed and not shared.
unsafe impl Hal for Flat {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        let memory = layout(pages)
            .filter(|layout| layout.size() > 0)
            // SAFETY: the layout is not empty.
            .and_then(|layout| NonNull::new(unsafe { alloc_zeroed(layout) }));
        match memory {
            Some(memory) => (memory.as_ptr() as PhysAddr, memory),
            None => (0, NonNull::dangling()), // 0 means that memory is exhausted
        }
    }

    unsafe fn dma_dealloc(_: PhysAddr, memory: NonNull<u8>, pages: usize) -> i32 {
        if let Some(layout) = layout(pages) {
            // SAFETY: `dma_alloc` has returned it for this number of pages.
            unsafe { dealloc(memory.as_ptr(), layout) };
        }
        0
    }

    unsafe fn mmio_phys_to_virt(address: PhysAddr, _: usize) -> NonNull<u8> {
        NonNull::new(address as *mut u8).expect("no device is at address 0")
    }

    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> PhysAddr {
        buffer.cast::<u8>().as_ptr() as PhysAddr
    }

    unsafe fn unshare(_: PhysAddr, _: NonNull<[u8]>, _: BufferDirection) {}
}
