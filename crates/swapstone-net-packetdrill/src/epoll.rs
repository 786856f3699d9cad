// SPDX-License-Identifier: MIT OR Apache-2.0
//! `epoll_ctl` and `epoll_wait` over the events of `poll`: level-triggered, edge-triggered and one-shot.

use std::collections::BTreeMap;

use crate::arguments::field;
use crate::calls::{Attempt, Unsupported};
use crate::constants::{EDGE_TRIGGERED, ONE_SHOT, number};
use crate::script::Value;
use crate::system::{Edges, POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP};

/// The events that this runner supports.
const EVENTS: i64 = POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDHUP;
/// The events that are reported without being asked for.
const ALWAYS: i64 = POLLERR | POLLHUP;

/// An entry of an interest list.
#[derive(Debug)]
struct Entry {
    events: i64,
    one_shot: bool,
    /// It was reported and is one-shot: nothing more until it is changed.
    disabled: bool,
    /// The edges that were seen up to now; `None`: level-triggered.
    edges: Option<Edges>,
    /// The entry is in the ready list: it may be reported if it is ready.
    listed: bool,
}

/// An interest list, by descriptor.
type Interest = BTreeMap<i64, Entry>;

/// The epoll descriptors with their interest lists, by number.
#[derive(Debug, Default)]
pub struct Epolls(BTreeMap<i64, Interest>);

/// What the socket with a descriptor is ready for.
pub trait Ready {
    /// Whether the descriptor is open.
    fn is_open(&self, fd: i64) -> bool;
    /// The events of `poll`.
    fn events(&mut self, fd: i64) -> i64;
    /// The edges up to now.
    ///
    /// # Errors
    ///
    /// The socket does not count them.
    fn edges(&mut self, fd: i64) -> Result<Edges, Unsupported>;
}

impl Entry {
    /// Notes the edges since the last call: those of the wanted events put it into the ready list.
    fn note(&mut self, now: Edges) {
        let Some(edges) = &mut self.edges else {
            return;
        };
        let before = std::mem::replace(edges, now);
        let input = self.events & (POLLIN | POLLRDHUP) != 0 && now.input != before.input;
        let output = self.events & POLLOUT != 0 && now.output != before.output;
        self.listed |= input || output || now.state != before.state;
    }
}

/// The events of `{events=..., fd=N}`, within `supported`.
fn events_of(value: Option<&Value>, supported: i64) -> Result<i64, Unsupported> {
    let events = match value {
        Some(Value::Fields(fields)) => field(fields, "events").and_then(number),
        _ => None,
    };
    match events {
        Some(events) if events & !supported == 0 => Ok(events),
        Some(_) => Err(
            "the supported events of epoll are EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLERR and EPOLLHUP, \
             and EPOLLET and EPOLLONESHOT in epoll_ctl"
                .into(),
        ),
        None => Err("epoll needs {events=..., fd=N}".into()),
    }
}

impl Epolls {
    /// The numbers of the epoll descriptors.
    pub fn descriptors(&self) -> impl Iterator<Item = &i64> {
        self.0.keys()
    }

    /// Creates one with an empty interest list.
    pub fn create(&mut self, fd: i64) {
        self.0.insert(fd, Interest::new());
    }

    /// Closes an epoll descriptor; returns whether it is one.
    pub fn close(&mut self, fd: i64) -> bool {
        self.0.remove(&fd).is_some()
    }

    /// Removes a closed socket from all interest lists.
    pub fn forget(&mut self, fd: i64) {
        for interest in self.0.values_mut() {
            interest.remove(&fd);
        }
    }

    /// Adds, changes or removes an entry.
    ///
    /// # Errors
    ///
    /// The form of the arguments is not supported.
    pub fn control(
        &mut self,
        arguments: &[Value],
        ready: &mut dyn Ready,
    ) -> Result<Attempt, Unsupported> {
        let numbers = [0, 1, 2].map(|at: usize| number(&arguments[at]));
        let [Some(epoll), Some(operation), Some(fd)] = numbers else {
            return Err(
                "epoll_ctl needs a descriptor, EPOLL_CTL_ADD, MOD or DEL, and a descriptor".into(),
            );
        };
        let Some(interest) = self.0.get_mut(&epoll).filter(|_| ready.is_open(fd)) else {
            return Ok(Attempt::Done(Err("EBADF")));
        };
        let known = interest.contains_key(&fd);
        Ok(Attempt::Done(match i32::try_from(operation) {
            Ok(libc::EPOLL_CTL_ADD) if known => Err("EEXIST"),
            Ok(libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL) if !known => Err("ENOENT"),
            Ok(libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD) => {
                let events = events_of(arguments.get(3), EVENTS | EDGE_TRIGGERED | ONE_SHOT)?;
                let edges = match events & EDGE_TRIGGERED {
                    0 => None,
                    _ => Some(ready.edges(fd)?),
                };
                let entry = Entry {
                    events: events & EVENTS,
                    one_shot: events & ONE_SHOT != 0,
                    disabled: false,
                    edges,
                    // What is ready now is reported once without an edge.
                    listed: true,
                };
                interest.insert(fd, entry);
                Ok(0)
            }
            Ok(libc::EPOLL_CTL_DEL) => {
                interest.remove(&fd);
                Ok(0)
            }
            _ => Err("EINVAL"),
        }))
    }

    /// Compares the ready descriptors with those that a script expects.
    ///
    /// # Errors
    ///
    /// The form of the arguments is not supported.
    pub fn wait(
        &mut self,
        arguments: &[Value],
        ended: bool,
        ready: &mut dyn Ready,
    ) -> Result<Attempt, Unsupported> {
        let Some(interest) = number(&arguments[0]).and_then(|fd| self.0.get_mut(&fd)) else {
            return Ok(Attempt::Done(Err("EBADF")));
        };
        let Some(most) = number(&arguments[2]).and_then(|most| usize::try_from(most).ok()) else {
            return Err("epoll_wait needs a number of events".into());
        };
        let mut reported = Vec::new();
        for (fd, entry) in interest.iter_mut().filter(|(_, entry)| !entry.disabled) {
            if entry.edges.is_some() {
                entry.note(ready.edges(*fd)?);
            }
            if !entry.listed || reported.len() == most {
                continue;
            }
            let seen = ready.events(*fd) & (entry.events | ALWAYS);
            // A level-triggered entry stays in the list.
            entry.listed = entry.edges.is_none();
            if seen != 0 {
                entry.disabled = entry.one_shot;
                reported.push((*fd, seen));
            }
        }
        if reported.is_empty() && !ended {
            return Ok(Attempt::Blocked);
        }
        let expected = match &arguments[1] {
            Value::List(all) => all.as_slice(),
            one => std::slice::from_ref(one),
        };
        for (place, (fd, seen)) in expected.iter().zip(&reported) {
            if *place == Value::Ellipsis {
                continue;
            }
            let Value::Fields(fields) = place else {
                return Err("epoll_wait needs {events=..., fd=N}".into());
            };
            let wanted = events_of(Some(place), EVENTS)?;
            let right = field(fields, "fd").and_then(number);
            if wanted != *seen || right.is_some_and(|right| right != *fd) {
                return Ok(Attempt::Wrong(format!(
                    "the events of {fd} are {seen:#x} instead of {wanted:#x}"
                )));
            }
        }
        let count = i64::try_from(reported.len()).expect("few descriptors");
        Ok(Attempt::Done(Ok(count)))
    }
}
