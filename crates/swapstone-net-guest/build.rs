// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives the linker the machine's memory map.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=virt.ld");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
        println!("cargo::rustc-link-arg=-T{here}/virt.ld");
    }
}
