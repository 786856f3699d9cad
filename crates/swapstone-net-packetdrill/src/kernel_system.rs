// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's stack in a network namespace of this process, over a TAP, in real time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, sockopt,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use swapstone_net::device::{Device, Outgoing};
use swapstone_net_tap::{Settings, Tap, ip};
use swapstone_net_testkit::addresses::{PEER_MAC, PEER_V4, SUBJECT_MAC, SUBJECT_V4, SUBJECT_V6};

use crate::errno;
use crate::script::Script;
use crate::settings::{self, Commands, Sysctl};
use crate::system::{AGAIN, Called, Count, Direction, Edges, Errno, Handle, Setting, System};
use crate::translation::translate;

const TAP: &str = "tap0";
/// The addresses of the stack and its peer on the link.
const LINK: [Ipv4Addr; 2] = [SUBJECT_V4, PEER_V4];
/// Those of a script without `--local_ip` and `--remote_ip`, as in packetdrill.
const DIALECT: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 168, 0, 1), Ipv4Addr::new(192, 0, 2, 1)];
/// The subnet of the link.
const SUBNET_V6: &str = "fd00::/64";
/// The congestion control, whatever the host's default is: the kernel's own default.
const CONTROL: &str = "cubic";
/// A time-out of zero.
const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};
/// How long the TAP may take to become usable.
const READY: Duration = Duration::from_secs(5);

/// The kernel's stack.
pub struct KernelSystem {
    tap: Tap,
    start: Instant,
    sockets: Vec<Option<OwnedFd>>,
    /// The edges of the sockets that have been looked for.
    watches: BTreeMap<Handle, Watch>,
    /// The addresses of the stack and its peer, in place of those of the link.
    addresses: [Ipv4Addr; 2],
    /// The folder of the script.
    folder: PathBuf,
    /// How many lines of shell commands are not in force.
    pub left_out: usize,
}

/// Three edge-triggered epoll descriptors of a socket: for input, for output, and for neither. The
/// kernel reports the end of a connection and errors to all of them.
struct Watch {
    epolls: [OwnedFd; 3],
    seen: [u64; 3],
}

impl Watch {
    fn new(socket: &OwnedFd) -> rustix::io::Result<Self> {
        let wanted = [
            epoll::EventFlags::IN | epoll::EventFlags::RDHUP,
            epoll::EventFlags::OUT,
            epoll::EventFlags::empty(),
        ];
        let make = |flags| {
            let one = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let edge = flags | epoll::EventFlags::ET;
            epoll::add(&one, socket, epoll::EventData::new_u64(0), edge)?;
            Ok(one)
        };
        let [input, output, neither] = wanted.map(make);
        Ok(Self {
            epolls: [input?, output?, neither?],
            seen: [0; 3],
        })
    }

    /// Counts the events since the last call.
    fn count(&mut self) -> rustix::io::Result<Edges> {
        for (one, seen) in self.epolls.iter().zip(&mut self.seen) {
            let mut events = Vec::with_capacity(1);
            let spare = rustix::buffer::spare_capacity(&mut events);
            *seen += u64::from(epoll::wait(one, spare, Some(&AT_ONCE))? > 0);
        }
        let [input, output, state] = self.seen;
        Ok(Edges {
            input,
            output,
            state,
        })
    }
}

