// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP connections: processing and sending of segments. Their states and deadlines are in
//! [`crate::conn_states`].

use alloc::boxed::Box;
use core::time::Duration;

use smoltcp::socket::tcp::State;
use swapstone_net::backend::TcpOptions;
use swapstone_net::device::{Device, Frame};
use swapstone_net::{Instant, Readiness};

use crate::fixes::{
    ACK_BEYOND_WINDOW, NEIGHBOR_FROM_SEGMENT, RST_IN_SYN_RECEIVED, SOLICITATION_PER_NEIGHBOR,
    SYN_CHALLENGE_ACK, TIMESTAMPS,
};
use crate::keys::{Key, Realm, seed_for};
use crate::port::{Port, Sent};
use crate::segments::is_after;
use crate::slots::{Conn, DEFAULT_SEGMENT, Failure, Kind, Phase};
use crate::stack::{Smoltcp, micros};
use crate::wire::{self, ACK, FIN, RST, SYN, Segment, TIMESTAMPS_LENGTH, Unreachable};

/// The length of the longest TCP header.
const LONGEST_TCP_HEADER: usize = 60;
/// The length of the longest headers of a segment whose ACK is processed apart from its data.
const LONGEST_HEADERS: usize = 192;
/// The timeout of a handshake. The SYN is sent at 0, 1, 3, 7, 15 and 31 seconds.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(60);
/// The timeout of unacknowledged data (RFC 1122, 4.2.3.5: at least 100 seconds).
pub(crate) const DELIVERY: Duration = Duration::from_secs(120);
/// The timeout of unacknowledged data and of FIN-WAIT-2 after the owner has closed the socket.
pub(crate) const ORPHAN: Duration = Duration::from_secs(60);
/// A connection with keep-alive fails after this number of intervals without a segment.
pub(crate) const PROBES: u32 = 5;

/// Marks an index of [`crate::time_wait::TimeWaitList`] in the table.
pub(crate) const IN_TIME_WAIT: u32 = 1 << 31;
/// The smallest MSS that smoltcp uses.
const LEAST_SEGMENT: u16 = 48;
/// The minimum distance of the initial sequence number from the last number of the former
/// connection.
const MIN_DISTANCE: u32 = 0x1_0000;

impl Conn {
    /// Records a sent segment; returns whether it is a retransmission.
    pub(crate) fn note(&mut self, sent: Sent) -> bool {
        let wire::Answer { flags, seq, .. } = sent.fields;
        self.acknowledged = (sent.fields.ack, sent.fields.window);
        let controls = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        let length = sent.payload as u32 + controls;
        if length == 0 || flags & RST != 0 {
            return false;
        }
        let end = seq.wrapping_add(length);
        let again = (seq.wrapping_sub(self.highest) as i32) < 0;
        if (end.wrapping_sub(self.highest) as i32) > 0 {
            self.highest = end;
        }
        // A keep-alive probe repeats the byte before SND.NXT and is not a retransmission.
        let probe = sent.payload == 1 && controls == 0 && end == self.highest;
        again && !probe
    }

    /// Records the time of the peer in a segment that continues what was acknowledged, so that it is
    /// echoed (RFC 7323, section 4.3).
    fn note_time(&mut self, segment: &Segment, time: u32) {
        let (acknowledged, _) = self.acknowledged;
        let end = segment.seq.wrapping_add(segment.payload as u32);
        let continues = !is_after(segment.seq, acknowledged) && !is_after(acknowledged, end);
        let newer = continues && !is_after(self.recent, time);
        let opens = segment.flags & SYN != 0 && !matches!(self.phase, Phase::Open(_));
        if opens || newer {
            self.recent = time;
        }
    }

    /// Returns whether the peer has sent a FIN.
    pub(crate) fn ended(&self) -> bool {
        matches!(
            self.state,
            State::CloseWait | State::LastAck | State::Closing | State::TimeWait
        )
    }

    pub(crate) fn readiness(&self) -> Readiness {
        let socket = self.socket.get();
        let over = self.phase == Phase::Over;
        if self.phase == Phase::Connecting {
            return Readiness::NONE;
        }
        let mut ready = Readiness::NONE;
        if over || self.ended() || self.shut_read || socket.can_recv() {
            ready |= Readiness::READABLE;
        }
        if over || self.shut_write || socket.can_send() {
            ready |= Readiness::WRITABLE;
        }
        if over || (self.shut_write && self.ended()) {
            ready |= Readiness::CLOSED;
        }
        ready
    }

