// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of a frame to send.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use crate::wire::TIMESTAMPS_LENGTH;

/// The size of a page of memory.
const PAGE: usize = 4096;
/// The headers of a TCP segment over IPv4 without options.
const HEADERS: usize = 54;
/// Where the payload begins in its page. Longer headers shift it by up to 60 bytes.
const PAYLOAD: usize = 64;
/// Free bytes before the frame, for an option that is inserted.
pub(crate) const ROOM: usize = TIMESTAMPS_LENGTH;

/// The memory of a frame to send, whose payload begins near the beginning of a page.
///
/// The kernel copies what is written to a TAP into pages: the headers into the head of a buffer, the
/// payload to the beginning of a page. On some processors a copy is slow if its source is 1 to some 30
/// bytes before its destination in the lower 12 bits of the address, probably because a load that
/// seems to read what was just stored has to wait (4K aliasing).
#[derive(Debug)]
pub(crate) struct FrameMemory {
    memory: Vec<u8>,
    begin: usize,
    size: usize,
}

impl FrameMemory {
    /// Memory for a frame of at most `size` bytes behind [`ROOM`] free ones, filled with zeros.
    pub(crate) fn new(size: usize) -> Self {
        let size = ROOM + size;
        let memory = vec![0; size + PAGE];
        // The memory stays where it is: it is never extended.
        let begin = (PAGE + PAYLOAD - HEADERS - ROOM).wrapping_sub(memory.as_ptr().addr()) % PAGE;
        Self {
            memory,
            begin,
            size,
        }
    }
}

impl Deref for FrameMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.begin..self.begin + self.size]
    }
}

impl DerefMut for FrameMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..self.begin + self.size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_begins_near_the_beginning_of_a_page() {
        for size in [1514, 1515, 65549] {
            let mut memory = FrameMemory::new(size);
            assert_eq!(memory.len(), ROOM + size);
            assert_eq!(memory[ROOM + HEADERS..].as_ptr().addr() % PAGE, PAYLOAD);
            memory.fill(7);
            assert!(memory.iter().all(|byte| *byte == 7));
        }
    }
}
