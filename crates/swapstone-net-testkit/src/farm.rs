// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many TCP clients at once over IPv4. Their segments are built from a template, with little memory
//! per client.

use swapstone_net::device::{Device, Outgoing};
use swapstone_net::{Instant, Platform};
use swapstone_net_link::{Port, VirtualTime};

use crate::wire::{ACK, FIN, PSH, RST, SYN, fold, sum};
use crate::world::{PEER_MAC, SUBJECT_MAC, SUBJECT_V4};

/// The length of a response in bytes.
pub const ANSWER: usize = 4;

/// The state of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Not started or finished.
    Idle,
    /// SYN-SENT.
    Opening,
    /// Established, without a request.
    Open,
    /// Waiting for a response.
    Asking,
    /// FIN sent.
    Closing,
    /// Reset by the server.
    Broken,
}

/// One client.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// The state.
    pub stage: Stage,
    seq: u32,
    ack: u32,
    got: usize,
}

/// All clients, on a port of the link.
#[derive(Debug)]
pub struct Farm {
    port: Port,
    time: VirtualTime,
    clients: Vec<Client>,
    /// Received frames that belong to no client.
    pub strays: u64,
}

/// The first host number of the clients: 10.0.8.0 and up. One address has 50000 ports, so 200
/// addresses suffice.
const PORTS: usize = 50_000;

fn host(index: usize) -> [u8; 4] {
    [
        10,
        0,
        8 + (index / PORTS / 250) as u8,
        (index / PORTS % 250) as u8 + 1,
    ]
}

fn port(index: usize) -> u16 {
    10_000 + (index % PORTS) as u16
}

fn index(host: &[u8], port: u16) -> usize {
    let hosts = usize::from(host[2].wrapping_sub(8)) * 250 + usize::from(host[3].wrapping_sub(1));
    hosts * PORTS + usize::from(port.wrapping_sub(10_000))
}

impl Farm {
    /// Creates `count` clients that are not started.
    pub fn new(port: Port, count: usize) -> Self {
        let client = Client {
            stage: Stage::Idle,
            seq: 0,
            ack: 0,
            got: 0,
        };
        Self {
            time: port.link().time(port.id()),
            port,
            clients: vec![client; count],
            strays: 0,
        }
    }

    /// Returns the number of clients in a state.
    pub fn count(&self, stage: Stage) -> usize {
        self.clients
            .iter()
            .filter(|client| client.stage == stage)
            .count()
    }

    /// Starts to connect an idle client. `number` is its initial sequence number.
    pub fn open(&mut self, at: usize, number: u32) {
        self.clients[at] = Client {
            stage: Stage::Opening,
            seq: number,
            ack: 0,
            got: 0,
        };
        self.send(at, SYN, b"");
        self.clients[at].seq = number.wrapping_add(1);
    }

    /// Sends a request of an established client.
    pub fn ask(&mut self, at: usize) {
        self.clients[at].stage = Stage::Asking;
        self.clients[at].got = 0;
        self.send(at, ACK | PSH, &(ANSWER as u32).to_be_bytes());
        self.clients[at].seq = self.clients[at].seq.wrapping_add(4);
    }

    /// Closes an established client.
    pub fn close(&mut self, at: usize) {
        self.clients[at].stage = Stage::Closing;
        self.send(at, ACK | FIN, b"");
        self.clients[at].seq = self.clients[at].seq.wrapping_add(1);
    }

    /// Returns the state of a client.
    pub fn stage(&self, at: usize) -> Stage {
        self.clients[at].stage
    }

    /// Runs until `until` and responds to received segments.
    pub fn run(&mut self, until: Instant) {
        loop {
            self.time.wait(Some(until));
            while let Some(frame) = self.port.receive() {
                self.take(&frame.bytes);
            }
            if self.time.now() >= until {
                return;
            }
        }
    }

    /// Runs until no client is in a state; `false` if that takes longer than `until`.
    pub fn run_while(&mut self, at: usize, stage: Stage, until: Instant) -> bool {
        while self.clients[at].stage == stage {
            if self.time.now() >= until {
                return false;
            }
            self.time.wait(Some(until));
            while let Some(frame) = self.port.receive() {
                self.take(&frame.bytes);
            }
        }
        true
    }