    /// Returns whether data or a FIN is unacknowledged.
    pub(crate) fn has_unacknowledged_data(&self) -> bool {
        let state = self.socket.get().state();
        self.socket.get().send_queue() > 0
            || matches!(state, State::FinWait1 | State::Closing | State::LastAck)
    }

    /// Sets the timeout and returns the time when it has to be checked.
    pub(crate) fn update_timeout(&mut self, now: Instant) -> Option<Instant> {
        let state = self.socket.get().state();
        let limit = match state {
            State::SynSent | State::SynReceived => Some(HANDSHAKE),
            State::FinWait2 if self.orphan => Some(ORPHAN),
            // The last ACK may wait for neighbor discovery.
            State::TimeWait => Some(ORPHAN),
            _ if self.has_unacknowledged_data() => {
                Some(if self.orphan { ORPHAN } else { DELIVERY })
            }
            _ => None,
        };
        match (limit, self.fails_at) {
            (None, _) => self.fails_at = None,
            (Some(limit), None) => self.fails_at = Some(now + limit),
            _ => {}
        }
        if !self.has_unacknowledged_data() {
            self.linger_until = None;
        }
        let silent = self.keep_alive_deadline();
        [self.fails_at, self.linger_until, silent]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns when a keep-alive probe is due, or when the connection fails without a segment.
    pub(crate) fn keep_alive_deadline(&self) -> Option<Instant> {
        let intervals = if self.probing { PROBES } else { 1 };
        let each = self.options.keep_alive?;
        matches!(self.phase, Phase::Open(_)).then(|| self.last_segment_at + each * intervals)
    }

    /// Sets the maximum segment size from the MSS option of a SYN.
    fn take_segment(&mut self, offered: Option<u16>, most: u16) {
        self.segment = match offered {
            None | Some(0) => DEFAULT_SEGMENT,
            Some(offered) => offered.max(LEAST_SEGMENT),
        }
        .min(most);
    }
}

impl<D: Device> Smoltcp<D> {
    /// Processes a TCP segment: of a connection, of one in TIME-WAIT, or without a connection.
    pub(crate) fn process_tcp(&mut self, frame: Frame, segment: &Segment) {
        if !self.is_local(segment.local.ip()) {
            return;
        }
        let begins = segment.flags & (SYN | ACK | RST) == SYN;
        if begins && self.is_full() {
            // A connection whose last ACK is pending needs no socket any more once that is sent.
            self.send_pending();
        }
        let key = Key::connection(segment.local, segment.remote);
        let mut after = None;
        match self.table.get(&key).copied() {
            Some(place) if place & IN_TIME_WAIT != 0 => {
                let record = *self.time_wait.get(place & !IN_TIME_WAIT);
                if !self.reopens(segment, record.ack) {
                    self.respond_in_time_wait(&frame.bytes, segment, place & !IN_TIME_WAIT);
                    return;
                }
                after = Some((place & !IN_TIME_WAIT, record.seq));
            }
            Some(index) => return self.process_conn(frame, segment, index),
            None => {}
        }
        if begins {
            let listener = self
                .bound(Realm::TcpPort, segment.local)
                .find(|index| matches!(self.slots[*index].kind, Kind::Listener(..)));
            if let Some(listener) = listener {
                return self.open_passively(frame, segment, listener, after);
            }
        }
        // smoltcp would start neighbor discovery and then drop the RST.
        let here = frame.bytes[0] & 1 == 0 && self.source(segment.remote.ip()).is_some();
        if let Some(reset) = wire::Answer::reset(segment)
            && here
            && !segment.remote.ip().is_multicast()
        {
            self.answer(&frame.bytes, segment, reset, None);
        }
    }

    /// Returns whether a RST is accepted (RFC 5961, section 3.2). A RST inside the window with
    /// another sequence number than RCV.NXT causes a challenge ACK.
    fn accept_rst(&mut self, frame: &[u8], segment: &Segment, index: u32) -> bool {
        let strict = self.fixes.on(RST_IN_SYN_RECEIVED);
        let Some(conn) = self.slots.conn(index) else {
            return false;
        };
        let checked = match conn.phase {
            Phase::Open(_) => true,
            Phase::Handshaking(_) => strict,
            _ => false,
        };
        if !checked || segment.seq == conn.expected {
            return true;
        }
        let room = conn.socket.get().recv_capacity() as u32;
        if segment.seq.wrapping_sub(conn.expected) < room {
            self.challenge(frame, segment, index);
        }
        false
    }

