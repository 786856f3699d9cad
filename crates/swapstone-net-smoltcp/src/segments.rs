// SPDX-License-Identifier: MIT OR Apache-2.0
//! Received segments that smoltcp does not process as RFC 9293 requires: they are changed or answered
//! here, each for one of [`crate::FIXES`].

use core::time::Duration;

use swapstone_net::device::{Device, Frame};

use crate::conn::IN_TIME_WAIT;
use crate::fixes::{
    BACKLOG_RECYCLING, CLOSED_WINDOW_PROBE, DATA_AFTER_FIN, DATA_WITH_OLD_ACK, EARLY_FIN, PATH_MTU,
};
use crate::keys::Key;
use crate::port::Port;
use crate::slots::{Conn, Phase};
use crate::stack::{Smoltcp, micros};
use crate::wire::{self, ACK, FIN, RST, SYN, Segment, TooBig};

/// The smallest path MTU that is accepted for IPv4: what every host must receive (RFC 791).
const LEAST_MTU_V4: u16 = 576;
/// The smallest path MTU of IPv6 (RFC 8200, section 5).
const LEAST_MTU_V6: u16 = 1280;
/// How long a half-open connection is kept even if another one needs its place: its ACK may be on the way.
const LEAST_AGE: Duration = Duration::from_millis(10);
/// For how much of that time the arrived frames must have been processed: its ACK may wait in the device if
/// this process got no processor.
const LEAST_PROCESSED: Duration = Duration::from_millis(5);
/// The length of headers of a segment that can be copied without its data.
const HEADERS: usize = 192;

/// Returns whether `left` is after `right` in sequence space.
pub(crate) fn is_after(left: u32, right: u32) -> bool {
    (left.wrapping_sub(right) as i32) > 0
}

impl<D: Device> Smoltcp<D> {
    /// Responds to a segment with an ACK, at most once a second for a connection (RFC 5961, sections 5
    /// and 7).
    pub(crate) fn challenge(&mut self, frame: &[u8], segment: &Segment, index: u32) {
        let now = self.now;
        let Some(conn) = self.slots.conn(index) else {
            return;
        };
        if conn.challenge_ack_at > now {
            return;
        }
        conn.challenge_ack_at = now + Duration::from_secs(1);
        let challenge = wire::Answer {
            flags: ACK,
            seq: conn.highest,
            ack: conn.expected,
            window: conn.acknowledged.1,
        };
        let echo = conn.timestamps.then_some(conn.recent);
        self.answer(frame, segment, challenge, echo);
    }

    /// Changes a segment of an open connection so that smoltcp processes it as RFC 9293 requires.
    pub(crate) fn adapt(&mut self, frame: &mut Frame, segment: &mut Segment, index: u32) {
        let fixes = self.fixes;
        let most = self.limits.send_buffer.max(usize::from(u16::MAX)) as u32;
        let receives = self.limits.receive_buffer as u32;
        let Some(conn) = self.slots.conn(index) else {
            return;
        };
        let plain = segment.flags & ACK != 0 && segment.flags & (SYN | RST) == 0;
        if !plain || !matches!(conn.phase, Phase::Open(_)) {
            return;
        }
        let end = segment.seq.wrapping_add(segment.payload as u32);
        let after_fin = fixes.on(DATA_AFTER_FIN) && conn.ended() && is_after(end, conn.expected);
        if after_fin && segment.payload > 0 {
            // Only its ACK is left (RFC 9293, 3.10.7.4: the segment text is ignored).
            let size = wire::keep_ack(&mut frame.bytes, segment.at, conn.expected);
            frame.bytes.narrow(0..size);
            (segment.seq, segment.payload, segment.flags) = (conn.expected, 0, ACK);
        }
        if let Some(fin) = conn.early_fin.filter(|fin| is_after(end, *fin)) {
            // The data beyond the FIN is ignored.
            let kept = if is_after(fin, segment.seq) {
                fin.wrapping_sub(segment.seq) as usize
            } else {
                0
            };
            if kept < segment.payload {
                let size = wire::keep_payload(&mut frame.bytes, segment.at, kept);
                frame.bytes.narrow(0..size);
                (segment.payload, segment.flags) = (kept, ACK);
            }
        }
        let old = is_after(conn.una.0, segment.ack)
            && conn.una.0.wrapping_sub(segment.ack) <= most
            && (segment.payload > 0 || segment.flags & FIN != 0);
        if fixes.on(DATA_WITH_OLD_ACK) && old {
            wire::set_ack(&mut frame.bytes, segment.at, conn.una);
            (segment.ack, segment.window) = conn.una;
        }
        let ahead = segment.seq.wrapping_sub(conn.expected);
        let fits = is_after(segment.seq, conn.expected)
            && ahead.saturating_add(segment.payload as u32) < receives;
        if fixes.on(EARLY_FIN) && segment.flags & FIN != 0 && fits && !conn.ended() {
            conn.early_fin
                .get_or_insert(segment.seq.wrapping_add(segment.payload as u32));
        }
    }

    /// Records the acknowledgement number of a segment that smoltcp has processed.
    pub(crate) fn record_ack(conn: &mut Conn, segment: &Segment) {
        let progress = !is_after(conn.una.0, segment.ack) && !is_after(segment.ack, conn.highest);
        if segment.flags & ACK != 0 && progress {
            conn.una = (segment.ack, segment.window);
        }
    }

