// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles lwIP and the C code of this crate.
//!
//! The source of lwIP is in the folder `LWIP_DIR`, or where `tools/fetch-lwip` has put it. Nothing is
//! fetched here.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// The files of lwIP below `src/core` that are compiled without special definitions.
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

/// Files that are compiled with redefined names. The C files with the new functions explain why.
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

const OURS: [&str; 15] = [
    "acks.c",
    "address.c",
    "checks.c",
    "device.c",
    "hash.c",
    "index.c",
    "input.c",
    "pbuf.c",
    "recovery.c",
    "stack.c",
    "state.c",
    "tcp.c",
    "timers.c",
    "timestamps.c",
    "udp.c",
];

/// Options of lwIP that are variables of the build: their names, C macros, and largest values. Without
/// a variable, `c/lwipopts.h` has the value. `lw_option()` reports them in this order.
const TUNING: [(&str, &str, u32); 4] = [
    ("LWIP_CHECKSUM_ON_COPY", "LW_CHECKSUM_ON_COPY", 1),
    ("LWIP_OVERSIZE", "LW_OVERSIZE", 1460),
    ("LWIP_OOSEQ", "LW_OOSEQ", 1),
    ("LWIP_POOLS", "LW_POOLS", 16_000),
];

fn main() {
    if let Err(message) = build() {
        eprintln!("{message}");
        std::process::exit(1);
    }
}

fn build() -> Result<(), String> {
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    for watched in ["c", "build.rs", "source.toml"] {
        println!("cargo::rerun-if-changed={}", here.join(watched).display());
    }
    for name in ["LWIP_DIR", "XDG_CACHE_HOME", "DOCS_RS"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    for (name, ..) in TUNING {
        println!("cargo::rerun-if-env-changed={name}");
    }
    if env::var_os("DOCS_RS").is_some() {
        return Ok(()); // documentation needs no C code
    }
    let source = source(&here)?;
    println!("cargo::rerun-if-changed={}", source.display());
    let core = source.join("src/core");
    if !core.join("tcp.c").is_file() {
        return Err(format!(
            "{} is not the source of lwIP: src/core/tcp.c is missing. Set LWIP_DIR to a folder of lwIP 2.2.1, or unset it.",
            source.display()
        ));
    }
    let tuning = tuning()?;
    let compiler = || {
        let mut build = compiler(&here, &source);
        for (name, value) in &tuning {
            build.define(name, value.as_str());
        }
        build
    };
    let mut plain = compiler();
    plain.files(PLAIN.iter().map(|name| core.join(name)));
    plain.files(OURS.iter().map(|name| here.join("c").join(name)));
    for (name, defined) in SPECIAL {
        let mut special = compiler();
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

/// Returns the macros of the options that the environment sets, with their values.
fn tuning() -> Result<Vec<(&'static str, String)>, String> {
    let mut found = Vec::new();
    for (name, defined, most) in TUNING {
        let Some(text) = env::var_os(name).filter(|text| !text.is_empty()) else {
            continue;
        };
        let value = text.to_str().and_then(|text| text.parse::<u32>().ok());
        match value.filter(|value| *value <= most) {
            Some(value) => found.push((defined, value.to_string())),
            None => {
                return Err(format!(
                    "{name} is {}, and not a number from 0 to {most}",
                    text.display()
                ));
            }
        }
    }
    Ok(found)
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}

/// Returns the folder with the source of lwIP.
fn source(here: &Path) -> Result<PathBuf, String> {
    let folder = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(given) = folder("LWIP_DIR") {
        return Ok(given);
    }
    let lock = here.join("source.toml");
    let text = fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    let digest = text
        .lines()
        .find_map(|line| line.strip_prefix("sha256 = \""))
        .and_then(|rest| rest.get(..16))
        .ok_or_else(|| format!("{} has no sha256", lock.display()))?;
    let cache = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")));
    let prepared = cache.map(|cache| cache.join(format!("swapstone/sources/lwip-{digest}")));
    if let Some(prepared) = prepared.filter(|folder| folder.is_dir()) {
        return Ok(prepared);
    }
    let tool = here.join("../../tools/fetch-lwip");
    Err(match tool.canonicalize() {
        Ok(tool) => format!(
            "The source of lwIP is missing. Fetch it: {}",
            tool.display()
        ),
        Err(_) => {
            "The source of lwIP is missing. Build with it: LWIP_DIR=/path/to/lwip-2.2.1 cargo build"
                .into()
        }
    })
}

fn compiler(here: &Path, source: &Path) -> cc::Build {
    let mut build = cc::Build::new();
    build
        .include(here.join("c"))
        .include(source.join("src/include"))
        .std("c11")
        .warnings(false)
        .extra_warnings(false);
    // One section per function, so that the linker can remove unused ones.
    build.flag_if_supported("-ffunction-sections");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        // Not the headers of the host.
        build
            .flag("-ffreestanding")
            .flag("-nostdinc")
            .include(here.join("c/freestanding"));
        // clang compiles for every target. The variables of the crate cc select another compiler.
        let target = env::var("TARGET").unwrap_or_default();
        let names = [&target, &target.replace('-', "_")].map(|target| format!("CC_{target}"));
        let is_set = |name: &str| env::var_os(name).is_some();
        if !is_set("CC") && !is_set("TARGET_CC") && !names.iter().any(|name| is_set(name)) {
            build.compiler("clang");
        }
        if target.starts_with("riscv64gc-") {
            // The ABI and code model that rustc uses for this target.
            build.flag("-mabi=lp64d").flag("-mcmodel=medany");
        }
    }
    // Optimized in tests, too: checksums need most of the time.
    build.opt_level(2);
    if env::var_os("CARGO_FEATURE_ADDRESS_SANITIZER").is_some() {
        build
            .flag("-fsanitize=address")
            .flag("-fno-omit-frame-pointer");
    }
    build
}
