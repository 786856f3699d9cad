//! Fetches lwIP's source, checks its digest, and compiles it with our options and glue.

mod fetch;
mod sha256;

use std::env;
use std::path::{Path, PathBuf};

/// lwIP's files that need nothing special, below `src/core`.
const PLAIN: [&str; 22] = [
    "def.c",
    "inet_chksum.c",
    "ip.c",
    "mem.c",
    "memp.c",
    "netif.c",
    "pbuf.c",
    "stats.c",
    "sys.c",
    "tcp.c",
    "tcp_in.c",
    "timeouts.c",
    "udp.c",
    "ipv4/etharp.c",
    "ipv4/icmp.c",
    "ipv4/ip4_addr.c",
    "ipv4/ip4_frag.c",
    "ipv6/ethip6.c",
    "ipv6/ip6_addr.c",
    "ipv6/ip6_frag.c",
    "ipv6/nd6.c",
    "../netif/ethernet.c",
];

/// Files that see other names: which, and why, is in the C files that define those.
const SPECIAL: [(&str, &[(&str, &str)]); 5] = [
    ("init.c", &[("LW_CONSTANTS", "1")]),
    ("tcp_out.c", &[("LW_TCP_OUT", "1")]),
    (
        "ipv4/ip4.c",
        &[
            ("tcp_input", "lw_tcp_input"),
            ("udp_input", "lw_udp_input"),
            ("ip4_frag", "lw_ip4_frag"),
        ],
    ),
    (
        "ipv6/ip6.c",
        &[
            ("tcp_input", "lw_tcp_input"),
            ("udp_input", "lw_udp_input"),
            ("ip6_frag", "lw_ip6_frag"),
        ],
    ),
    ("ipv6/icmp6.c", &[("nd6_input", "lw_nd6_input")]),
];

const OURS: [&str; 10] = [
    "address.c",
    "checks.c",
    "device.c",
    "hash.c",
    "index.c",
    "pbuf.c",
    "stack.c",
    "state.c",
    "tcp.c",
    "udp.c",
];

fn main() {
    if let Err(message) = build() {
        eprintln!("{message}");
        std::process::exit(1);
    }
}

fn build() -> Result<(), String> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(|error| error.to_string())?);
    for watched in ["c", "build", "source.toml"] {
        println!("cargo::rerun-if-changed={}", here.join(watched).display());
    }
    println!("cargo::rerun-if-env-changed=LWIP_DIR");
    let source = source(&here)?;
    let core = source.join("src/core");
    if !core.join("tcp.c").is_file() {
        return Err(format!(
            "{} is not lwIP's source: it has no src/core/tcp.c. Set LWIP_DIR right, or unset it.",
            source.display()
        ));
    }
    let mut plain = compiler(&here, &source);
    plain.files(PLAIN.iter().map(|name| core.join(name)));
    plain.files(OURS.iter().map(|name| here.join("c").join(name)));
    for (name, defined) in SPECIAL {
        let mut special = compiler(&here, &source);
        for (name, value) in defined {
            special.define(name, *value);
        }
        special.file(core.join(name));
        for object in special
            .try_compile_intermediates()
            .map_err(|error| error.to_string())?
        {
            plain.object(object);
        }
    }
    plain.try_compile("lwip").map_err(|error| error.to_string())
}

/// The folder of lwIP's source.
fn source(here: &Path) -> Result<PathBuf, String> {
    if let Some(given) = env::var_os("LWIP_DIR").filter(|value| !value.is_empty()) {
        println!("cargo::rerun-if-changed={}", Path::new(&given).display());
        return Ok(given.into());
    }
    let wanted = fetch::Source::read(&here.join("source.toml"))?;
    let folder = PathBuf::from(env::var("OUT_DIR").map_err(|error| error.to_string())?)
        .join(&wanted.digest()[..16]);
    fetch::unpack(&fetch::archive(&wanted)?, &folder)
}

fn compiler(here: &Path, source: &Path) -> cc::Build {
    let mut build = cc::Build::new();
    build
        .include(here.join("c"))
        .include(source.join("src/include"))
        .std("c11")
        .warnings(false)
        .extra_warnings(false);
    // Functions of their own sections: what a program does not use is not in it.
    build.flag_if_supported("-ffunction-sections");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        // The host's headers, which a compiler may find otherwise, are another machine's.
        build
            .flag("-ffreestanding")
            .flag("-nostdinc")
            .include(here.join("c/freestanding"));
        // clang builds for every target; a cross gcc is used if one of the variables of the crate cc says so.
        let target = env::var("TARGET").unwrap_or_default();
        let names = [&target, &target.replace('-', "_")].map(|target| format!("CC_{target}"));
        let said = |name: &str| env::var_os(name).is_some();
        if !said("CC") && !said("TARGET_CC") && !names.iter().any(|name| said(name)) {
            build.compiler("clang");
        }
        if target.starts_with("riscv64gc-") {
            // As rustc has it for this target: doubles in registers, and code that runs at any address.
            build.flag("-mabi=lp64d").flag("-mcmodel=medany");
        }
    }
    // A stack that is not optimised is of no use even to a test: checksums are most of its time.
    build.opt_level(2);
    if env::var_os("CARGO_FEATURE_ADDRESS_SANITIZER").is_some() {
        build
            .flag("-fsanitize=address")
            .flag("-fno-omit-frame-pointer");
    }
    build
}
