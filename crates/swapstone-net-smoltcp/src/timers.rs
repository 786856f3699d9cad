// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deadlines of sockets: a binary heap in which each socket stores its position.

use alloc::vec::Vec;

const NOWHERE: u32 = u32::MAX;

/// At most one deadline per socket. Setting one takes logarithmic time.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: Vec<(u64, u32)>,
    places: Vec<u32>,
}

impl Timers {
    /// Returns the next deadline in microseconds and its socket.
    pub(crate) fn next(&self) -> Option<(u64, u32)> {
        self.heap.first().copied()
    }

    /// Sets, changes or removes the deadline of `socket` in microseconds.
    pub(crate) fn set(&mut self, socket: u32, at: Option<u64>) {
        let index = socket as usize;
        if index >= self.places.len() {
            if at.is_none() {
                return;
            }
            self.places.resize(index + 1, NOWHERE);
        }
        let place = self.places[index] as usize;
        match (at, self.places[index] == NOWHERE) {
            (None, true) => {}
            (None, false) => {
                let last = self.heap.len() - 1;
                self.swap(place, last);
                self.heap.pop();
                self.places[index] = NOWHERE;
                if place < last {
                    self.settle(place);
                }
            }
            (Some(at), true) => {
                self.places[index] = self.heap.len() as u32;
                self.heap.push((at, socket));
                self.settle(self.heap.len() - 1);
            }
            (Some(at), false) => {
                if self.heap[place].0 != at {
                    self.heap[place].0 = at;
                    self.settle(place);
                }
            }
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        self.places[self.heap[one].1 as usize] = one as u32;
        self.places[self.heap[other].1 as usize] = other as u32;
    }

    fn settle(&mut self, mut place: usize) {
        while place > 0 && self.heap[place] < self.heap[(place - 1) / 2] {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
        loop {
            let mut least = place;
            for child in [2 * place + 1, 2 * place + 2] {
                if child < self.heap.len() && self.heap[child] < self.heap[least] {
                    least = child;
                }
            }
            if least == place {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_next_is_always_the_earliest() {
        let mut timers = Timers::default();
        let mut model = BTreeMap::new();
        let mut state = 1u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            let (socket, at) = ((state >> 40) as u32 % 50, (state >> 20) % 1000);
            if at % 4 == 0 {
                timers.set(socket, None);
                model.remove(&socket);
            } else {
                timers.set(socket, Some(at));
                model.insert(socket, at);
            }
            let least = model.iter().map(|(socket, at)| (*at, *socket)).min();
            assert_eq!(timers.next(), least);
        }
        for socket in 0..50 {
            timers.set(socket, None);
        }
        assert_eq!(timers.next(), None);
    }
}
