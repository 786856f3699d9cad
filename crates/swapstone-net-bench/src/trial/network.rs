// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of a namespace that change TCP's speed: they are set, and read back from the kernel.
//!
//! A new namespace inherits congestion control from the host. Its own
//! `net.ipv4.tcp_congestion_control` accepts only algorithms that the host does not restrict, so
//! the routes name the algorithm (`congctl`), which needs no permission of the host.

use std::error::Error;
use std::ffi::CString;
use std::fs;
use std::net::{SocketAddrV4, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

use serde_json::Value;
use swapstone_net_tap::ip;

use super::figures::Fact;

/// The congestion control of the stack `kernel`, and of the client's kernel beside other stacks.
pub const DEFAULT_CONTROL: &str = "cubic";
/// The kernel's own defaults: minimum, initial and maximum bytes (tcp(7)).
const BUFFERS: [(&str, &str); 2] = [
    ("tcp_rmem", "4096 131072 6291456"),
    ("tcp_wmem", "4096 16384 4194304"),
];
/// `ETHTOOL_G*` of linux/ethtool.h.
const OFFLOADS: [(&str, u32); 5] = [
    ("rx-csum", 0x14),
    ("tx-csum", 0x16),
    ("tso", 0x1e),
    ("gso", 0x23),
    ("gro", 0x2b),
];
/// Port 9 (discard) is closed: a connection ends with a RST.
const CLOSED: u16 = 9;
/// The length of a name of an algorithm (`TCP_CA_NAME_MAX`).
const LONGEST_CONTROL: usize = 16;

/// Sets the buffers of this namespace, and the congestion control of connections to and from the
/// subnet of `link`.
///
/// # Errors
///
/// The kernel does not have the algorithm.
pub fn set(link: &str, subnet: &str, own: &str, control: &str) -> Result<(), Box<dyn Error>> {
    for (name, value) in BUFFERS {
        fs::write(sysctl(name), value).map_err(|error| format!("net.ipv4.{name}: {error}"))?;
    }
    // Refused for an algorithm that the host restricts; the route below suffices.
    let _ = fs::write(sysctl("tcp_congestion_control"), control);
    let route = [
        "route", "replace", subnet, "dev", link, "src", own, "proto", "kernel", "scope", "link",
        "congctl", control,
    ];
    ip(&route).map_err(|error| unavailable(control, &error.to_string()).into())
}

fn unavailable(control: &str, error: &str) -> String {
    let there = fs::read_to_string(sysctl("tcp_available_congestion_control"));
    let there = there.unwrap_or_default();
    format!(
        "unavailable: this kernel has no congestion control {control} ({error}). It has: {}. \
         `modprobe tcp_{control}` loads it; or name another one.",
        words(&there)
    )
}

fn sysctl(name: &str) -> String {
    format!("/proc/sys/net/ipv4/{name}")
}

/// Reads the settings in force in this namespace, on a side (`client` or `server`).
///
/// # Errors
///
/// The kernel does not show them, or another algorithm than `control` is in force.
pub fn observe(
    side: &str,
    link: &str,
    peer: &str,
    control: &str,
) -> Result<Vec<Fact>, Box<dyn Error>> {
    let found = control_towards(peer)?;
    if found != control {
        return Err(format!(
            "the {side}'s kernel uses the congestion control {found} instead of {control}"
        )
        .into());
    }
    let mut facts = vec![(format!("{side}_control"), found)];
    for (name, _) in BUFFERS {
        facts.push((
            format!("{side}_{name}"),
            words(&fs::read_to_string(sysctl(name))?),
        ));
    }
    facts.push((format!("{side}_link"), link_words(link)?));
    Ok(facts)
}

/// Returns what a stack in a process reports of itself, on a side (`client` or `server`).
pub fn reported(side: &str, measured: &Value) -> Vec<Fact> {
    let settings = &measured["settings"];
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), words);
    let on = if settings["offload"] == true {
        "on"
    } else {
        "off"
    };
    let mut facts = vec![
        (
            format!("{side}_control"),
            text(&measured["capabilities"]["congestion_control"]),
        ),
        (
            format!("{side}_buffers"),
            format!(
                "receive:{} send:{}",
                settings["receive_buffer"], settings["send_buffer"]
            ),
        ),
        (
            format!("{side}_link"),
            format!("mtu:{} offload:{on}", settings["mtu"]),
        ),
    ];
    // Of a stack that has fixes: which are on.
    if let Some(names) = measured["device"]["fixes"].as_array() {
        let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
        let on = if names.is_empty() {
            "none".into()
        } else {
            names.join(",")
        };
        facts.push((format!("{side}_fixes"), on));
    }
    if let Some(options) = measured["device"]["options"].as_array() {
        let options: Vec<&str> = options.iter().filter_map(Value::as_str).collect();
        facts.push((format!("{side}_options"), options.join(",")));
    }
    facts
}