impl KernelSystem {
    /// Creates a network namespace and a TAP in it.
    ///
    /// # Errors
    ///
    /// Root, `/dev/net/tun` or `ip` is missing.
    pub fn new(script: &Script, folder: &Path) -> Result<Self, Box<dyn Error>> {
        let mtu = script.mtu;
        // SAFETY: without CLONE_FILES, no descriptor changes its owner.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
            .map_err(|error| format!("no network namespace can be made: {error}"))?;
        // No frames of router discovery and multicast reports beside the script's.
        std::fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0")?;
        let tap = Tap::open(&Settings {
            address: PEER_MAC,
            offload: false,
            mtu: mtu.unwrap_or(1500).into(),
            ..Settings::new(TAP)
        })?;
        let mtu = mtu.unwrap_or(1500).to_string();
        let [local, remote] = script.addresses;
        let addresses = [local.unwrap_or(DIALECT[0]), remote.unwrap_or(DIALECT[1])];
        let (own_v4, own_v6) = (addresses[0].to_string(), SUBJECT_V6.to_string());
        ip(&["link", "set", "lo", "up"])?;
        // IPv6 needs an MTU of 1280.
        let address = SUBJECT_MAC.map(|byte| format!("{byte:02x}")).join(":");
        ip(&["link", "set", TAP, "address", &address, "mtu", &mtu, "up"])?;
        ip(&["address", "add", &format!("{own_v4}/32"), "dev", TAP])?;
        let peer = addresses[1].to_string();
        congestion_control(&["route", "replace", &peer, "src", &own_v4])?;
        let hardware = PEER_MAC.map(|byte| format!("{byte:02x}")).join(":");
        ip(&["neigh", "replace", &peer, "lladdr", &hardware, "dev", TAP])?;
        if let Some(shift) = script.window_scale() {
            let most = 1u64 << (15 + shift.min(15));
            std::fs::write("/proc/sys/net/ipv4/tcp_rmem", format!("4096 131072 {most}"))?;
        }
        if mtu.parse::<u32>()? >= 1280 {
            ip(&[
                "-6",
                "address",
                "add",
                &format!("{own_v6}/64"),
                "dev",
                TAP,
                "nodad",
            ])?;
            congestion_control(&["-6", "route", "replace", SUBNET_V6])?;
        }
        let mut system = Self {
            tap,
            start: Instant::now(),
            sockets: Vec::new(),
            watches: BTreeMap::new(),
            addresses,
            folder: folder.into(),
            left_out: 0,
        };
        for command in &script.commands {
            system.configure(command);
        }
        system.settle(READY)?;
        Ok(system)
    }

