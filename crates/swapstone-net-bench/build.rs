// SPDX-License-Identifier: MIT OR Apache-2.0
//! In a build that counts, sends the calls of memcpy and memmove, and of lwIP's mem_malloc, through src/count.rs.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_COUNT").is_some() {
        println!("cargo::rustc-link-arg=-Wl,--wrap=memcpy,--wrap=memmove");
        if std::env::var_os("CARGO_FEATURE_LWIP").is_some() {
            println!("cargo::rustc-link-arg=-Wl,--wrap=mem_malloc");
        }
    }
}