    /// Processes a FIN that arrived before data, once that data has arrived.
    pub(crate) fn process_early_fin(&mut self, frame: &[u8], segment: &Segment, index: u32) {
        let Some(conn) = self.slots.conn(index) else {
            return;
        };
        if conn.early_fin != Some(conn.expected) || segment.at + 60 > HEADERS {
            return;
        }
        conn.early_fin = None;
        let mut bytes = [0; HEADERS];
        let size = frame.len().min(HEADERS);
        bytes[..size].copy_from_slice(&frame[..size]);
        let size = wire::keep_ack(&mut bytes, segment.at, conn.expected);
        bytes[segment.at + 13] = FIN | ACK;
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

    /// Lowers the segment size of a connection after an ICMP error that a packet was too large
    /// (RFC 1191, RFC 8201). The error must contain a sequence number that is in flight (RFC 5927).
    /// What was lost is sent again after the retransmission timeout.
    pub(crate) fn lower_path_mtu(&mut self, what: &TooBig, frame: &[u8]) {
        if !self.fixes.on(PATH_MTU) {
            return self.process_unassigned(frame);
        }
        let key = Key::connection(what.local, what.remote);
        let Some(index) = self.table.get(&key).copied() else {
            return;
        };
        if index & IN_TIME_WAIT != 0 {
            return;
        }
        let v6 = what.local.is_ipv6();
        let mtu = match v6 {
            true if what.mtu < u32::from(LEAST_MTU_V6) => return,
            true => what.mtu,
            // Routers before RFC 1191 state 0.
            false => what.mtu.max(LEAST_MTU_V4.into()),
        };
        let segment = mtu.saturating_sub(if v6 { 60 } else { 40 });
        let Some(conn) = self.slots.conn(index) else {
            return;
        };
        let in_flight = !is_after(conn.una.0, what.seq) && is_after(conn.highest, what.seq);
        if in_flight && matches!(conn.phase, Phase::Open(_)) && segment < u32::from(conn.segment) {
            conn.segment = segment as u16;
        }
    }

    /// Starts the timer of window probes, if the window is closed and smoltcp has no timer. Returns
    /// whether it did.
    ///
    /// smoltcp starts it when an ACK arrives while no timer runs. If the window closes while data is in
    /// flight, the retransmission timer runs, and at its end smoltcp stops it and sends nothing. So the last
    /// ACK is repeated to it.
    pub(crate) fn start_probes(&mut self, index: u32) -> bool {
        let on = self.fixes.on(CLOSED_WINDOW_PROBE);
        let hardware = self.hardware;
        let Some(conn) = self.slots.conn(index).filter(|_| on) else {
            return false;
        };
        let (ack, window) = conn.una;
        let closed = window == 0 && conn.socket.get().send_queue() > 0;
        if !closed || conn.aborting || !matches!(conn.phase, Phase::Open(_)) {
            return false;
        }
        let fields = wire::Answer {
            flags: ACK,
            seq: conn.expected,
            ack,
            window,
        };
        let sender = conn.link.unwrap_or(hardware);
        let (frame, size) = wire::segment((sender, conn.remote), (hardware, conn.local), fields);
        self.output.set_connection(conn);
        self.output.sent = None;
        let mut port = Port {
            device: &mut self.device,
            output: &mut self.output,
            frame: Some(&frame[..size]),
        };
        self.iface
            .poll_ingress_single(micros(self.now), &mut port, &mut conn.socket.set);
        if let Some(sent) = self.output.sent.take() {
            self.statistics.retransmitted += u64::from(conn.note(sent));
        }
        true
    }

    /// Removes the oldest half-open connection of a listener, to make room for a new one. Returns whether
    /// there was one.
    pub(crate) fn recycle(&mut self, listening: u32) -> bool {
        if !self.fixes.on(BACKLOG_RECYCLING) {
            return false;
        }
        let (mut at, now, drained) = (0, self.now, self.drained_at);
        while let Some((listener, index, isn)) = self.half_open.get(at).copied() {
            if !self.is_half_open(listener, index, isn) {
                self.half_open.remove(at);
            } else if listener != listening {
                at += 1;
            } else if self.slots.conn(index).is_none_or(|conn| {
                let since = conn.last_segment_at;
                since + LEAST_AGE > now || since + LEAST_PROCESSED > drained
            }) {
                return false;
            } else {
                self.half_open.remove(at);
                if let Some(listener) = self.slots.listener(listening) {
                    listener.half_open -= 1;
                }
                self.discard(index);
                return true;
            }
        }
        false
    }

    fn is_half_open(&mut self, listening: u32, index: u32, isn: u32) -> bool {
        self.slots
            .conn(index)
            .is_some_and(|conn| conn.phase == Phase::Handshaking(listening) && conn.isn == isn)
    }

    /// Records a new half-open connection of a listener.
    pub(crate) fn add_half_open(&mut self, listening: u32, index: u32, isn: u32) {
        let Some(listener) = self.slots.listener(listening) else {
            return;
        };
        listener.half_open += 1;
        if !self.fixes.on(BACKLOG_RECYCLING) {
            return;
        }
        self.half_open.push_back((listening, index, isn));
        // Established ones are removed here, so that the queue stays short.
        if self.half_open.len() > 2 * self.limits.tcp_sockets + 16 {
            let mut all = core::mem::take(&mut self.half_open);
            all.retain(|(listener, index, isn)| self.is_half_open(*listener, *index, *isn));
            self.half_open = all;
        }
    }
}