    /// Waits until the device is up, and discards what the kernel sent by itself.
    fn settle(&mut self, patience: Duration) -> Result<(), Box<dyn Error>> {
        let end = Instant::now() + patience;
        let state = format!("/sys/class/net/{TAP}/carrier");
        while std::fs::read_to_string(&state).is_ok_and(|text| text.trim() == "0") {
            if Instant::now() > end {
                return Err("the TAP has no carrier".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        while self.tap.receive().is_some() {}
        self.start = Instant::now();
        Ok(())
    }

    /// Returns the script's address in place of that of the link.
    fn live(&self, peer: SocketAddr) -> SocketAddr {
        match peer.ip() {
            IpAddr::V4(PEER_V4) => SocketAddr::new(self.addresses[1].into(), peer.port()),
            _ => peer,
        }
    }

    fn descriptor(&self, at: Handle) -> Called<&OwnedFd> {
        self.sockets[at].as_ref().ok_or("EBADF")
    }

    fn add(&mut self, descriptor: OwnedFd) -> Handle {
        self.sockets.push(Some(descriptor));
        self.sockets.len() - 1
    }
}

/// Sets a route of the TAP with the congestion control of the tests.
fn congestion_control(route: &[&str]) -> Result<(), Box<dyn Error>> {
    let rest = ["dev", TAP, "proto", "kernel", "congctl", CONTROL];
    ip(&[route, &rest].concat())
}

fn named(error: rustix::io::Errno) -> Errno {
    errno::name(error.raw_os_error())
}

impl System for KernelSystem {
    fn now(&mut self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).expect("less than 500000 years")
    }

    fn wait(&mut self, until: u64) {
        let rest = Duration::from_micros(until.saturating_sub(self.now()));
        let timeout = Timespec {
            tv_sec: i64::try_from(rest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: rest.subsec_nanos().into(),
        };
        let mut one = [PollFd::from_borrowed_fd(
            self.tap.descriptor(),
            PollFlags::IN,
        )];
        // An interrupted wait is repeated by the caller.
        let _ = poll(&mut one, Some(&timeout));
    }

    fn inject(&mut self, frame: &[u8]) -> Result<(), String> {
        let mut live = frame.to_vec();
        translate(&mut live, LINK, self.addresses);
        let sent = self.tap.transmit(Outgoing {
            parts: &[&live],
            partial: None,
            segmentation: None,
        });
        sent.map_err(|_| format!("the TAP accepts no frame of {} bytes", frame.len()))
    }

    fn take(&mut self) -> Option<(u64, Vec<u8>)> {
        let mut bytes = self.tap.receive()?.bytes.to_vec();
        translate(&mut bytes, self.addresses, LINK);
        Some((self.now(), bytes))
    }

    fn exact(&self) -> bool {
        false
    }

    fn has_info(&self) -> bool {
        true
    }

    fn info(&mut self, at: Handle) -> Called<Vec<u8>> {
        let mut info = vec![0u8; 512];
        let mut size = info.len() as libc::socklen_t;
        // SAFETY: the pointers are valid for writes of this size, and of the size itself.
        let done = unsafe {
            libc::getsockopt(
                self.descriptor(at)?.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut size,
            )
        };
        info.truncate(size as usize);
        if done == 0 {
            Ok(info)
        } else {
            Err(last_error())
        }
    }

    fn configure(&mut self, command: &str) {
        let Commands { sysctls, left_out } = settings::commands(command, &self.folder);
        // A newer or an older kernel has others.
        let unknown = |one: &&Sysctl| {
            let file = format!("/proc/sys/net/ipv4/{}", one.name);
            std::fs::write(file, &one.value).is_err()
        };
        self.left_out += left_out + sysctls.iter().filter(unknown).count();
    }

    fn socket(&mut self, ipv6: bool, udp: bool) -> Called<Handle> {
        let family = if ipv6 {
            AddressFamily::INET6
        } else {
            AddressFamily::INET
        };
        let kind = if udp {
            SocketType::DGRAM
        } else {
            SocketType::STREAM
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let descriptor = rustix::net::socket_with(family, kind, flags, None).map_err(named)?;
        Ok(self.add(descriptor))
    }

    fn bind(&mut self, at: Handle, address: SocketAddr) -> Called<()> {
        rustix::net::bind(self.descriptor(at)?, &address).map_err(named)
    }

    fn listen(&mut self, at: Handle, backlog: usize) -> Called<()> {
        let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        rustix::net::listen(self.descriptor(at)?, backlog).map_err(named)
    }

    fn accept(&mut self, at: Handle) -> Called<Handle> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let accepted = rustix::net::accept_with(self.descriptor(at)?, flags).map_err(named)?;
        Ok(self.add(accepted))
    }

    fn connect(&mut self, at: Handle, peer: SocketAddr) -> Called<()> {
        rustix::net::connect(self.descriptor(at)?, &self.live(peer)).map_err(named)
    }

    fn send(
        &mut self,
        at: Handle,
        bytes: &[u8],
        to: Option<SocketAddr>,
        flags: i32,
    ) -> Called<usize> {
        let descriptor = self.descriptor(at)?;
        let flags = SendFlags::from_bits_retain(flags.cast_unsigned()) | SendFlags::NOSIGNAL;
        match to {
            Some(to) => rustix::net::sendto(descriptor, bytes, flags, &self.live(to)),
            None => rustix::net::send(descriptor, bytes, flags),
        }
        .map_err(named)
    }

    fn receive(&mut self, at: Handle, most: usize, flags: i32) -> Called<Vec<u8>> {
        let mut bytes = vec![0; most];
        let flags = RecvFlags::from_bits_retain(flags.cast_unsigned());
        let (size, _) =
            rustix::net::recv(self.descriptor(at)?, &mut bytes[..], flags).map_err(named)?;
        bytes.truncate(size);
        Ok(bytes)
    }

    fn shutdown(&mut self, at: Handle, which: Direction) -> Called<()> {
        let which = match which {
            Direction::Read => Shutdown::Read,
            Direction::Write => Shutdown::Write,
            Direction::Both => Shutdown::Both,
        };
        rustix::net::shutdown(self.descriptor(at)?, which).map_err(named)
    }

    fn close(&mut self, at: Handle) -> Called<()> {
        self.descriptor(at)?;
        self.sockets[at] = None;
        self.watches.remove(&at);
        Ok(())
    }

    fn set(&mut self, at: Handle, setting: Setting) -> Called<()> {
        let descriptor = self.descriptor(at)?;
        match setting {
            Setting::NoDelay(on) => sockopt::set_tcp_nodelay(descriptor, on),
            Setting::KeepAlive(on) => sockopt::set_socket_keepalive(descriptor, on),
            Setting::KeepIdle(seconds) => {
                sockopt::set_tcp_keepidle(descriptor, Duration::from_secs(seconds.into()))
            }
            Setting::Linger(seconds) => {
                let time = seconds.map(|seconds| Duration::from_secs(seconds.into()));
                sockopt::set_socket_linger(descriptor, time)
            }
            Setting::Other(level, name, value) => {
                return set_number(descriptor, level, name, value);
            }
        }
        .map_err(named)
    }

    fn count(&mut self, at: Handle, count: Count) -> Called<i64> {
        let descriptor = self.descriptor(at)?.as_raw_fd();
        let mut value: libc::c_int = 0;
        let mut size = size_of::<libc::c_int>() as libc::socklen_t;
        let pointer = &raw mut value;
        // SAFETY: the pointers are valid for writes of an int and its size.
        let done = unsafe {
            match count {
                Count::Unread => libc::ioctl(descriptor, libc::FIONREAD, pointer),
                Count::Unacknowledged => libc::ioctl(descriptor, libc::TIOCOUTQ, pointer),
                Count::Option(level, name) => {
                    libc::getsockopt(descriptor, level, name, pointer.cast(), &raw mut size)
                }
            }
        };
        match done {
            0 => Ok(value.into()),
            _ => Err(last_error()),
        }
    }

    fn poll(&mut self, at: Handle) -> i64 {
        let Ok(descriptor) = self.descriptor(at) else {
            return 0;
        };
        let all = PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP;
        let mut one = [PollFd::new(descriptor, all)];
        match poll(&mut one, Some(&AT_ONCE)) {
            Ok(_) => one[0].revents().bits().into(),
            Err(_) => 0,
        }
    }

    fn edges(&mut self, at: Handle) -> Called<Edges> {
        let socket = self.sockets[at].as_ref().ok_or("EBADF")?;
        let watch = match self.watches.entry(at) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Watch::new(socket).map_err(named)?),
        };
        watch.count().map_err(named)
    }

    fn error(&mut self, at: Handle) -> Called<Option<Errno>> {
        match sockopt::socket_error(self.descriptor(at)?).map_err(named)? {
            Ok(()) => Ok(None),
            Err(error) => Ok(Some(named(error))),
        }
    }

    fn local_port(&mut self, at: Handle) -> Option<u16> {
        let address = rustix::net::getsockname(self.descriptor(at).ok()?).ok()?;
        SocketAddr::try_from(address)
            .ok()
            .map(|address| address.port())
    }
}

/// Sets an option whose value is an int.
fn set_number(descriptor: &OwnedFd, level: i32, name: i32, value: i32) -> Called<()> {
    // SAFETY: the pointer is valid for reads of the size of an int.
    let done = unsafe {
        libc::setsockopt(
            descriptor.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

/// The error of the last call of the C library.
fn last_error() -> Errno {
    let error = io::Error::last_os_error().raw_os_error();
    error.map_or(AGAIN, errno::name)
}