    /// Returns whether a SYN reopens a connection in TIME-WAIT (RFC 1122, 4.2.2.13; RFC 6191).
    fn reopens(&self, segment: &Segment, expected: u32) -> bool {
        let syn = segment.flags & (SYN | ACK | RST) == SYN;
        syn && (segment.seq.wrapping_sub(expected) as i32) >= 0
    }

    /// Responds to a segment of a connection in TIME-WAIT.
    fn respond_in_time_wait(&mut self, frame: &[u8], segment: &Segment, place: u32) {
        // A RST is ignored (RFC 1337). A segment without data needs no ACK.
        let occupies = segment.payload > 0 || segment.flags & (SYN | FIN) != 0;
        if segment.flags & RST != 0 || !occupies {
            return;
        }
        self.time_wait.refresh(place, self.now);
        let record = *self.time_wait.get(place);
        let answer = wire::Answer {
            flags: ACK,
            seq: record.seq,
            ack: record.ack,
            window: u16::MAX,
        };
        // The peer's segments have timestamps if the connection does. A SYN may be of another one.
        let echoes = self.fixes.on(TIMESTAMPS) && segment.flags & SYN == 0;
        let echo = wire::timestamp(frame, segment.at).filter(|_| echoes);
        self.answer(frame, segment, answer, echo);
    }

    /// Returns a spare connection with its buffers, or allocates one.
    pub(crate) fn spare_conn(&mut self) -> Box<Conn> {
        let limits = &self.limits;
        self.spare_tcp
            .pop()
            .unwrap_or_else(|| Conn::new(limits.receive_buffer, limits.send_buffer))
    }

    /// Returns the initial sequence number of a connection. `floor` is the last number of the
    /// connection in TIME-WAIT that it replaces.
    pub(crate) fn sequence(&self, key: &Key, floor: Option<u32>) -> u32 {
        let sequence = self.secrets.sequence(key, self.now.micros());
        match floor {
            Some(floor) if (sequence.wrapping_sub(floor) as i32) <= 0 => {
                floor.wrapping_add(MIN_DISTANCE + (sequence & 0xffff))
            }
            _ => sequence,
        }
    }

    fn open_passively(
        &mut self,
        mut frame: Frame,
        segment: &Segment,
        listening: u32,
        after: Option<(u32, u32)>,
    ) {
        let full = self.is_full();
        let Some(listener) = self.slots.listener(listening) else {
            return;
        };
        if full || listener.half_open + listener.ready.len() >= listener.backlog {
            self.statistics.no_room += 1;
            if !self.recycle(listening) {
                return;
            }
        }
        let most = self.output.largest_segment(segment.local.is_ipv6());
        let time = wire::timestamp(&frame.bytes, segment.at).filter(|_| self.fixes.on(TIMESTAMPS));
        let options = time.map_or(0, |_| TIMESTAMPS_LENGTH as u16);
        let offered = wire::lower_mss(&mut frame.bytes, segment.at, most, options);
        let mut conn = self.spare_conn();
        let path = (segment.local, segment.remote);
        let phase = Phase::Handshaking(listening);
        conn.renew(path, phase, TcpOptions::default(), self.now);
        conn.take_segment(offered, most);
        conn.link = self.link_of(&frame.bytes, segment.remote.ip());
        (conn.timestamps, conn.recent) = (time.is_some(), time.unwrap_or(0));
        conn.isn = self.sequence(&conn.key, after.map(|(_, floor)| floor));
        conn.una.0 = conn.isn;
        conn.highest = conn.isn;
        conn.peer_ack.0 = conn.isn;
        conn.expected = segment.seq.wrapping_add(1);
        let endpoint: smoltcp::wire::IpListenEndpoint = segment.local.into();
        let listens = conn.socket.tcp().listen(endpoint).is_ok();
        conn.socket
            .clear_neighbor(&mut self.clock, micros(self.now));
        // A separate interface for this segment: it generates the selected sequence number.
        let mut opener = self.opener(seed_for(conn.isn));
        self.output.set_connection(&conn);
        let mut port = Port {
            device: &mut self.device,
            output: &mut self.output,
            frame: Some(&frame.bytes),
        };
        opener.poll_ingress_single(micros(self.now), &mut port, &mut conn.socket.set);
        conn.state = conn.socket.get().state();
        if !listens || conn.state != State::SynReceived {
            self.statistics.malformed += 1;
            self.spare_tcp.push(conn);
            return;
        }
        if let Some((place, _)) = after {
            self.remove_time_wait(place);
        }
        let (key, isn) = (conn.key, conn.isn);
        let index = self.slots.add(Kind::Conn(conn));
        self.table.insert(key, index);
        self.statistics.tcp_sockets += 1;
        self.add_half_open(listening, index, isn);
        self.queue_output(index);
    }