/// Returns the algorithm that a connection towards this address gets, from its socket: the kernel
/// selects it before it sends the SYN. Nothing listens there.
fn control_towards(peer: &str) -> Result<String, Box<dyn Error>> {
    let address = SocketAddrV4::new(peer.parse()?, CLOSED);
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        rustix::net::SocketFlags::NONBLOCK,
        None,
    )?;
    match rustix::net::connect(&socket, &address) {
        Err(rustix::io::Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
        Ok(()) => return Err(format!("{address} accepts connections").into()),
    }
    let stream = TcpStream::from(socket);
    let mut name = [0u8; LONGEST_CONTROL];
    let mut length = LONGEST_CONTROL as libc::socklen_t;
    // SAFETY: the pointers are valid for writes of `length` bytes and of the length.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if done != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    let end = name.iter().position(|byte| *byte == 0);
    Ok(words(&String::from_utf8_lossy(
        &name[..end.unwrap_or(name.len())],
    )))
}

/// Returns MTU and offloads of a network device of this namespace.
fn link_words(link: &str) -> Result<String, Box<dyn Error>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let fd = socket.as_raw_fd();
    let mut all = format!("mtu:{}", mtu(fd, link)?);
    for (name, command) in OFFLOADS {
        let on = match offload(fd, link, command) {
            Ok(0) => "off",
            Ok(_) => "on",
            Err(_) => "unknown",
        };
        all.push_str(&format!(" {name}:{on}"));
    }
    Ok(all)
}

