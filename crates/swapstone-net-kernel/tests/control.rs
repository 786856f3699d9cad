// SPDX-License-Identifier: MIT OR Apache-2.0
//! The congestion control that a route names, in a network namespace of its own: it needs root and
//! `ip`.

use std::net::SocketAddr;
use std::process::Command;

use rustix::thread::{UnshareFlags, unshare_unsafe};
use swapstone_net::{Limits, Net, Stack};
use swapstone_net_kernel::{Buffers, Kernel};

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip")
        .args(arguments)
        .status()
        .is_ok_and(|status| status.success())
}

#[test]
fn the_capabilities_name_the_congestion_control_in_force() {
    // SAFETY: only this thread's network namespace changes; no open file is affected.
    if let Err(error) = unsafe { unshare_unsafe(UnshareFlags::NEWNET) } {
        eprintln!("skipped: no network namespace of its own ({error}); this test has to be root");
        return;
    }
    let route = ["127.0.0.1", "dev", "lo", "src", "127.0.0.1", "congctl"];
    let to = |control| {
        [
            &["route", "replace", "table", "local", "local"][..],
            &route,
            &[control],
        ]
        .concat()
    };
    if !ip(&["link", "set", "lo", "up"]) || !ip(&to("reno")) {
        eprintln!("skipped: ip can't set a route");
        return;
    }
    let sysctl = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    let (kernel, platform) = Kernel::new(Limits::default(), Buffers::Automatic).unwrap();
    let net = Net::new(kernel, platform);
    let control = || net.with(|stack| stack.capabilities().congestion_control);
    assert_eq!(control(), sysctl.trim(), "before a connection");
    let server = net.tcp().unwrap();
    let at = SocketAddr::from(([127, 0, 0, 1], 80));
    server.bind(at).unwrap();
    server.listen(1).unwrap();
    net.tcp().unwrap().connect(at).unwrap();
    assert_eq!(control(), "reno");
}
