// SPDX-License-Identifier: MIT OR Apache-2.0
//! The serial line: a 16550A without interrupts.

use core::fmt;
use core::ptr;

const BASE: usize = 0x1000_0000;
/// The line status register: a byte was received; the transmitter is empty.
const STATUS: usize = BASE + 5;
const RECEIVED: u8 = 1;
const ROOM: u8 = 1 << 5;

/// A writer to the serial line.
pub struct Uart;

impl fmt::Write for Uart {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // SAFETY: the UART's registers are at this address.
            unsafe {
                while ptr::read_volatile(STATUS as *const u8) & ROOM == 0 {}
                ptr::write_volatile(BASE as *mut u8, byte);
            }
        }
        Ok(())
    }
}

/// Returns the next received byte.
pub fn read() -> Option<u8> {
    // SAFETY: as above.
    unsafe {
        (ptr::read_volatile(STATUS as *const u8) & RECEIVED != 0)
            .then(|| ptr::read_volatile(BASE as *const u8))
    }
}