    fn process_conn(&mut self, mut frame: Frame, segment: &Segment, index: u32) {
        if segment.flags & RST != 0 && !self.accept_rst(&frame.bytes, segment, index) {
            return;
        }
        let mut segment = *segment;
        self.adapt(&mut frame, &mut segment, index);
        let segment = &segment;
        let most = self.output.largest_segment(segment.local.is_ipv6());
        let link = self.link_of(&frame.bytes, segment.remote.ip());
        let challenges = self.fixes.on(SYN_CHALLENGE_ACK);
        let Some(conn) = self.slots.conn(index) else {
            return;
        };
        if challenges && segment.flags & SYN != 0 && matches!(conn.phase, Phase::Open(_)) {
            // RFC 5961, section 4: whatever its sequence number.
            return self.challenge(&frame.bytes, segment, index);
        }
        if segment.seq == conn.expected {
            conn.link = link;
        }
        let time = wire::timestamp(&frame.bytes, segment.at).filter(|_| conn.timestamps);
        if segment.flags & SYN != 0 {
            if conn.phase == Phase::Connecting {
                conn.timestamps = time.is_some();
            }
            let options = time.map_or(0, |_| TIMESTAMPS_LENGTH as u16);
            let offered = wire::lower_mss(&mut frame.bytes, segment.at, most, options);
            if conn.phase == Phase::Connecting {
                conn.take_segment(offered, most);
            }
        }
        // smoltcp does not count a FIN as part of a segment. If it already has the data, it would
        // only send an ACK.
        let end = segment.seq.wrapping_add(segment.payload as u32);
        if segment.flags & FIN != 0 && segment.payload > 0 && end == conn.expected {
            let size = wire::drop_payload(&mut frame.bytes, segment.at, segment.payload);
            frame.bytes.narrow(0..size);
        }
        if self.fixes.on(ACK_BEYOND_WINDOW) {
            self.process_ack_beyond_window(&frame, segment, index);
        }
        let Some(conn) = self.slots.conn(index) else {
            return;
        };
        if let Some(time) = time {
            conn.note_time(segment, time);
        }
        let before = conn.socket.get().recv_queue();
        conn.last_segment_at = self.now;
        if matches!(conn.phase, Phase::Open(_)) && !conn.orphan {
            conn.fails_at = None;
        }
        self.output.set_connection(conn);
        self.output.sent = None;
        let mut port = Port {
            device: &mut self.device,
            output: &mut self.output,
            frame: Some(&frame.bytes),
        };
        self.iface
            .poll_ingress_single(micros(self.now), &mut port, &mut conn.socket.set);
        if let Some(sent) = self.output.sent.take() {
            self.statistics.retransmitted += u64::from(conn.note(sent));
        }
        let received = conn.socket.get().recv_queue().saturating_sub(before);
        conn.expected = conn.expected.wrapping_add(received as u32);
        Self::record_ack(conn, segment);
        let more = received > 0;
        if more && conn.shut_read {
            let _ = conn.socket.tcp().recv(|bytes| (bytes.len(), ()));
        } else if more && conn.orphan {
            // The data can't be delivered (RFC 1122, 4.2.2.13).
            self.abort(index);
            return;
        }
        if segment.flags & SYN != 0 && conn.phase == Phase::Connecting {
            conn.expected = segment.seq.wrapping_add(1);
        }
        let ended = conn.ended();
        self.process_early_fin(&frame.bytes, segment, index);
        self.queue_output(index);
        if self.settle(index) {
            self.notify(index, more);
        }
        if let Some(conn) = self.slots.conn(index)
            && conn.ended() != ended
        {
            conn.expected = conn.expected.wrapping_add(1);
        }
    }

