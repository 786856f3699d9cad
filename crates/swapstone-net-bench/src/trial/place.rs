// SPDX-License-Identifier: MIT OR Apache-2.0
//! The environment of a trial: network namespaces, a TAP or a veth pair, a server and a client.
//!
//! One of the two is measured, over the stack under test; the other is over the kernel's. A stack
//! with a TAP is in the measured process.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;
use swapstone_net_link::Path;
use swapstone_net_tap::{SYSTEM_PATH, ip};

use super::emulator::{Emulator, End};
use super::figures::Fact;
use super::guest::Guest;
use super::namespace::{self, set_up};
use super::network::{self, Traffic};
use super::seen::{self, Sockets};
use super::works::{Client, Work};
use crate::report;

/// The time limit of a client in seconds.
pub const LONGEST_S: u64 = 40;

const CLIENT: &str = "10.9.0.1";
pub const SERVER: &str = "10.9.0.2";
pub const PORT: u16 = 80;
const SUBNET: &str = "10.9.0.0/24";
const TAP: &str = "tap0";
/// The devices of the client and of the server where the server's stack is the kernel's, and of the
/// client on an emulated link.
const DEVICES: (&str, &str) = ("v0", "v1");
/// The name of the kernel's stack.
pub const KERNEL: &str = "kernel";
const NO_OFFLOAD: &str = "--no-offload";
/// Further arguments of a measured client. With the first requests the stack resolves the server's
/// address and allocates what it keeps. A request ends with the server's FIN, so that each request
/// has the same frames. Afterwards the client has a connection by which its stack is observed.
const MEASURED_CLIENT: [&str; 4] = ["--warm-up", "10", "--await-close", "--hold"];
/// Frames that wait for an emulated link.
const QUEUE: &str = "10000";
/// The length of the longest stack name: the environment has the same size for all stacks.
const LONGEST_NAME: usize = 128;

/// A process that is killed when its owner is dropped.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server: a process of this program, or a machine.
enum Server {
    Process(Owned, BufReader<ChildStdout>),
    Bare(Guest),
}

impl Server {
    fn id(&self) -> u32 {
        match self {
            Self::Process(process, _) => process.0.id(),
            Self::Bare(guest) => guest.id(),
        }
    }
}

/// How the measured process and its network are set up.
pub struct Setup<'a> {
    /// The stack of the measured process.
    pub stack: &'a str,
    /// The congestion control of the kernel in every namespace, whatever the host's default is.
    pub control: &'a str,
    /// The path and the seed of an emulated link; `None` for devices that are directly connected.
    pub link: Option<(Path, u64)>,
    /// The connections that the client has at once, in a work that has several; `None` for its own.
    pub clients: Option<usize>,
    /// The program of the machine, of a work without an operating system; `None` for the file beside
    /// this program.
    pub guest: Option<&'a str>,
}

/// A running server, and the namespace from which a client reaches it.
pub struct Place<'a> {
    setup: &'a Setup<'a>,
    work: &'a Work,
    emulator: Option<Emulator>,
    server: Server,
    client_cpu: Option<usize>,
    /// The namespace of a client with a TAP, if it is not that of this thread.
    client_home: Option<File>,
    /// The client, while it is measured and has not been stopped.
    client: Option<Owned>,
    /// A network device of this namespace, and its traffic before the work. It is the client's, or
    /// the server's if the client has a TAP.
    link: &'static str,
    before: Traffic,
    facts: Vec<Fact>,
}

/// Returns whether the client has a TAP and a stack of its own.
fn is_client_wired(setup: &Setup<'_>, work: &Work) -> bool {
    work.measures_client() && setup.stack != KERNEL
}

/// Returns the addresses of the kernel beside a TAP, and of the stack behind it.
fn addresses(client_wired: bool) -> (&'static str, &'static str) {
    if client_wired {
        (SERVER, CLIENT)
    } else {
        (CLIENT, SERVER)
    }
}

impl<'a> Place<'a> {
    /// Creates the namespaces and starts the server. If the client is over the kernel's stack, its
    /// kernel resolves the server's address.
    pub fn make(setup: &'a Setup<'a>, work: &'a Work) -> Result<Self, Box<dyn Error>> {
        let all = cpus()?;
        let pair = (all.len() > 1).then(|| (all[0], all[1]));
        match setup.link {
            None => Self::direct(setup, work, pair),
            Some((path, seed)) => Self::emulated(setup, work, pair, path, seed),
        }
    }

