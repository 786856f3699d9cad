// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of `errno` values, which scripts use.

use crate::system::Errno;

const NAMES: &[(i32, Errno)] = &[
    (libc::EACCES, "EACCES"),
    (libc::EADDRINUSE, "EADDRINUSE"),
    (libc::EADDRNOTAVAIL, "EADDRNOTAVAIL"),
    (libc::EAFNOSUPPORT, "EAFNOSUPPORT"),
    (libc::EAGAIN, "EAGAIN"),
    (libc::EAGAIN, "EWOULDBLOCK"),
    (libc::EALREADY, "EALREADY"),
    (libc::EBADF, "EBADF"),
    (libc::ECONNABORTED, "ECONNABORTED"),
    (libc::ECONNREFUSED, "ECONNREFUSED"),
    (libc::ECONNRESET, "ECONNRESET"),
    (libc::EDESTADDRREQ, "EDESTADDRREQ"),
    (libc::EEXIST, "EEXIST"),
    (libc::EHOSTUNREACH, "EHOSTUNREACH"),
    (libc::EINPROGRESS, "EINPROGRESS"),
    (libc::EINTR, "EINTR"),
    (libc::EINVAL, "EINVAL"),
    (libc::EISCONN, "EISCONN"),
    (libc::EMFILE, "EMFILE"),
    (libc::EMSGSIZE, "EMSGSIZE"),
    (libc::ENETUNREACH, "ENETUNREACH"),
    (libc::ENOENT, "ENOENT"),
    (libc::ENOBUFS, "ENOBUFS"),
    (libc::ENOPROTOOPT, "ENOPROTOOPT"),
    (libc::ENOTCONN, "ENOTCONN"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP"),
    (libc::EPERM, "EPERM"),
    (libc::EPIPE, "EPIPE"),
    (libc::EFAULT, "EFAULT"),
    (libc::EPROTO, "EPROTO"),
    (libc::ETIMEDOUT, "ETIMEDOUT"),
];

/// Returns the name of a number.
pub fn name(number: i32) -> Errno {
    let found = NAMES.iter().find(|(each, _)| *each == number);
    found.map_or("an errno without a name here", |(_, name)| name)
}

/// Returns the number of a name that a script can expect.
pub fn number(name: &str) -> Option<i32> {
    let found = NAMES.iter().find(|(_, each)| *each == name);
    found.map(|(number, _)| *number)
}

/// Returns whether a script can expect this error.
pub fn is_known(name: &str) -> bool {
    number(name).is_some()
}