    fn take(&mut self, frame: &[u8]) {
        if frame.len() >= 42 && frame[12..14] == [8, 6] && frame[21] == 1 {
            self.resolve(frame);
            return;
        }
        if frame.len() < 54 || frame[12..14] != [8, 0] || frame[23] != 6 {
            self.strays += 1;
            return;
        }
        let at = index(&frame[30..34], u16::from_be_bytes([frame[36], frame[37]]));
        if at >= self.clients.len() {
            self.strays += 1;
            return;
        }
        let total = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        let data = total - 34 - usize::from(frame[46] >> 4) * 4;
        let seq = u32::from_be_bytes([frame[38], frame[39], frame[40], frame[41]]);
        self.hear(at, frame[47], seq, data);
    }

    fn hear(&mut self, at: usize, flags: u8, seq: u32, data: usize) {
        let client = &mut self.clients[at];
        if flags & RST != 0 {
            if client.stage != Stage::Idle {
                client.stage = Stage::Broken;
            }
            return;
        }
        if flags & SYN != 0 {
            if client.stage == Stage::Opening {
                client.stage = Stage::Open;
                client.ack = seq.wrapping_add(1);
            }
            self.send(at, ACK, b"");
            return;
        }
        let span = data as u32 + u32::from(flags & FIN != 0);
        if span == 0 {
            return;
        }
        if seq == client.ack {
            client.ack = client.ack.wrapping_add(span);
            client.got += data;
            if client.stage == Stage::Asking && client.got >= ANSWER {
                client.stage = Stage::Open;
            }
            if flags & FIN != 0 && client.stage == Stage::Closing {
                client.stage = Stage::Idle;
            }
        }
        self.send(at, ACK, b"");
        // If the server closes first, the client closes at once.
        if flags & FIN != 0 && self.clients[at].stage == Stage::Open {
            self.close(at);
            self.clients[at].stage = Stage::Idle;
        }
    }

    fn resolve(&mut self, question: &[u8]) {
        let mut frame = [0; 42];
        frame.copy_from_slice(&question[..42]);
        frame[..6].copy_from_slice(&question[6..12]);
        frame[6..12].copy_from_slice(&PEER_MAC);
        frame[21] = 2;
        frame[22..28].copy_from_slice(&PEER_MAC);
        frame[28..32].copy_from_slice(&question[38..42]);
        frame[32..42].copy_from_slice(&question[22..32]);
        self.transmit(&frame);
    }

    fn transmit(&mut self, frame: &[u8]) {
        let outgoing = Outgoing {
            parts: &[frame],
            partial: None,
            segmentation: None,
        };
        self.port.transmit(outgoing).expect("the link has room");
    }

    fn send(&mut self, at: usize, flags: u8, payload: &[u8]) {
        let client = self.clients[at];
        let mut frame = [0_u8; 64];
        let size = 54 + payload.len();
        frame[..6].copy_from_slice(&SUBJECT_MAC);
        frame[6..12].copy_from_slice(&PEER_MAC);
        frame[12..18].copy_from_slice(&[8, 0, 0x45, 0, 0, (size - 14) as u8]);
        frame[20..24].copy_from_slice(&[0x40, 0, 64, 6]);
        frame[26..30].copy_from_slice(&host(at));
        frame[30..34].copy_from_slice(&SUBJECT_V4.octets());
        let header = !fold(sum(&frame[14..34]));
        frame[24..26].copy_from_slice(&header.to_be_bytes());
        frame[34..36].copy_from_slice(&port(at).to_be_bytes());
        frame[36..38].copy_from_slice(&80_u16.to_be_bytes());
        frame[38..42].copy_from_slice(&client.seq.to_be_bytes());
        frame[42..46].copy_from_slice(&client.ack.to_be_bytes());
        frame[46..50].copy_from_slice(&[0x50, flags, 0xff, 0xff]);
        frame[54..size].copy_from_slice(payload);
        let pseudo = sum(&frame[26..34]) + 6 + (size - 34) as u64;
        let value = !fold(pseudo + sum(&frame[34..size]));
        frame[50..52].copy_from_slice(&value.to_be_bytes());
        self.transmit(&frame[..size]);
    }
}
