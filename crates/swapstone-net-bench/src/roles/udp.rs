// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams at the highest rate.

use std::error::Error;
use std::net::SocketAddr;

use swapstone_net::error::{UdpRecvError, UdpSendError};
use swapstone_net::{Net, Readiness, SocketId, Stack, UdpSocket};

use crate::app::App;
use crate::options::Options;
use crate::report::{Outcome, Span};

/// Datagrams to send between two polls.
const BURST: usize = 64;
/// The length of the sequence number at the start of a datagram.
const NUMBER: usize = 8;

/// Counts received datagrams.
pub struct Sink<S: Stack> {
    socket: UdpSocket<S>,
    /// The highest sequence number plus one.
    beyond: u64,
    outcome: Outcome,
    span: Span,
}

impl<S: Stack> Sink<S> {
    pub fn new(net: &Net<S>, options: &Options) -> Result<Self, Box<dyn Error>> {
        let socket = net.udp()?;
        socket.set_nonblocking(true);
        socket.bind(options.listen)?;
        Ok(Self {
            socket,
            beyond: 0,
            outcome: Outcome::default(),
            span: Span::default(),
        })
    }
}

impl<S: Stack> App for Sink<S> {
    fn event(&mut self, _: SocketId, _: Readiness) {
        let (mut received, mut bytes, mut beyond) = (0, 0, self.beyond);
        loop {
            let result = self.socket.recv_with(|datagram, _| {
                if let Some(number) = datagram.first_chunk::<NUMBER>() {
                    beyond = beyond.max(u64::from_be_bytes(*number).saturating_add(1));
                }
                datagram.len()
            });
            match result {
                Ok(size) => {
                    received += 1;
                    bytes += size as u64;
                }
                Err(UdpRecvError::WouldBlock) => break,
                Err(error) => {
                    self.outcome.failed += 1;
                    self.outcome
                        .first_failure
                        .get_or_insert_with(|| error.to_string());
                    break;
                }
            }
        }
        if received > 0 {
            self.outcome.requests += received;
            self.outcome.bytes_in += bytes;
            self.beyond = beyond;
            self.span.note();
        }
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            requests: self.outcome.requests,
            failed: self.outcome.failed,
            bytes_in: self.outcome.bytes_in,
            active_s: self.span.seconds(),
            lost: Some(self.beyond.saturating_sub(self.outcome.requests)),
            first_failure: self.outcome.first_failure.clone(),
            ..Outcome::default()
        }
    }
}

/// Sends numbered datagrams.
pub struct Blast<S: Stack> {
    socket: UdpSocket<S>,
    datagram: Vec<u8>,
    most: u64,
    full: bool,
    outcome: Outcome,
    span: Span,
}

impl<S: Stack> Blast<S> {
    pub fn new(net: &Net<S>, options: &Options, peer: SocketAddr) -> Result<Self, Box<dyn Error>> {
        let socket = net.udp()?;
        socket.set_nonblocking(true);
        socket.connect(peer)?;
        Ok(Self {
            socket,
            datagram: vec![0; options.size.max(NUMBER)],
            most: options.requests.unwrap_or(match options.time {
                Some(_) => u64::MAX,
                None => 1,
            }),
            full: false,
            outcome: Outcome::default(),
            span: Span::default(),
        })
    }
}

impl<S: Stack> App for Blast<S> {
    fn event(&mut self, _: SocketId, ready: Readiness) {
        if ready.contains(Readiness::WRITABLE) {
            self.full = false;
        }
    }

    fn work(&mut self) -> bool {
        if self.full || self.is_done() {
            return false;
        }
        self.span.note();
        for _ in 0..BURST {
            if self.outcome.requests >= self.most {
                break;
            }
            self.datagram[..NUMBER].copy_from_slice(&self.outcome.requests.to_be_bytes());
            match self.socket.send(&self.datagram) {
                Ok(()) => {
                    self.outcome.requests += 1;
                    self.outcome.bytes_out += self.datagram.len() as u64;
                }
                Err(UdpSendError::WouldBlock) => {
                    self.full = true;
                    break;
                }
                Err(error) => {
                    // The peer's link-layer address may be unresolved; later datagrams are sent.
                    self.outcome.failed += 1;
                    self.outcome
                        .first_failure
                        .get_or_insert_with(|| error.to_string());
                    break;
                }
            }
        }
        self.span.note();
        true
    }

    fn tick(&mut self) {
        self.full = false; // the queue may have room again without an event
    }

    fn is_done(&self) -> bool {
        self.outcome.requests >= self.most
    }

    fn time_is_up(&mut self) {
        self.most = self.outcome.requests;
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            requests: self.outcome.requests,
            failed: self.outcome.failed,
            bytes_out: self.outcome.bytes_out,
            active_s: self.span.seconds(),
            first_failure: self.outcome.first_failure.clone(),
            ..Outcome::default()
        }
    }
}
