// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP connections: deadlines, state changes, and their end.

use swapstone_net::Instant;
use swapstone_net::device::Device;

use smoltcp::socket::tcp::State;

use crate::conn::IN_TIME_WAIT;
use crate::keys::Key;
use crate::slots::{Failure, Kind, Phase, duration};
use crate::stack::Smoltcp;

impl<D: Device> Smoltcp<D> {
    /// Sets the next deadline of a connection.
    pub(crate) fn schedule(&mut self, index: u32) {
        let now = self.now;
        let Some(conn) = self.slots.conn(index) else {
            return;
        };
        let patience = conn.update_timeout(now).map(Instant::micros);
        let mut due = self.due(index);
        if due.is_none() && self.start_probes(index) {
            due = self.due(index);
        }
        // A segment that was due and was not sent is retried soon.
        let due = due.map(|at| match at > now.micros() {
            true => at,
            false => now.micros() + 1000,
        });
        let at = [patience, due].into_iter().flatten().min();
        self.timers.set(index, at);
    }

    /// Processes the expired deadline of a socket.
    pub(crate) fn expire(&mut self, index: u32) {
        let now = self.now;
        let Some(conn) = self.slots.conn(index) else {
            return self.queue_output(index);
        };
        let past = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let silent = past(conn.keep_alive_deadline());
        let open = matches!(conn.phase, Phase::Open(_));
        if past(conn.linger_until) && conn.has_unacknowledged_data() {
            self.abort(index);
        } else if past(conn.fails_at) && conn.state == State::TimeWait {
            self.enter_time_wait(index);
        } else if silent && !conn.probing {
            conn.probing = true;
            let each = conn.options.keep_alive.map(duration);
            conn.socket.tcp().set_keep_alive(each);
            self.queue_output(index);
        } else if past(conn.fails_at) || silent {
            if open {
                conn.failure = Some(Failure::TimedOut);
                self.abort(index);
            } else {
                self.fail(index, Failure::TimedOut);
            }
        } else {
            self.queue_output(index);
        }
    }

    /// Resets a connection. It is closed once the RST is sent.
    pub(crate) fn abort(&mut self, index: u32) {
        if let Some(conn) = self.slots.conn(index) {
            conn.aborting = true;
            conn.socket.tcp().abort();
            conn.state = State::Closed;
            self.queue_output(index);
        }
    }

    /// Ends a connection that was never established.
    pub(crate) fn fail(&mut self, index: u32, failure: Failure) {
        let Some(conn) = self.slots.conn(index) else {
            return;
        };
        if let Phase::Handshaking(listening) = conn.phase {
            if let Some(listener) = self.slots.listener(listening) {
                listener.half_open -= 1;
            }
            self.discard(index);
        } else {
            conn.failure = Some(failure);
            self.finish(index);
        }
    }

    /// Processes a state change of the smoltcp socket. Returns whether the connection is still
    /// active.
    pub(crate) fn settle(&mut self, index: u32) -> bool {
        let Some(conn) = self.slots.conn(index) else {
            return false;
        };
        if conn.aborting {
            return true;
        }
        let (before, state) = (conn.state, conn.socket.get().state());
        let undelivered = conn.socket.get().send_queue();
        if state != before || undelivered < conn.undelivered {
            conn.fails_at = None;
        }
        conn.undelivered = undelivered;
        if state != State::Closed {
            conn.state = state;
        }
        match (conn.phase, state) {
            (Phase::Over, _) => return false,
            (Phase::Connecting | Phase::Handshaking(_), State::Closed | State::Listen) => {
                self.fail(index, Failure::Refused);
                return false;
            }
            (Phase::Open(_), State::Closed) => {
                if !matches!(before, State::LastAck | State::TimeWait) {
                    conn.failure = Some(Failure::Reset);
                }
                self.finish(index);
                return false;
            }
            (_, State::SynSent | State::SynReceived) => {}
            (Phase::Connecting, _) => {
                conn.phase = Phase::Open(None);
                conn.established = true;
            }
            (Phase::Handshaking(listening), _) => {
                conn.phase = Phase::Open(Some(listening));
                conn.established = true;
                conn.reported = true;
                if let Some(listener) = self.slots.listener(listening) {
                    listener.half_open -= 1;
                    listener.ready.push_back(index);
                    self.notify(listening, true);
                }
            }
            _ => {}
        }
        true
    }

    /// Enters TIME-WAIT: only a record is kept, besides unread data.
    pub(crate) fn enter_time_wait(&mut self, index: u32) {
        let Some(conn) = self.slots.conn(index) else {
            return;
        };
        let (key, seq, ack) = (conn.key, conn.highest, conn.expected);
        self.finish(index);
        let place = self.time_wait.add(key, seq, ack, self.now);
        self.table.insert(key, place | IN_TIME_WAIT);
        while let Some(oldest) = self.time_wait.overdue(self.now) {
            self.remove_time_wait(oldest);
        }
    }

    /// Closes a connection: no further segment is processed.
    pub(crate) fn finish(&mut self, index: u32) {
        let Some(conn) = self.slots.conn(index) else {
            return;
        };
        conn.phase = Phase::Over;
        let (key, orphan) = (conn.key, conn.orphan);
        self.unmap(&key, index);
        self.timers.set(index, None);
        if orphan {
            self.discard(index);
        } else {
            self.notify(index, true);
        }
    }

    fn unmap(&mut self, key: &Key, index: u32) {
        if self.table.get(key) == Some(&index) {
            self.table.remove(key);
        }
    }

    /// Removes a connection and keeps its buffers for the next one.
    pub(crate) fn discard(&mut self, index: u32) {
        self.timers.set(index, None);
        let Kind::Conn(conn) = self.slots.remove(index) else {
            return;
        };
        self.unmap(&conn.key, index);
        if let Some(bound) = conn.bound {
            self.unmap(&bound, index);
        }
        self.statistics.tcp_sockets -= 1;
        self.statistics.orphans -= u64::from(conn.orphan);
        self.spare_tcp.push(conn);
    }
}