    /// Passes the acknowledgement of an out-of-order segment to smoltcp apart from its data. smoltcp
    /// drops it if the data is beyond the window that it advertised last, even if it had advertised
    /// more before (RFC 9293, 3.10.7.4: a valid ACK is processed even if the window is 0).
    fn process_ack_beyond_window(&mut self, frame: &Frame, segment: &Segment, index: u32) {
        let most = self.limits.receive_buffer as u32;
        let Some(conn) = self.slots.conn(index) else {
            return;
        };
        if segment.flags & ACK == 0
            || segment.flags & (SYN | RST) != 0
            || !matches!(conn.phase, Phase::Open(_))
            || segment.at + LONGEST_TCP_HEADER > LONGEST_HEADERS
        {
            return;
        }
        let ahead = segment.seq.wrapping_sub(conn.expected);
        let (ack, window) = conn.peer_ack;
        let progress = (segment.ack.wrapping_sub(ack) as i32).cmp(&0);
        let news = progress.is_gt() || (progress.is_eq() && segment.window != window);
        // smoltcp's SND.NXT moves back at a retransmission, so that its ACKs have old numbers.
        let behind = conn.expected.wrapping_sub(segment.seq);
        let near = ahead <= most || behind <= most;
        if news && near {
            conn.peer_ack = (segment.ack, segment.window);
        }
        // A probe of the window 0 is dropped as well, although it is in sequence.
        let probes = ahead == 0 && segment.payload > 0 && conn.acknowledged.1 == 0;
        // Without news it would count as a duplicate acknowledgement.
        if (ahead == 0 && !probes) || !near || !news {
            return;
        }
        let mut bytes = [0; LONGEST_HEADERS];
        let size = frame.bytes.len().min(LONGEST_HEADERS);
        bytes[..size].copy_from_slice(&frame.bytes[..size]);
        let size = wire::keep_ack(&mut bytes, segment.at, conn.expected);
        self.output.set_connection(conn);
        let mut port = Port {
            device: &mut self.device,
            output: &mut self.output,
            frame: Some(&bytes[..size]),
        };
        self.iface
            .poll_ingress_single(micros(self.now), &mut port, &mut conn.socket.set);
        if let Some(sent) = self.output.sent.take() {
            self.statistics.retransmitted += u64::from(conn.note(sent));
        }
    }

    /// Processes an ICMP error for a connection attempt. It is ignored unless it contains the
    /// sequence number.
    pub(crate) fn unreachable(&mut self, what: &Unreachable) {
        let key = Key::connection(what.local, what.remote);
        let Some(index) = self.table.get(&key).copied() else {
            return;
        };
        if let Some(conn) = self.slots.conn(index)
            && conn.phase == Phase::Connecting
            && conn.isn == what.seq
        {
            let failure = if what.port {
                Failure::Refused
            } else {
                Failure::Unreachable
            };
            self.fail(index, failure);
        }
    }

    /// Lets smoltcp send the pending segments of a connection.
    pub(crate) fn send_tcp(&mut self, index: u32) {
        let now = self.now.micros();
        let wanted = self.due(index).is_some_and(|at| at <= now);
        let Some(conn) = self.slots.conn(index) else {
            return;
        };
        if conn.phase == Phase::Over {
            return;
        }
        self.output.set_connection(conn);
        let frames = self.output.frames;
        let (mut wrote, mut held) = (false, false);
        loop {
            if !self.output.retry(&mut self.device) {
                held = true;
                break;
            }
            self.output.sent = None;
            let mut port = Port {
                device: &mut self.device,
                output: &mut self.output,
                frame: None,
            };
            self.iface
                .poll_egress(micros(self.now), &mut port, &mut conn.socket.set);
            let Some(sent) = self.output.sent.take() else {
                break;
            };
            wrote = true;
            self.statistics.retransmitted += u64::from(conn.note(sent));
        }
        if held {
            self.queue_output(index);
        } else if wanted && !wrote {
            let solicited = self.output.frames > frames;
            if self.fixes.on(NEIGHBOR_FROM_SEGMENT) && self.learn_neighbor(index) {
                self.queue_output(index);
            } else {
                self.await_neighbor(index);
                if self.fixes.on(SOLICITATION_PER_NEIGHBOR) && !solicited {
                    self.solicit_neighbor(index);
                }
            }
        }
        if !self.settle(index) {
            return;
        }
        let Some(conn) = self.slots.conn(index) else {
            return;
        };
        if conn.aborting && !held {
            return self.finish(index);
        }
        // smoltcp is needed until it has acknowledged the FIN, which it may delay.
        if conn.state == State::TimeWait && conn.acknowledged.0 == conn.expected {
            return self.enter_time_wait(index);
        }
        self.notify(index, false);
        self.schedule(index);
    }
}

#[cfg(test)]
#[path = "conn_tests.rs"]
mod tests;