    fn direct(
        setup: &'a Setup<'a>,
        work: &'a Work,
        pair: Option<(usize, usize)>,
    ) -> Result<Self, Box<dyn Error>> {
        let Setup { stack, control, .. } = *setup;
        let wired = stack != KERNEL;
        let client_wired = is_client_wired(setup, work);
        namespace::create()?;
        if wired {
            let (near, _) = addresses(client_wired);
            let offload = !work.measured().contains(&NO_OFFLOAD);
            let mut tap = vec!["tuntap", "add", "dev", TAP, "mode", "tap"];
            tap.extend(offload.then_some("vnet_hdr"));
            ip(&tap)?;
            set_up(TAP, near)?;
            network::set(TAP, SUBNET, near, control)?;
        }
        pin(pair.map(|pair| pair.0))?;
        let mut facts = Vec::new();
        let mut server = if work.is_bare() {
            Server::Bare(Guest::boot(setup.stack, TAP, setup.guest)?)
        } else {
            serve(setup, work, &[])?
        };
        if !wired {
            let home = namespace::current()?;
            namespace::create()?;
            let here = namespace::current()?;
            let id = server.id().to_string();
            let (ours, theirs) = DEVICES;
            ip(&[
                "link", "add", "name", ours, "type", "veth", "peer", "name", theirs, "netns", &id,
            ])?;
            set_up(ours, CLIENT)?;
            network::set(ours, SUBNET, CLIENT, control)?;
            namespace::enter(&home)?;
            set_up(theirs, SERVER)?;
            network::set(theirs, SUBNET, SERVER, control)?;
            facts.extend(network::observe("server", theirs, CLIENT, control)?);
            namespace::enter(&here)?;
        }
        let link = if wired { TAP } else { DEVICES.0 };
        if !client_wired {
            acquaint(&mut server)?;
            facts.extend(network::observe("client", link, SERVER, control)?);
        }
        Ok(Self {
            setup,
            work,
            emulator: None,
            server,
            client_cpu: pair.map(|pair| pair.1),
            client_home: None,
            client: None,
            link,
            before: Traffic::read(link)?,
            facts,
        })
    }

    /// Each side has a namespace of its own, and the emulated link connects their devices.
    fn emulated(
        setup: &'a Setup<'a>,
        work: &'a Work,
        pair: Option<(usize, usize)>,
        path: Path,
        seed: u64,
    ) -> Result<Self, Box<dyn Error>> {
        let Setup { stack, control, .. } = *setup;
        let wired = stack != KERNEL;
        let client_wired = is_client_wired(setup, work);
        let (near, _) = addresses(client_wired);
        let (ours, theirs) = DEVICES;
        namespace::create()?;
        let home = namespace::current()?;
        let far_end = if wired {
            ip(&["tuntap", "add", "dev", TAP, "mode", "tap"])?;
            // This namespace's kernel has no address on it, and sends nothing.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{TAP}/disable_ipv6"), "1");
            ip(&["link", "set", TAP, "txqueuelen", QUEUE, "up"])?;
            End::packet(TAP)?
        } else {
            let end = End::tap(theirs)?;
            ip(&["link", "set", theirs, "txqueuelen", QUEUE])?;
            set_up(theirs, SERVER)?;
            network::set(theirs, SUBNET, SERVER, control)?;
            end
        };
        namespace::create()?;
        let here = namespace::current()?;
        let near_end = End::tap(ours)?;
        ip(&["link", "set", ours, "txqueuelen", QUEUE])?;
        set_up(ours, near)?;
        network::set(ours, SUBNET, near, control)?;
        let (client_end, server_end) = if client_wired {
            (far_end, near_end)
        } else {
            (near_end, far_end)
        };
        let emulator = Emulator::start(client_end, server_end, path, seed);
        if !client_wired {
            namespace::enter(&home)?;
        }
        pin(pair.map(|pair| pair.0))?;
        let mut facts = Vec::new();
        let more: &[&str] = if wired { &[NO_OFFLOAD] } else { &[] };
        let mut server = serve(setup, work, more)?;
        if !wired {
            facts.extend(network::observe("server", theirs, CLIENT, control)?);
        }
        if !client_wired {
            namespace::enter(&here)?;
            acquaint(&mut server)?;
            facts.extend(network::observe("client", ours, SERVER, control)?);
        }
        let before = Traffic::read(ours)?;
        emulator.impair()?;
        Ok(Self {
            setup,
            work,
            emulator: Some(emulator),
            server,
            client_cpu: pair.map(|pair| pair.1),
            client_home: client_wired.then_some(home),
            client: None,
            link: ours,
            before,
            facts,
        })
    }

