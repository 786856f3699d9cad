// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line (`-append` of QEMU), from the flattened device tree (Devicetree Specification
//! 0.4, chapter 5).

use core::ptr;

/// The longest command line.
const MOST: usize = 256;
const MAGIC: u32 = 0xd00d_feed;
/// Words of the header: offsets of the structure and of the strings.
const STRUCTURE: usize = 2;
const STRINGS: usize = 3;
/// Tokens of the structure.
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOP: u32 = 4;
/// The property of `/chosen`.
const NAME: &[u8] = b"bootargs\0";

/// The command line.
pub struct CommandLine {
    bytes: [u8; MOST],
    size: usize,
}

impl CommandLine {
    /// Copies it from the device tree at an address. Without one it is empty.
    ///
    /// # Safety
    ///
    /// The address is that of a device tree, or 0. Its memory is not in use.
    pub unsafe fn read(tree: usize) -> Self {
        let mut found = Self {
            bytes: [0; MOST],
            size: 0,
        };
        // SAFETY: all reads are of the device tree, whose structure ends with another token.
        let byte = |at: usize| unsafe { ptr::read_volatile(at as *const u8) };
        let word =
            |at: usize| u32::from_be_bytes([byte(at), byte(at + 1), byte(at + 2), byte(at + 3)]);
        if tree == 0 || word(tree) != MAGIC {
            return found;
        }
        let header = |index: usize| tree + word(tree + 4 * index) as usize;
        let (mut at, strings) = (header(STRUCTURE), header(STRINGS));
        loop {
            let token = word(at);
            at += 4;
            match token {
                BEGIN_NODE => {
                    while byte(at) != 0 {
                        at += 1;
                    }
                    at = (at + 4) & !3;
                }
                PROPERTY => {
                    let (size, name) = (word(at) as usize, strings + word(at + 4) as usize);
                    at += 8;
                    if NAME
                        .iter()
                        .enumerate()
                        .all(|(n, each)| byte(name + n) == *each)
                    {
                        while found.size < MOST.min(size) && byte(at + found.size) != 0 {
                            found.bytes[found.size] = byte(at + found.size);
                            found.size += 1;
                        }
                        return found;
                    }
                    at = (at + size + 3) & !3;
                }
                END_NODE | NOP => {}
                _ => return found,
            }
        }
    }

    /// Returns the value of `NAME=VALUE` among words separated by spaces.
    pub fn value(&self, name: &str) -> Option<&str> {
        let text = core::str::from_utf8(&self.bytes[..self.size]).ok()?;
        let mut words = text.split_ascii_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }
}
