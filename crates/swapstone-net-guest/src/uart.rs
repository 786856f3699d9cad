//! The serial line: a 16550A, without interrupts.

use core::fmt;
use core::ptr;

const BASE: usize = 0x1000_0000;
/// Line status register: a byte has come, and there is room for one.
const STATUS: usize = BASE + 5;
const RECEIVED: u8 = 1;
const ROOM: u8 = 1 << 5;

/// What writes to it.
pub struct Uart;

impl fmt::Write for Uart {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // SAFETY: the machine's memory map has the UART's registers here.
            unsafe {
                while ptr::read_volatile(STATUS as *const u8) & ROOM == 0 {}
                ptr::write_volatile(BASE as *mut u8, byte);
            }
        }
        Ok(())
    }
}

/// The next byte that has come.
pub fn read() -> Option<u8> {
    // SAFETY: as above.
    unsafe {
        (ptr::read_volatile(STATUS as *const u8) & RECEIVED != 0)
            .then(|| ptr::read_volatile(BASE as *const u8))
    }
}