    /// Ends the emulated link, if there is one; returns its setting and counters, and the frames
    /// that the client's device sent and received meanwhile.
    pub fn end_link(&mut self) -> Result<Vec<Fact>, Box<dyn Error>> {
        let Some(emulator) = self.emulator.take() else {
            return Ok(Vec::new());
        };
        let (mut facts, ends) = emulator.stop()?;
        let (now, then) = self.traffic()?;
        facts.push(now.frames(then));
        drop(ends);
        Ok(facts)
    }

    /// Returns the client's traffic up to now, and that before the work.
    fn traffic(&self) -> Result<(Traffic, Traffic), Box<dyn Error>> {
        let (now, then) = (Traffic::read(self.link)?, self.before);
        Ok(if is_client_wired(self.setup, self.work) {
            (now.reversed(), then.reversed())
        } else {
            (now, then)
        })
    }

    /// Returns the network's settings that were in force, and the mean size of a frame up to now.
    pub fn facts(&self) -> Result<Vec<Fact>, Box<dyn Error>> {
        let mut facts = self.facts.clone();
        let (now, then) = self.traffic()?;
        if is_client_wired(self.setup, self.work) {
            let control = self.setup.control;
            facts.extend(network::observe("server", self.link, CLIENT, control)?);
        }
        facts.push(now.bytes_per_frame(then));
        Ok(facts)
    }

    /// Observes the measured process, which still runs.
    pub fn observe(&self) -> Result<Vec<Fact>, Box<dyn Error>> {
        if !self.work.measures_client() {
            return seen::of(self.server.id(), Sockets::Listening);
        }
        let client = self.client.as_ref().ok_or("the client was not started")?;
        seen::of(client.0.id(), Sockets::Connected)
    }

    /// Runs the client; returns its output, and whether it did its work within the time limit. A
    /// client that is measured still runs then.
    pub fn client(&mut self) -> Result<(String, bool), Box<dyn Error>> {
        pin(self.client_cpu)?;
        if let Server::Bare(guest) = &mut self.server {
            guest.begin()?;
        }
        if let Some(home) = &self.client_home {
            let here = namespace::current()?;
            namespace::enter(home)?;
            let child = self.start_client();
            namespace::enter(&here)?;
            return self.measured_client(child?);
        }
        let child = self.start_client()?;
        if self.work.measures_client() {
            self.measured_client(child)
        } else {
            self.whole_client(child)
        }
    }

    fn start_client(&self) -> Result<Owned, Box<dyn Error>> {
        let (work, stack) = (self.work, self.setup.stack);
        let (Client::Own(own) | Client::Ab(own)) = work.client;
        let clients = self.setup.clients;
        let other = clients.and_then(|clients| work.client.arguments_with(clients));
        let arguments = other.unwrap_or_else(|| own.iter().map(|&word| word.into()).collect());
        let mut command = match work.client {
            Client::Own(_) => {
                let mut command = Command::new("/proc/self/exe");
                command.args(["--connect", &format!("{SERVER}:{PORT}")]);
                if work.measures_client() {
                    command.args(MEASURED_CLIENT).args(on(stack, CLIENT));
                    if self.emulator.is_some() && stack != KERNEL {
                        command.arg(NO_OFFLOAD);
                    }
                } else {
                    command.args(on(KERNEL, CLIENT));
                }
                command.args(arguments);
                command
            }
            Client::Ab(_) => {
                let mut command = Command::new("ab");
                command.args(arguments).arg(format!("http://{SERVER}/"));
                command
            }
        };
        command.env_clear().env("PATH", SYSTEM_PATH);
        if work.measures_client() {
            pad(&mut command, stack);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| match work.client {
                Client::Own(_) => format!("the client can't be started: {error}"),
                Client::Ab(_) => {
                    format!("ab can't be started: {error}; Debian's apache2-utils has it")
                }
            })?;
        Ok(Owned(child))
    }

