// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections in TIME-WAIT: a small record without socket and buffers.

use alloc::vec::Vec;
use core::time::Duration;

use swapstone_net::Instant;

use crate::keys::Key;

/// The duration of TIME-WAIT: 60 seconds, as in Linux.
pub(crate) const TIME_WAIT: Duration = Duration::from_secs(60);

const NONE: u32 = u32::MAX;

/// What is needed to respond to segments of a closed connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) key: Key,
    /// SND.NXT.
    pub(crate) seq: u32,
    /// RCV.NXT.
    pub(crate) ack: u32,
    expires: Instant,
    earlier: u32,
    later: u32,
}

/// Records in the order of their expiry. Memory of removed records is reused.
#[derive(Debug)]
pub(crate) struct TimeWaitList {
    records: Vec<Record>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    most: usize,
}

impl TimeWaitList {
    /// Creates an empty list for `most` records.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            records: Vec::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
            most,
        }
    }

    /// Returns the number of records.
    pub(crate) fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }

    pub(crate) fn get(&self, index: u32) -> &Record {
        &self.records[index as usize]
    }

    /// Adds a record and returns its index. The caller has to remove overdue ones.
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
                // Reserved here so that `remove` does not allocate.
                self.free.reserve(self.records.len());
                self.records.len() as u32 - 1
            }
        };
        self.append(index);
        index
    }

    /// Returns a record that has expired or exceeds the maximum number.
    pub(crate) fn overdue(&self, now: Instant) -> Option<u32> {
        let expired = self.oldest != NONE && self.records[self.oldest as usize].expires <= now;
        (expired || self.len() > self.most).then_some(self.oldest)
    }

    /// Restarts the timer after a retransmission of the peer.
    pub(crate) fn refresh(&mut self, index: u32, now: Instant) {
        self.unlink(index);
        self.records[index as usize].expires = now + TIME_WAIT;
        self.append(index);
    }

    /// Removes a record.
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
        let mut waiting = TimeWaitList::new(2);
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
