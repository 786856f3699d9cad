// SPDX-License-Identifier: MIT OR Apache-2.0
//! The constants that scripts use in calls, by name.

use crate::script::Value;
use crate::system::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDHUP};

const NAMES: &[(&str, i64)] = &[
    ("AF_INET", libc::AF_INET as i64),
    ("AF_INET6", libc::AF_INET6 as i64),
    ("PF_INET", libc::AF_INET as i64),
    ("PF_INET6", libc::AF_INET6 as i64),
    ("SOCK_STREAM", libc::SOCK_STREAM as i64),
    ("SOCK_DGRAM", libc::SOCK_DGRAM as i64),
    ("SOCK_NONBLOCK", libc::SOCK_NONBLOCK as i64),
    ("SOCK_CLOEXEC", libc::SOCK_CLOEXEC as i64),
    ("IPPROTO_TCP", libc::IPPROTO_TCP as i64),
    ("IPPROTO_UDP", libc::IPPROTO_UDP as i64),
    ("IPPROTO_IP", libc::IPPROTO_IP as i64),
    ("IPPROTO_IPV6", libc::IPPROTO_IPV6 as i64),
    ("SOL_TCP", libc::IPPROTO_TCP as i64),
    ("SOL_IP", libc::IPPROTO_IP as i64),
    ("SOL_SOCKET", libc::SOL_SOCKET as i64),
    ("SO_REUSEADDR", libc::SO_REUSEADDR as i64),
    ("SO_KEEPALIVE", libc::SO_KEEPALIVE as i64),
    ("SO_LINGER", libc::SO_LINGER as i64),
    ("SO_ERROR", libc::SO_ERROR as i64),
    ("SO_RCVBUF", libc::SO_RCVBUF as i64),
    ("SO_SNDBUF", libc::SO_SNDBUF as i64),
    ("SO_OOBINLINE", libc::SO_OOBINLINE as i64),
    ("TCP_NODELAY", libc::TCP_NODELAY as i64),
    ("TCP_CORK", libc::TCP_CORK as i64),
    ("TCP_MAXSEG", libc::TCP_MAXSEG as i64),
    ("TCP_KEEPIDLE", libc::TCP_KEEPIDLE as i64),
    ("TCP_KEEPINTVL", libc::TCP_KEEPINTVL as i64),
    ("TCP_KEEPCNT", libc::TCP_KEEPCNT as i64),
    ("TCP_USER_TIMEOUT", libc::TCP_USER_TIMEOUT as i64),
    ("TCP_QUICKACK", libc::TCP_QUICKACK as i64),
    ("TCP_SYNCNT", libc::TCP_SYNCNT as i64),
    ("TCP_LINGER2", libc::TCP_LINGER2 as i64),
    ("SHUT_RD", libc::SHUT_RD as i64),
    ("SHUT_WR", libc::SHUT_WR as i64),
    ("SHUT_RDWR", libc::SHUT_RDWR as i64),
    ("F_GETFL", libc::F_GETFL as i64),
    ("F_SETFL", libc::F_SETFL as i64),
    ("O_RDWR", libc::O_RDWR as i64),
    ("O_NONBLOCK", libc::O_NONBLOCK as i64),
    ("MSG_DONTWAIT", libc::MSG_DONTWAIT as i64),
    ("MSG_NOSIGNAL", libc::MSG_NOSIGNAL as i64),
    ("MSG_PEEK", libc::MSG_PEEK as i64),
    ("MSG_EOR", libc::MSG_EOR as i64),
    ("MSG_MORE", libc::MSG_MORE as i64),
    ("MSG_FASTOPEN", libc::MSG_FASTOPEN as i64),
    ("MSG_ZEROCOPY", libc::MSG_ZEROCOPY as i64),
    ("TCP_FASTOPEN", libc::TCP_FASTOPEN as i64),
    ("TCP_FASTOPEN_CONNECT", libc::TCP_FASTOPEN_CONNECT as i64),
    ("SO_ZEROCOPY", libc::SO_ZEROCOPY as i64),
    ("SO_MARK", libc::SO_MARK as i64),
    ("IP_FREEBIND", libc::IP_FREEBIND as i64),
    ("IP_PMTUDISC_DONT", libc::IP_PMTUDISC_DONT as i64),
    ("IP_PMTUDISC_WANT", libc::IP_PMTUDISC_WANT as i64),
    ("IP_PMTUDISC_DO", libc::IP_PMTUDISC_DO as i64),
    ("IP_PMTUDISC_PROBE", libc::IP_PMTUDISC_PROBE as i64),
    ("AF_UNSPEC", libc::AF_UNSPEC as i64),
    ("POLLIN", POLLIN),
    ("POLLOUT", POLLOUT),
    ("POLLERR", POLLERR),
    ("POLLHUP", POLLHUP),
    ("POLLRDHUP", POLLRDHUP),
    ("EPOLLIN", POLLIN),
    ("EPOLLOUT", POLLOUT),
    ("EPOLLERR", POLLERR),
    ("EPOLLHUP", POLLHUP),
    ("EPOLLRDHUP", POLLRDHUP),
    ("EPOLLET", EDGE_TRIGGERED),
    ("EPOLLONESHOT", ONE_SHOT),
    ("EPOLL_CTL_ADD", libc::EPOLL_CTL_ADD as i64),
    ("EPOLL_CTL_DEL", libc::EPOLL_CTL_DEL as i64),
    ("EPOLL_CTL_MOD", libc::EPOLL_CTL_MOD as i64),
    ("SIOCINQ", UNREAD),
    ("FIONREAD", UNREAD),
    ("SIOCOUTQ", UNACKNOWLEDGED),
    ("SO_RCVLOWAT", libc::SO_RCVLOWAT as i64),
    ("SO_REUSEPORT", libc::SO_REUSEPORT as i64),
    ("SO_PRIORITY", libc::SO_PRIORITY as i64),
    ("TCP_DEFER_ACCEPT", libc::TCP_DEFER_ACCEPT as i64),
    ("TCP_WINDOW_CLAMP", libc::TCP_WINDOW_CLAMP as i64),
    ("TCP_NOTSENT_LOWAT", libc::TCP_NOTSENT_LOWAT as i64),
    ("TCP_INQ", libc::TCP_INQ as i64),
    ("IP_TOS", libc::IP_TOS as i64),
    ("IP_TTL", libc::IP_TTL as i64),
    ("IP_MTU_DISCOVER", libc::IP_MTU_DISCOVER as i64),
    ("SOL_IPV6", libc::IPPROTO_IPV6 as i64),
    ("IPV6_V6ONLY", libc::IPV6_V6ONLY as i64),
    ("IPV6_MTU_DISCOVER", libc::IPV6_MTU_DISCOVER as i64),
];

/// `EPOLLET`.
pub const EDGE_TRIGGERED: i64 = 1 << 31;
/// `EPOLLONESHOT`.
pub const ONE_SHOT: i64 = 1 << 30;
/// `SIOCINQ` of ioctl.
pub const UNREAD: i64 = libc::FIONREAD as i64;
/// `SIOCOUTQ` of ioctl.
pub const UNACKNOWLEDGED: i64 = libc::TIOCOUTQ as i64;

/// Returns whether there is a constant with this name.
pub fn is_known(name: &str) -> bool {
    NAMES.iter().any(|(each, _)| *each == name)
}

/// Returns the number of a value; `None` if it has none, or if its name is unknown.
pub fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => Some(*number),
        Value::Name(name) => {
            let found = NAMES.iter().find(|(each, _)| each == name);
            found.map(|(_, number)| *number)
        }
        Value::Or(parts) => parts
            .iter()
            .try_fold(0, |all, part| number(part).map(|each| all | each)),
        Value::List(values) if values.len() == 1 => number(&values[0]),
        Value::Function(name, values) if name == "htons" && values.len() == 1 => number(&values[0]),
        _ => None,
    }
}