    /// Reads the output of a client to its end, or to that of the machine that serves it.
    fn whole_client(&mut self, mut child: Owned) -> Result<(String, bool), Box<dyn Error>> {
        let end = Instant::now() + Duration::from_secs(LONGEST_S);
        let in_time = loop {
            if child.0.try_wait()?.is_some() {
                break true;
            }
            if let Server::Bare(guest) = &mut self.server
                && guest.ended()
            {
                return Err(guest.last_words().into());
            }
            if Instant::now() > end {
                child.0.kill()?;
                break false;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut text = String::new();
        if let Some(mut out) = child.0.stdout.take() {
            out.read_to_string(&mut text)?;
        }
        Ok((text, in_time))
    }

    /// Reads the output of a client until it holds a connection to be observed.
    fn measured_client(&mut self, mut child: Owned) -> Result<(String, bool), Box<dyn Error>> {
        let out = child.0.stdout.take().ok_or("the client has no output")?;
        self.client = Some(child);
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let end = Instant::now() + Duration::from_secs(LONGEST_S);
        let mut text = String::new();
        loop {
            match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) if event_of(&line) == report::HELD => return Ok((text, true)),
                Ok(line) => text = text + &line + "\n",
                Err(RecvTimeoutError::Disconnected) => return Ok((text, true)), // it has ended
                Err(RecvTimeoutError::Timeout) => return Ok((text, false)),
            }
        }
    }

    /// Stops the client, if it still runs, and the server; returns the server's last line.
    pub fn stop(&mut self) -> Result<Value, Box<dyn Error>> {
        drop(self.client.take());
        let (server, stdout) = match &mut self.server {
            Server::Process(server, stdout) => (server, stdout),
            Server::Bare(guest) => return guest.stop(),
        };
        kill_process(Pid::from_child(&server.0), Signal::TERM)?;
        let mut text = String::new();
        stdout.read_to_string(&mut text)?;
        let status = server.0.wait()?;
        let last = text.lines().next_back().unwrap_or_default();
        match serde_json::from_str(last) {
            Ok(value) if status.success() => Ok(value),
            _ => Err(format!("the server ended in disorder: {status}").into()),
        }
    }
}

/// Returns the event of a line of output; empty for another line.
fn event_of(line: &str) -> String {
    let value: Value = serde_json::from_str(line).unwrap_or(Value::Null);
    value["event"].as_str().unwrap_or_default().to_owned()
}

/// Returns the arguments for a stack with this address.
fn on(stack: &str, address: &str) -> Vec<String> {
    let mut arguments = vec!["--stack".to_owned(), stack.to_owned()];
    if stack != KERNEL {
        let address = format!("{address}/24");
        arguments.extend(["--tap".into(), TAP.into(), "--address".into(), address]);
    }
    arguments
}

/// Makes the environment equally large for all stacks.
fn pad(command: &mut Command, stack: &str) {
    let padding = LONGEST_NAME.saturating_sub(stack.len());
    command.env("PADDING", "x".repeat(padding));
}

fn serve(setup: &Setup<'_>, work: &Work, more: &[&str]) -> Result<Server, Box<dyn Error>> {
    let stack = if work.measures_client() {
        KERNEL
    } else {
        setup.stack
    };
    let mut command = Command::new("/proc/self/exe");
    command.args(on(stack, SERVER));
    command.args(["--listen", &format!("0.0.0.0:{PORT}")]);
    command.args(more).env_clear();
    pad(&mut command, stack);
    let child = command
        .args(work.server)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut server = Owned(child);
    let out = server.0.stdout.take().ok_or("the server has no output")?;
    let mut stdout = BufReader::new(out);
    let mut line = String::new();
    stdout.read_line(&mut line)?;
    if event_of(&line) != report::READY {
        let _ = server.0.wait();
        return Err(format!("the server on {stack} did not get ready").into());
    }
    Ok(Server::Process(server, stdout))
}

/// Returns the processors that this process may use, in order.
fn cpus() -> rustix::io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect())
}

/// Pins this process and its later children to a processor.
fn pin(cpu: Option<usize>) -> rustix::io::Result<()> {
    let Some(cpu) = cpu else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
}

/// Makes the kernel resolve the server's link-layer address, so that no measured datagram waits for
/// it.
///
/// Only one datagram is sent: the kernel sends up to three requests, a second apart, and then sends
/// all queued datagrams, which the server would count.
fn acquaint(server: &mut Server) -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind((CLIENT, 0))?;
    let end = Instant::now() + Duration::from_secs(5);
    // Port 9 (discard) is closed; an ICMP error is sufficient.
    socket.send_to(&[0], (SERVER, 9))?;
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
        let table = std::fs::read_to_string("/proc/thread-self/net/arp")?;
        let known = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.first() == Some(&SERVER) && words.get(2) == Some(&"0x2") // ATF_COM: complete
        };
        if table.lines().any(known) {
            return Ok(());
        }
        if let Server::Bare(guest) = &mut *server
            && guest.ended()
        {
            return Err(guest.last_words().into());
        }
    }
    Err("the server's stack does not answer ARP".into())
}
