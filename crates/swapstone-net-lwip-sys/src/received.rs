// SPDX-License-Identifier: MIT OR Apache-2.0
//! Received frames that stay in the device's buffers until lwIP and the sockets have released them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::c_void;
use core::ptr;

use swapstone_net::Buffer;

/// `struct lw_received` must be first. device.c asserts that 64 bytes suffice.
#[repr(C, align(16))]
pub struct Node {
    c: [u8; 64],
    buffer: Option<Buffer>,
}

/// The free nodes and the number of used ones.
#[derive(Default)]
pub struct Nodes {
    free: Vec<*mut Node>,
    pub in_use: usize,
}

impl Nodes {
    /// Stores a frame in a node; returns the node, the address of the frame and its length.
    pub fn take(&mut self, buffer: Buffer) -> (*mut c_void, *mut u8, usize) {
        let node = self.free.pop().unwrap_or_else(|| {
            Box::into_raw(Box::new(Node {
                c: [0; 64],
                buffer: None,
            }))
        });
        self.in_use += 1;
        // The list must not grow when a node is released.
        self.free.reserve(self.in_use);
        // SAFETY: a free node has no other reference.
        let bytes: &mut [u8] = unsafe { (*node).buffer.insert(buffer) };
        (node.cast(), bytes.as_mut_ptr(), bytes.len())
    }

    /// Returns the buffer of a frame to the device.
    ///
    /// # Safety
    ///
    /// The node must come from `take`, and its frame must not be used any more.
    pub unsafe fn free(&mut self, node: *mut Node) {
        // SAFETY: guaranteed by the caller.
        unsafe { (*node).buffer = None };
        self.in_use -= 1;
        self.free.push(node);
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in self.free.drain(..) {
            debug_assert!(!ptr::eq(node, ptr::null()));
            // SAFETY: `take` has created it, and it has no other reference.
            drop(unsafe { Box::from_raw(node) });
        }
    }
}
