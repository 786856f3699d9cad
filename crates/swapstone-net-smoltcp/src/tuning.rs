// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of smoltcp that are set when it is compiled.

/// Returns the options that smoltcp was compiled with:
///
/// - `ooseq`: how many separate pieces of data out of order a receive buffer keeps. The variable
///   `SMOLTCP_ASSEMBLER_MAX_SEGMENT_COUNT` of the build sets it; 32 without it.
pub fn options() -> [(&'static str, u64); 1] {
    [("ooseq", smoltcp::config::ASSEMBLER_MAX_SEGMENT_COUNT as u64)]
}
