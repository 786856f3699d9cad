// SPDX-License-Identifier: MIT OR Apache-2.0
//! `epoll_ctl` and `epoll_wait`, level-triggered, over the events of `poll`.

use std::collections::BTreeMap;

use crate::arguments::field;
use crate::calls::{Attempt, Unsupported};
use crate::constants::number;
use crate::script::Value;
use crate::system::{POLLERR, POLLHUP, POLLIN, POLLOUT};

/// The events that this runner supports.
const EVENTS: i64 = POLLIN | POLLOUT | POLLERR | POLLHUP;

/// An entry of an interest list: the events.
type Interest = BTreeMap<i64, i64>;

/// The epoll descriptors with their interest lists, by number.
pub type Epolls = BTreeMap<i64, Interest>;

/// Removes a closed descriptor from all interest lists.
pub fn forget(epolls: &mut Epolls, fd: i64) {
    for interest in epolls.values_mut() {
        interest.remove(&fd);
    }
}

fn events_of(value: Option<&Value>) -> Result<i64, Unsupported> {
    let events = match value {
        Some(Value::Fields(fields)) => field(fields, "events").and_then(number),
        _ => None,
    };
    match events {
        Some(events) if events & !EVENTS == 0 => Ok(events),
        Some(_) => {
            Err("the supported events of epoll are EPOLLIN, EPOLLOUT, EPOLLERR and EPOLLHUP".into())
        }
        None => Err("epoll needs {events=..., fd=N}".into()),
    }
}

/// Adds, changes or removes an entry.
///
/// # Errors
///
/// The form of the arguments is not supported.
pub fn control(
    epolls: &mut Epolls,
    arguments: &[Value],
    is_open: impl Fn(i64) -> bool,
) -> Result<Attempt, Unsupported> {
    let numbers = [0, 1, 2].map(|at: usize| number(&arguments[at]));
    let [Some(epoll), Some(operation), Some(fd)] = numbers else {
        return Err(
            "epoll_ctl needs a descriptor, EPOLL_CTL_ADD, MOD or DEL, and a descriptor".into(),
        );
    };
    let Some(interest) = epolls.get_mut(&epoll).filter(|_| is_open(fd)) else {
        return Ok(Attempt::Done(Err("EBADF")));
    };
    let known = interest.contains_key(&fd);
    Ok(Attempt::Done(match i32::try_from(operation) {
        Ok(libc::EPOLL_CTL_ADD) if known => Err("EEXIST"),
        Ok(libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL) if !known => Err("ENOENT"),
        Ok(libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD) => {
            interest.insert(fd, events_of(arguments.get(3))?);
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
    epolls: &Epolls,
    arguments: &[Value],
    ended: bool,
    mut events: impl FnMut(i64) -> Option<i64>,
) -> Result<Attempt, Unsupported> {
    let Some(interest) = number(&arguments[0]).and_then(|fd| epolls.get(&fd)) else {
        return Ok(Attempt::Done(Err("EBADF")));
    };
    let Some(most) = number(&arguments[2]).and_then(|most| usize::try_from(most).ok()) else {
        return Err("epoll_wait needs a number of events".into());
    };
    let ready: Vec<(i64, i64)> = interest
        .iter()
        .filter_map(|(fd, wanted)| {
            let seen = events(*fd)? & (wanted | POLLERR | POLLHUP);
            (seen != 0).then_some((*fd, seen))
        })
        .take(most)
        .collect();
    if ready.is_empty() && !ended {
        return Ok(Attempt::Blocked);
    }
    let expected = match &arguments[1] {
        Value::List(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    };
    for (place, (fd, seen)) in expected.iter().zip(&ready) {
        if *place == Value::Ellipsis {
            continue;
        }
        let Value::Fields(fields) = place else {
            return Err("epoll_wait needs {events=..., fd=N}".into());
        };
        let wanted = events_of(Some(place))?;
        let right = field(fields, "fd").and_then(number);
        if wanted != *seen || right.is_some_and(|right| right != *fd) {
            return Ok(Attempt::Wrong(format!(
                "the events of {fd} are {seen:#x} instead of {wanted:#x}"
            )));
        }
    }
    let count = i64::try_from(ready.len()).expect("few descriptors");
    Ok(Attempt::Done(Ok(count)))
}
