//! Connections in TIME-WAIT: a small record each, without a socket and without buffers.

use alloc::vec::Vec;
use core::time::Duration;

use swapstone_net::Instant;

use crate::keys::Key;

/// How long a connection that is over is remembered: 2 MSL, as Linux has it.
pub(crate) const TIME_WAIT: Duration = Duration::from_secs(60);

const NONE: u32 = u32::MAX;

/// What must be known to answer segments of a connection that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) key: Key,
    /// The next sequence number of ours.
    pub(crate) seq: u32,
    /// The next sequence number of the peer's.
    pub(crate) ack: u32,
    expires: Instant,
    earlier: u32,
    later: u32,
}

/// Records in the order in which they expire. Memory is kept for the next ones.
#[derive(Debug)]
pub(crate) struct Waiting {
    records: Vec<Record>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    most: usize,
}

impl Waiting {
    /// Remember at most so many.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            records: Vec::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
            most,
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }

    pub(crate) fn get(&self, index: u32) -> &Record {
        &self.records[index as usize]
    }

    /// Remember a connection; returns its place. The caller has made room.
    pub(crate) fn add(&mut self, key: Key, seq: u32, ack: u32, now: Instant) -> u32 {
        let record = Record {
            key,
            seq,
            ack,
            expires: now + TIME_WAIT,
            earlier: NONE,
            later: NONE,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.records[index as usize] = record;
                index
            }
            None => {
                self.records.push(record);
                // So that removing allocates nothing.
                self.free.reserve(self.records.len());
                self.records.len() as u32 - 1
            }
        };
        self.append(index);
        index
    }

    /// The record that must go now: it has expired, or there are too many.
    pub(crate) fn overdue(&self, now: Instant) -> Option<u32> {
        let expired = self.oldest != NONE && self.records[self.oldest as usize].expires <= now;
        (expired || self.len() > self.most).then_some(self.oldest)
    }

    /// The peer has not seen the end yet: start the time again.
    pub(crate) fn refresh(&mut self, index: u32, now: Instant) {
        self.unlink(index);
        self.records[index as usize].expires = now + TIME_WAIT;
        self.append(index);
    }

    /// Forget a connection.
    pub(crate) fn remove(&mut self, index: u32) -> Record {
        self.unlink(index);
        self.free.push(index);
        self.records[index as usize]
    }

    fn append(&mut self, index: u32) {
        let newest = self.newest;
        let record = &mut self.records[index as usize];
        (record.earlier, record.later) = (newest, NONE);
        match newest {
            NONE => self.oldest = index,
            newest => self.records[newest as usize].later = index,
        }
        self.newest = index;
    }

    fn unlink(&mut self, index: u32) {
        let Record { earlier, later, .. } = self.records[index as usize];
        match earlier {
            NONE => self.oldest = later,
            earlier => self.records[earlier as usize].later = later,
        }
        match later {
            NONE => self.newest = earlier,
            later => self.records[later as usize].earlier = earlier,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Realm;

    fn key(port: u16) -> Key {
        Key::port(Realm::Connection, "10.0.0.1".parse().unwrap(), port)
    }

    #[test]
    fn the_oldest_go_first() {
        let mut waiting = Waiting::new(2);
        let start = Instant::ZERO;
        let later = start + Duration::from_secs(1);
        let first = waiting.add(key(1), 1, 1, start);
        let second = waiting.add(key(2), 2, 2, start);
        assert_eq!(waiting.overdue(start), None);
        waiting.refresh(first, later);
        assert_eq!(waiting.overdue(start + TIME_WAIT), Some(second));
        let third = waiting.add(key(3), 3, 3, later);
        assert_eq!(waiting.overdue(later), Some(second));
        assert_eq!(waiting.remove(second).key, key(2));
        assert_eq!(waiting.overdue(later), None);
        assert_eq!(waiting.len(), 2);
        assert_eq!(waiting.remove(third).seq, 3);
        assert_eq!(waiting.overdue(later + TIME_WAIT), Some(first));
        waiting.remove(first);
        assert_eq!(waiting.overdue(later + TIME_WAIT), None);
        assert_eq!(waiting.len(), 0);
    }
}