fn request(link: &str) -> Result<libc::ifreq, Box<dyn Error>> {
    let name = CString::new(link)?;
    // SAFETY: a request of zeros is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let bytes = name.as_bytes();
    if bytes.len() >= request.ifr_name.len() {
        return Err(format!("{link} is no name of a device").into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(request)
}

fn mtu(fd: RawFd, link: &str) -> Result<i32, Box<dyn Error>> {
    let mut request = request(link)?;
    // SAFETY: the request is valid, and the kernel sets ifru_mtu (netdevice(7)).
    unsafe {
        match libc::ioctl(fd, libc::SIOCGIFMTU as _, &mut request) {
            0 => Ok(request.ifr_ifru.ifru_mtu),
            _ => Err(std::io::Error::last_os_error().into()),
        }
    }
}

/// `struct ethtool_value` of linux/ethtool.h.
#[repr(C)]
struct OffloadValue {
    command: u32,
    data: u32,
}

fn offload(fd: RawFd, link: &str, command: u32) -> Result<u32, Box<dyn Error>> {
    let mut value = OffloadValue { command, data: 0 };
    let mut request = request(link)?;
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request points to a value that outlives the call; ETHTOOL_G* sets its data.
    match unsafe { libc::ioctl(fd, libc::SIOCETHTOOL as _, &mut request) } {
        0 => Ok(value.data),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}

/// Bytes and frames of a device in this namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    received: [u64; 2],
    sent: [u64; 2],
}

impl Traffic {
    /// Reads the counters of a device.
    ///
    /// # Errors
    ///
    /// /proc/net/dev has no such device.
    pub fn read(link: &str) -> Result<Self, Box<dyn Error>> {
        let table = fs::read_to_string("/proc/thread-self/net/dev")?;
        Self::of(&table, link).ok_or_else(|| format!("/proc/net/dev has no {link}").into())
    }

    fn of(table: &str, link: &str) -> Option<Self> {
        let row = table
            .lines()
            .find_map(|line| line.trim_start().strip_prefix(link)?.strip_prefix(':'))?;
        let numbers: Vec<u64> = row
            .split_whitespace()
            .map_while(|word| word.parse().ok())
            .collect();
        Some(Self {
            received: [*numbers.first()?, *numbers.get(1)?],
            sent: [*numbers.get(8)?, *numbers.get(9)?],
        })
    }

    /// Returns the traffic as the device of the peer counts it.
    pub fn reversed(self) -> Self {
        Self {
            received: self.sent,
            sent: self.received,
        }
    }

    /// Returns the mean bytes of the frames since `before`, of each direction. A frame that the
    /// kernel has not split yet, or has already merged, counts as one.
    pub fn bytes_per_frame(self, before: Self) -> Fact {
        let mean = |now: [u64; 2], then: [u64; 2]| {
            let [bytes, frames] = [now[0] - then[0], now[1] - then[1]];
            match frames {
                0 => "none".into(),
                _ => format!("{:.0}", bytes as f64 / frames as f64),
            }
        };
        (
            "bytes_per_frame".into(),
            format!(
                "in:{} out:{}",
                mean(self.sent, before.sent),
                mean(self.received, before.received)
            ),
        )
    }
}

impl Traffic {
    /// Returns the frames since `before` of each direction, as the kernel counted them.
    pub fn frames(self, before: Self) -> Fact {
        let of = |now: [u64; 2], then: [u64; 2]| now[1] - then[1];
        (
            "link_device".into(),
            format!(
                "sent:{},received:{}",
                of(self.sent, before.sent),
                of(self.received, before.received)
            ),
        )
    }
}

/// Words separated by single spaces: a line of the output has no other.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::namespace;
    use super::*;
    use serde_json::json;

    const TABLE: &str = "Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
  tap0: 1000000     100    0    0    0     0          0         0     6600     100    0    0    0     0       0          0
";

    #[test]
    fn frames_are_counted_from_the_server() {
        let now = Traffic::of(TABLE, "tap0").unwrap();
        let found = now.bytes_per_frame(Traffic::default());
        assert_eq!(
            found,
            ("bytes_per_frame".into(), "in:66 out:10000".to_owned())
        );
        assert_eq!(now.bytes_per_frame(now).1, "in:none out:none");
        let reversed = now.reversed().bytes_per_frame(Traffic::default());
        assert_eq!(reversed.1, "in:10000 out:66");
        assert_eq!(
            now.frames(Traffic::default()),
            ("link_device".into(), "sent:100,received:100".to_owned())
        );
        assert_eq!(Traffic::of(TABLE, "tap"), None);
        assert_eq!(Traffic::of(TABLE, "v0"), None);
    }

    #[test]
    fn a_stack_reports_its_control_and_buffers() {
        let served = json!({
            "capabilities": {"congestion_control": "newreno"},
            "settings": {"receive_buffer": 65536, "send_buffer": 131_072, "offload": true, "mtu": 1500},
        });
        let facts = reported("client", &served);
        assert_eq!(facts[0].0, "client_control");
        let found: Vec<String> = facts.into_iter().map(|fact| fact.1).collect();
        assert_eq!(
            found,
            [
                "newreno",
                "receive:65536 send:131072",
                "mtu:1500 offload:on"
            ]
        );
    }

    #[test]
    fn fixes_are_listed_if_the_stack_has_any() {
        let of = |names: Value| {
            reported("server", &json!({"device": {"fixes": names}}))
                .pop()
                .unwrap()
        };
        assert_eq!(
            of(json!(["a", "b"])),
            ("server_fixes".into(), "a,b".to_owned())
        );
        assert_eq!(of(json!([])).1, "none");
        assert_eq!(of(Value::Null).0, "server_link");
    }

    #[test]
    fn the_loopback_device_is_observed() {
        let found = link_words("lo").unwrap();
        assert!(found.starts_with("mtu:"), "{found}");
        assert!(
            found.contains(" tso:on") || found.contains(" tso:off"),
            "{found}"
        );
        assert!(link_words("no-such-device").is_err());
    }

    #[test]
    fn a_missing_algorithm_is_named_with_those_that_exist() {
        let text = unavailable(
            "vegas9",
            "ip route: Error: Unknown tcp congestion algorithm.",
        );
        assert!(text.starts_with("unavailable: this kernel has no congestion control vegas9 (ip"));
        assert!(text.contains("It has: "), "{text}");
        assert!(text.contains("reno"), "every kernel has reno: {text}");
    }

    #[test]
    fn the_algorithm_of_a_route_is_in_force() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: network namespaces need root");
            return;
        }
        // In a thread of its own, whose namespace ends with it.
        let other = std::thread::spawn(|| {
            namespace::create().unwrap();
            ip(&["tuntap", "add", "dev", "tap9", "mode", "tap"]).unwrap();
            namespace::set_up("tap9", "10.9.0.1").unwrap();
            let to = |control| set("tap9", "10.9.0.0/24", "10.9.0.1", control);
            to("reno").unwrap();
            let found = observe("client", "tap9", "10.9.0.2", "reno").unwrap();
            let wrong = observe("client", "tap9", "10.9.0.2", "cubic").unwrap_err();
            let missing = to("vegas9").unwrap_err();
            (found, wrong.to_string(), missing.to_string())
        });
        let (found, wrong, missing) = other.join().unwrap();
        assert_eq!(found[0], ("client_control".to_owned(), "reno".to_owned()));
        assert_eq!(found[1].1, BUFFERS[0].1);
        assert_eq!(found[2].1, BUFFERS[1].1);
        assert_eq!(
            wrong,
            "the client's kernel uses the congestion control reno instead of cubic"
        );
        assert!(missing.starts_with("unavailable: "), "{missing}");
    }
}
