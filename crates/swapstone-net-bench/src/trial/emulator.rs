// SPDX-License-Identifier: MIT OR Apache-2.0
//! An emulated link between two network devices, for all stacks and the kernel.
//!
//! It is [`swapstone_net_link::Link`] on the machine's clock: a thread reads frames at one end, and
//! writes those that arrive at the other. Which frame of a direction is lost, reordered, duplicated
//! or corrupted follows from the seed and the number of the frame alone. When a frame arrives
//! depends on the machine, so delays are measured.

use std::error::Error;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use swapstone_net::Instant;
use swapstone_net::device::{Checksum, Device, ETHERNET_HEADER};
use swapstone_net_link::{Counters, Link, Options, Path, Port, Receipts};

use super::figures::Fact;
use super::setting;

/// The maximum wait, so that the end is noticed.
const TICK: Duration = Duration::from_millis(10);
/// Frames that are read from an end before the other one's turn.
const BATCH: usize = 32;
const MTU: usize = 1500;
/// Frames in transit. 16384 are 0.2 s at 1 Gbit/s.
const FRAMES: usize = 16_384;
/// Of the socket of a packet end, in bytes.
const RECEIVE_BUFFER: libc::c_int = 32 << 20;

/// An end of the link.
pub struct End {
    descriptor: OwnedFd,
    /// Whether it is a packet socket, which counts frames that it dropped.
    packet: bool,
}

impl End {
    /// Creates a TAP in this namespace: the other side of a device of the kernel. Its frames have no
    /// offloads.
    ///
    /// # Errors
    ///
    /// See [`swapstone_net_tap::Tap::open`].
    pub fn tap(name: &str) -> Result<Self, Box<dyn Error>> {
        let descriptor = swapstone_net_tap::open_raw(name)
            .map_err(|error| format!("the TAP {name}: {error}"))?;
        Ok(Self {
            descriptor,
            packet: false,
        })
    }

    /// Opens a packet socket (packet(7)) on a device of this namespace, which a stack outside of the
    /// kernel opens as well.
    ///
    /// # Errors
    ///
    /// The kernel has no packet sockets, or no such device.
    pub fn packet(name: &str) -> Result<Self, Box<dyn Error>> {
        let descriptor =
            packet_socket(name).map_err(|error| format!("a packet socket on {name}: {error}"))?;
        Ok(Self {
            descriptor,
            packet: true,
        })
    }

