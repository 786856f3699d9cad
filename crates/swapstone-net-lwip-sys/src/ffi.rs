// SPDX-License-Identifier: MIT OR Apache-2.0
//! The declarations of `c/glue.h`.

use core::ffi::{c_char, c_int, c_void};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// lwIP's control block of a TCP connection or listener; opaque.
#[repr(C)]
pub struct TcpPcb {
    hidden: [u8; 0],
}

/// lwIP's control block of UDP.
#[repr(C)]
pub struct UdpPcb {
    hidden: [u8; 0],
}

/// lwIP's packet buffer.
#[repr(C)]
pub struct Pbuf {
    hidden: [u8; 0],
}

/// `struct lw_address`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Address {
    /// In network byte order.
    words: [u32; 4],
    pub kind: u8,
}

impl Address {
    /// The IPv6 unspecified address matches both families.
    pub fn of_socket(address: IpAddr) -> Self {
        match address {
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Self::default(),
            other => other.into(),
        }
    }

    /// Returns the address; `None` if unset.
    pub fn get(&self) -> Option<IpAddr> {
        let words = self.words.map(u32::from_be);
        match self.kind {
            4 => Some(Ipv4Addr::from_bits(words[0]).into()),
            6 => {
                let bits = words
                    .into_iter()
                    .fold(0, |bits, word| bits << 32 | u128::from(word));
                Some(Ipv6Addr::from_bits(bits).into())
            }
            _ => None,
        }
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self {
                words: [v4.to_bits().to_be(), 0, 0, 0],
                kind: 4,
            },
            IpAddr::V6(v6) => Self {
                words: [96, 64, 32, 0].map(|shift| ((v6.to_bits() >> shift) as u32).to_be()),
                kind: 6,
            },
        }
    }
}

/// `struct lw_part`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Part {
    pub bytes: *const u8,
    pub size: usize,
}

/// `struct lw_offload`.
#[repr(C)]
pub struct Offload {
    pub start: u16,
    pub offset: u16,
    pub size: u16,
    pub headers: u16,
    pub ipv6: u8,
}

/// `struct lw_settings`.
#[repr(C)]
pub struct Settings {
    pub hardware_address: [u8; 6],
    pub slaac: u8,
    pub checksum_offload: u8,
    pub mtu: u16,
    pub segments: u16,
    pub receive_buffer: u32,
    pub send_buffer: u32,
    pub key: [u64; 4],
    pub v4: Address,
    pub mask_v4: Address,
    pub gateway_v4: Address,
    pub gateway_v6: Address,
    pub table: *mut c_void,
    pub buckets: usize,
    pub fixes: u32,
}

/// `struct lw_counts`.
#[repr(C)]
pub struct Counts {
    pub no_room: u64,
    pub malformed: u64,
    pub retransmitted: u64,
    pub out_of_parts: u64,
    pub active: usize,
    pub waiting: usize,
    pub timers_visited: u64,
}

unsafe extern "C" {
    pub static lw_counts: Counts;
    pub fn lw_limit_waiting(most: usize);
    pub fn lw_tcp_listen(token: usize, local: *const Address, port: u16) -> *mut TcpPcb;
    pub fn lw_tcp_connect(
        token: usize,
        local: *const Address,
        local_port: u16,
        remote: *const Address,
        port: u16,
    ) -> *mut TcpPcb;
    pub fn lw_tcp_exists(
        local: *const Address,
        local_port: u16,
        remote: *const Address,
        port: u16,
    ) -> c_int;
    pub fn lw_tcp_write(
        pcb: *mut TcpPcb,
        bytes: *const u8,
        size: usize,
        copy: c_int,
        more: c_int,
    ) -> usize;
    pub fn lw_tcp_output(pcb: *mut TcpPcb);
    pub fn lw_tcp_room(pcb: *const TcpPcb) -> usize;
    pub fn lw_tcp_consumed(pcb: *mut TcpPcb, size: usize);
    pub fn lw_tcp_end(pcb: *mut TcpPcb) -> c_int;
    pub fn lw_tcp_close(pcb: *mut TcpPcb);
    pub fn lw_tcp_close_listener(pcb: *mut TcpPcb);
    pub fn lw_tcp_abort(pcb: *mut TcpPcb);
    pub fn lw_tcp_forget(pcb: *mut TcpPcb);
    pub fn lw_tcp_nodelay(pcb: *mut TcpPcb, on: c_int);
    pub fn lw_tcp_keep_alive(pcb: *mut TcpPcb, after_ms: u32);
    pub fn lw_tcp_names(
        pcb: *const TcpPcb,
        local: *mut Address,
        local_port: *mut u16,
        remote: *mut Address,
        port: *mut u16,
    );
    pub fn lw_tcp_owes() -> c_int;
    pub fn lw_tcp_acknowledge();
    pub fn lw_tcp_running() -> c_int;
    pub fn lw_tcp_retry();
    pub fn lw_random() -> u32;
    pub fn lw_first_port(local: *const Address, remote: *const Address, port: u16) -> u32;
    pub fn lw_address_at(at: c_int, address: *mut Address, prefix: *mut u8) -> c_int;
    pub fn lw_add_v6(address: *const Address) -> c_int;
    pub fn lw_source_for(remote: *const Address, local: *mut Address) -> c_int;
    pub fn lw_input(received: *mut c_void, bytes: *mut u8, size: usize, verified: c_int) -> c_int;
    pub fn lw_pbuf_bytes(p: *const Pbuf, size: *mut usize) -> *const u8;
    pub fn lw_pbuf_total(p: *const Pbuf) -> usize;
    pub fn lw_pbuf_advance(p: *mut Pbuf, size: usize) -> *mut Pbuf;
    pub fn lw_pbuf_free(p: *mut Pbuf);
    pub fn lw_pbuf_copy(p: *const Pbuf, to: *mut u8);
    pub fn lw_udp_new(token: usize) -> *mut UdpPcb;
    pub fn lw_udp_bind(pcb: *mut UdpPcb, local: *const Address, port: u16) -> c_int;
    pub fn lw_udp_connect(pcb: *mut UdpPcb, remote: *const Address, port: u16);
    pub fn lw_udp_disconnect(pcb: *mut UdpPcb);
    pub fn lw_udp_remove(pcb: *mut UdpPcb);
    pub fn lw_udp_send(
        pcb: *mut UdpPcb,
        parts: *const Part,
        count: usize,
        remote: *const Address,
        port: u16,
    ) -> c_int;
    pub fn lw_timer(which: c_int);
    pub fn lw_timer_period(which: c_int) -> u32;
    pub fn lw_start(settings: *const Settings) -> c_int;
    pub fn lw_up();
    pub fn lw_stop();
    pub fn lw_malformed() -> u64;
    pub fn lw_no_room() -> u64;
    pub fn lw_retransmitted() -> u64;
    pub fn lw_found_first() -> u64;
    pub fn lw_version() -> *const c_char;
    pub fn lw_option(which: c_int) -> u32;
}
