//! Received frames that stay where the device put them, until lwIP and the sockets are done with them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::c_void;
use core::ptr;

use swapstone_net::Buffer;

/// `struct lw_received` first, as C wants it; glue.c asserts that 64 bytes are enough.
#[repr(C, align(16))]
pub struct Node {
    c: [u8; 64],
    buffer: Option<Buffer>,
}

/// Nodes that are free, and how many are not.
#[derive(Default)]
pub struct Nodes {
    free: Vec<*mut Node>,
    pub in_use: usize,
}

impl Nodes {
    /// Put a frame's memory into a node: the node, the frame's first byte, and its size.
    pub fn take(&mut self, buffer: Buffer) -> (*mut c_void, *mut u8, usize) {
        let node = self.free.pop().unwrap_or_else(|| {
            Box::into_raw(Box::new(Node {
                c: [0; 64],
                buffer: None,
            }))
        });
        self.in_use += 1;
        // The list must never have to grow when a node comes back: that may be at any time.
        self.free.reserve(self.in_use);
        // SAFETY: a node that is free is ours alone.
        let bytes: &mut [u8] = unsafe { (*node).buffer.insert(buffer) };
        (node.cast(), bytes.as_mut_ptr(), bytes.len())
    }

    /// Give the frame's memory back to the device.
    ///
    /// # Safety
    ///
    /// The node must come from `take`, and its frame not be used any more.
    pub unsafe fn free(&mut self, node: *mut Node) {
        // SAFETY: the caller's promise.
        unsafe { (*node).buffer = None };
        self.in_use -= 1;
        self.free.push(node);
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in self.free.drain(..) {
            debug_assert!(!ptr::eq(node, ptr::null()));
            // SAFETY: it was made by `take`, and nobody uses it.
            drop(unsafe { Box::from_raw(node) });
        }
    }
}
