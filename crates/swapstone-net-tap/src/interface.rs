// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls that create a TAP: the only unsafe code of this crate.

use std::ffi::c_void;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter, opcode};

/// The maximum length of an interface name without the terminating NUL (linux/if.h).
pub const NAME_BYTES: usize = 15;

// linux/if_tun.h
const TUNSETIFF: Opcode = opcode::write::<i32>(b'T', 202);
const TUNSETOFFLOAD: Opcode = opcode::write::<u32>(b'T', 208);
const TUNSETVNETHDRSZ: Opcode = opcode::write::<i32>(b'T', 216);
const IFF_TAP: u16 = 0x0002;
const IFF_NO_PI: u16 = 0x1000;
const IFF_VNET_HDR: u16 = 0x4000;
const TUN_F_CSUM: usize = 1;
const TUN_F_TSO4: usize = 2;
const TUN_F_TSO6: usize = 4;

/// `struct ifreq` for TUNSETIFF.
#[repr(C)]
struct Request {
    name: [u8; NAME_BYTES + 1],
    flags: u16,
    rest: [u8; 22],
}

/// An ioctl whose argument is a number.
struct Number<const OPCODE: Opcode>(usize);

// SAFETY: TUNSETOFFLOAD, the only opcode used, takes its argument as a number and writes nothing.
unsafe impl<const OPCODE: Opcode> Ioctl for Number<OPCODE> {
    type Output = ();
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        OPCODE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.0)
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// Attaches to the TAP with this name in the thread's network namespace, or creates it. A
/// non-persistent one is removed when it is closed.
pub fn open(name: &str, offload: bool) -> io::Result<OwnedFd> {
    if name.is_empty() || name.len() > NAME_BYTES || name.bytes().any(|byte| byte == 0) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("an interface's name has 1 to {NAME_BYTES} bytes, this one: {name:?}"),
        ));
    }
    let tap = rustix::fs::open(
        "/dev/net/tun",
        OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut request = Request {
        name: [0; NAME_BYTES + 1],
        flags: IFF_TAP | IFF_NO_PI | if offload { IFF_VNET_HDR } else { 0 },
        rest: [0; 22],
    };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF takes a `struct ifreq`, which `Request` is. It writes the name back into
    // it.
    unsafe { rustix::ioctl::ioctl(&tap, Attach(request))? };
    if offload {
        // SAFETY: it takes the address of an int.
        unsafe {
            rustix::ioctl::ioctl(
                &tap,
                Setter::<TUNSETVNETHDRSZ, i32>::new(crate::header::SIZE as i32),
            )?;
        }
        let all = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
        // SAFETY: see `Number`.
        unsafe { rustix::ioctl::ioctl(&tap, Number::<TUNSETOFFLOAD>(all))? };
    }
    Ok(tap)
}

struct Attach(Request);

// SAFETY: the argument is a complete `struct ifreq`, and the kernel writes into it only.
unsafe impl Ioctl for Attach {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        TUNSETIFF
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_as_large_as_the_kernel_has_it() {
        assert_eq!(size_of::<Request>(), 40);
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        for name in ["", "sixteen-letters-", "a\0b"] {
            let error = open(name, true).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
    }
}