    /// Moves a frame to the link, which counts what it refuses; `false` without a frame.
    fn read(&self, port: &mut Port, buffer: &mut [u8]) -> io::Result<bool> {
        match rustix::io::read(&self.descriptor, &mut *buffer) {
            Ok(size) => {
                let _ = port.transmit_as(&buffer[..size], Checksum::Unknown);
                Ok(true)
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether the device accepted the frame.
    fn write(&self, bytes: &[u8]) -> bool {
        rustix::io::write(&self.descriptor, bytes).is_ok()
    }

    /// Returns how many frames did not reach the emulator since the last call.
    fn missed(&self) -> u64 {
        if !self.packet {
            return 0;
        }
        statistics(&self.descriptor).map_or(0, |found| found.tp_drops.into())
    }
}

/// What the link did since [`Emulator::impair`], of each direction: to the server, and from it.
#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    counters: Counters,
    receipts: Receipts,
    /// Frames that the sender's side dropped before the emulator had read them.
    missed: u64,
    /// Frames that the receiver's device did not accept.
    blocked: u64,
}

/// The counters, and the ends, whose devices exist as long as they do.
type Ended = ([Direction; 2], [End; 2]);

enum Order {
    Impair(Path),
    /// Reply when no frame waits.
    #[cfg(test)]
    Settle,
    Stop,
}

/// A running emulator.
pub struct Emulator {
    orders: Sender<Order>,
    done: Receiver<()>,
    thread: Option<JoinHandle<Result<Ended, String>>>,
    failed: Arc<AtomicBool>,
    path: Path,
    seed: u64,
}

impl Emulator {
    /// Starts to connect the client's end to the server's, without impairments at first.
    pub fn start(client: End, server: End, path: Path, seed: u64) -> Self {
        let (orders, received) = channel();
        let (finished, done) = channel();
        let failed = Arc::new(AtomicBool::new(false));
        let mark = Arc::clone(&failed);
        let thread = std::thread::spawn(move || {
            let result = carry([client, server], seed, &received, &finished);
            mark.store(result.is_err(), Ordering::Relaxed);
            result
        });
        Self {
            orders,
            done,
            thread: Some(thread),
            failed,
            path,
            seed,
        }
    }

    /// Sets the impairments; frames up to now don't count.
    ///
    /// # Errors
    ///
    /// The emulator has ended.
    pub fn impair(&self) -> Result<(), Box<dyn Error>> {
        let _ = self.orders.send(Order::Impair(self.path));
        match self.done.recv_timeout(Duration::from_secs(5)) {
            Ok(()) if !self.failed.load(Ordering::Relaxed) => Ok(()),
            _ => Err("the emulated link has ended".into()),
        }
    }

    /// Waits until all frames that were sent have arrived or are lost.
    #[cfg(test)]
    fn settle(&self) {
        self.orders.send(Order::Settle).unwrap();
        self.done.recv_timeout(Duration::from_secs(60)).unwrap();
    }

    /// Ends it; returns the setting in force, the seed, the counters of both directions, and the
    /// ends.
    ///
    /// # Errors
    ///
    /// It could not read or write frames.
    pub fn stop(mut self) -> Result<(Vec<Fact>, [End; 2]), Box<dyn Error>> {
        let _ = self.orders.send(Order::Stop);
        let ended = self.thread.take().map(JoinHandle::join);
        let Some(Ok(result)) = ended else {
            return Err("the emulated link has ended in disorder".into());
        };
        let ([to_server, from_server], ends) = result?;
        let facts = vec![
            ("link_setting".into(), setting::text_of(&self.path)),
            ("link_seed".into(), self.seed.to_string()),
            ("link_in".into(), words(&to_server)),
            ("link_out".into(), words(&from_server)),
        ];
        Ok((facts, ends))
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn words(of: &Direction) -> String {
    let (counters, receipts) = (&of.counters, &of.receipts);
    format!(
        "frames:{},lost:{},reordered:{},duplicated:{},corrupted:{},delivered:{},overtaken:{},\
         shortest_us:{},mean_us:{},longest_us:{},dropped:{}",
        counters.sent,
        counters.lost,
        counters.reordered,
        counters.duplicated,
        counters.corrupted,
        receipts.frames,
        receipts.overtaken,
        receipts.shortest.as_micros(),
        receipts.mean().as_micros(),
        receipts.longest.as_micros(),
        of.missed + of.blocked + counters.refused + counters.oversized,
    )
}

fn carry(
    ends: [End; 2],
    seed: u64,
    orders: &Receiver<Order>,
    done: &Sender<()>,
) -> Result<Ended, String> {
    precise_timers();
    let began = std::time::Instant::now();
    let mut buffer = vec![0; MTU + ETHERNET_HEADER + 64];
    let (mut link, mut ports) = connection(seed);
    let mut blocked = [0; 2];
    #[cfg(test)]
    let mut settling = false;
    loop {
        let now = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        link.run_until(Instant::from_micros(now));
        match orders.try_recv() {
            Ok(Order::Impair(path)) => {
                // A new link: its random numbers begin with the first frame of the work.
                (link, ports) = connection(seed);
                link.run_until(Instant::from_micros(now));
                link.set_paths(path);
                blocked = [0; 2];
                ends.iter().for_each(|end| {
                    end.missed(); // the counter of a packet socket begins again
                });
                let _ = done.send(());
            }
            #[cfg(test)]
            Ok(Order::Settle) => settling = true,
            Ok(Order::Stop) => break,
            Err(_) => {}
        }
        let mut idle = true;
        for (at, end) in ends.iter().enumerate() {
            for _ in 0..BATCH {
                let read = end.read(&mut ports[at], &mut buffer);
                if !read.map_err(|error| format!("the emulated link can't read: {error}"))? {
                    break;
                }
                idle = false;
            }
        }
        for (at, end) in ends.iter().enumerate() {
            while let Some(frame) = ports[at].receive() {
                blocked[at] += u64::from(!end.write(&frame.bytes));
                idle = false;
            }
        }
        #[cfg(test)]
        if idle && settling && link.next_arrival().is_none() {
            settling = false;
            let _ = done.send(());
        }
        if idle {
            let wait = link.next_arrival().map_or(TICK, |when| {
                let now = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                Duration::from_micros(when.micros().saturating_sub(now)).min(TICK)
            });
            let mut fds = [
                PollFd::new(&ends[0].descriptor, PollFlags::IN),
                PollFd::new(&ends[1].descriptor, PollFlags::IN),
            ];
            let timeout = Timespec::try_from(wait).unwrap_or(Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            });
            match poll(&mut fds, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(format!("the emulated link can't wait: {error}")),
            }
        }
    }
    let missed = [ends[0].missed(), ends[1].missed()];
    let found = [0, 1].map(|from| Direction {
        counters: link.counters(from),
        receipts: link.receipts(1 - from),
        missed: missed[from],
        blocked: blocked[1 - from],
    });
    Ok((found, ends))
}

/// The ports of the client's and of the server's side.
fn connection(seed: u64) -> (Link, [Port; 2]) {
    let link = Link::new(Options {
        mtu: MTU,
        frames: FRAMES,
        digest: false,
        seed,
        ..Options::default()
    });
    let ports = [1, 2].map(|last| link.port([2, 0, 0, 0, 0, last]));
    (link, ports)
}

/// Lets waits of this thread end on time: the default slack is 50 us (prctl(2)).
fn precise_timers() {
    // SAFETY: this option takes a number.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

fn packet_socket(name: &str) -> io::Result<OwnedFd> {
    let checked = |result: libc::c_int| match result {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    };
    let all = (libc::ETH_P_ALL as u16).to_be();
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the call has no pointers, and the descriptor is new.
    let socket = unsafe {
        let descriptor = checked(libc::socket(libc::AF_PACKET, kind, 0))?;
        OwnedFd::from_raw_fd(descriptor)
    };
    set_option(
        &socket,
        libc::SOL_SOCKET,
        libc::SO_RCVBUFFORCE,
        RECEIVE_BUFFER,
    )?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
    let index = rustix::net::netdevice::name_to_index(&socket, name)?;
    // SAFETY: zeros are a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = all;
    address.sll_ifindex = libc::c_int::try_from(index).map_err(io::Error::other)?;
    // SAFETY: the pointer is valid for reads of this length.
    checked(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    })?;
    Ok(socket)
}

fn set_option(
    socket: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the pointer is valid for reads of this length.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Reads the statistics of a packet socket, which begin again at zero.
fn statistics(socket: &OwnedFd) -> Option<libc::tpacket_stats> {
    // SAFETY: zeros are valid, and the pointers are valid for writes of `length` bytes and of the
    // length.
    unsafe {
        let mut found: libc::tpacket_stats = std::mem::zeroed();
        let mut length = size_of_val(&found) as libc::socklen_t;
        let result = libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut found).cast(),
            &raw mut length,
        );
        (result == 0).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::namespace;
    use swapstone_net_tap::ip;

    const COUNT: u16 = 400;

    /// Sends numbered frames over a link in a namespace of its own; returns the numbers that
    /// arrived, in order, and the facts.
    fn sent_over(text: &'static str, seed: u64) -> (Vec<u16>, Vec<String>) {
        let _taps = crate::trial::tests::TAPS.lock();
        let other = std::thread::spawn(move || {
            namespace::create().unwrap();
            let ends = ["e0", "e1"].map(|name| {
                let end = End::tap(name).unwrap();
                let conf = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
                let _ = std::fs::write(conf, "1");
                ip(&["link", "set", name, "up"]).unwrap();
                end
            });
            let [near, far] = ["e0", "e1"].map(|name| packet_socket(name).unwrap());
            let [client, server] = ends;
            let emulator = Emulator::start(client, server, setting::parse(text).unwrap(), seed);
            emulator.impair().unwrap();
            // In one burst, so that others overtake a held frame however busy the machine is.
            for number in 0..COUNT {
                let mut frame = [0; 60];
                frame[12..14].copy_from_slice(&[0x88, 0xb5]); // for local experiments (IEEE 802)
                frame[14..16].copy_from_slice(&number.to_be_bytes());
                rustix::io::write(&near, &frame).unwrap();
            }
            emulator.settle();
            let (facts, ends) = emulator.stop().unwrap();
            let mut numbers = Vec::new();
            let mut buffer = [0; 100];
            while let Ok(size) = rustix::io::read(&far, &mut buffer) {
                assert_eq!(size, 60);
                numbers.push(u16::from_be_bytes([buffer[14], buffer[15]]));
            }
            drop(ends);
            (numbers, facts.into_iter().map(|fact| fact.1).collect())
        });
        other.join().unwrap()
    }

    fn count(words: &str, name: &str) -> u64 {
        let mut all = words.split(',').filter_map(|word| word.split_once(':'));
        all.find(|(of, _)| *of == name).unwrap().1.parse().unwrap()
    }

    #[test]
    fn the_same_seed_loses_the_same_frames_and_the_counters_show_it() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: network namespaces need root");
            return;
        }
        let (numbers, facts) = sent_over("loss:10%+delay:2ms", 7);
        assert_eq!(
            facts[..2],
            ["loss:10%+delay:2ms".to_owned(), "7".to_owned()]
        );
        let (total, into) = (u64::from(COUNT), &facts[2]);
        assert_eq!(count(into, "frames"), total);
        assert_eq!(count(into, "lost"), total - numbers.len() as u64);
        assert_eq!(count(into, "delivered"), numbers.len() as u64);
        assert!((10..90).contains(&count(into, "lost")), "{into}");
        assert!(count(into, "shortest_us") >= 2000, "{into}");
        assert_eq!(
            count(into, "overtaken") + count(into, "dropped"),
            0,
            "{into}"
        );
        assert!(numbers.is_sorted());
        assert_eq!(sent_over("loss:10%+delay:2ms", 7).0, numbers);
        assert_ne!(sent_over("loss:10%", 8).0, numbers);
    }

    #[test]
    fn frames_are_reordered_and_duplicated_as_counted() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: network namespaces need root");
            return;
        }
        let (numbers, facts) = sent_over("reorder:10%+duplicate:5%", 3);
        let into = &facts[2];
        assert_eq!(count(into, "lost"), 0, "{into}");
        assert!(
            count(into, "reordered") > 0 && count(into, "duplicated") > 0,
            "{into}"
        );
        let expected = u64::from(COUNT) + count(into, "duplicated");
        assert_eq!(numbers.len() as u64, expected);
        assert!(count(into, "overtaken") > 0, "{into}");
        assert!(!numbers.is_sorted());
        let (clean, facts) = sent_over("clean", 3);
        assert!(clean.into_iter().eq(0..COUNT), "{facts:?}");
    }
}
