// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of lwIP that are set when it is compiled, by variables of the build: see the README of
//! `swapstone-net-lwip-sys`.

use swapstone_net_lwip_sys::Core;

/// Returns the options that lwIP was compiled with, as its C code reports them:
///
/// - `checksum-on-copy`: payload is summed when it is queued, and not when it is sent;
/// - `oversize`: bytes that a segment of a small write has room for;
/// - `ooseq`: data out of order is kept; without it, it is dropped, and there is no SACK;
/// - `pools`: TCP connections in lwIP's fixed pools; 0: all memory comes from one allocator.
pub fn options() -> [(&'static str, u64); 4] {
    let compiled = Core::compiled();
    [
        ("checksum-on-copy", compiled.checksum_on_copy.into()),
        ("oversize", compiled.oversize.into()),
        ("ooseq", compiled.ooseq.into()),
        ("pools", compiled.pools.into()),
    ]
}
