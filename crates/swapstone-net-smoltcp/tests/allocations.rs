// SPDX-License-Identifier: MIT OR Apache-2.0
//! The steady state allocates nothing per packet, request or connection.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::*;
use swapstone_net::Shutdown;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: each call is passed to the system allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller fulfills the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

#[test]
fn the_counter_counts() {
    let before = count();
    drop(std::hint::black_box(vec![1u8; 9]));
    assert_eq!(count(), before + 1);
}

#[test]
fn the_steady_state_allocates_nothing() {
    let world = world();
    let (client, server) = world.pair();
    let talk = || {
        let mut buffer = [0; 4096];
        for round in 0..200u32 {
            assert_eq!(client.send_vectored(&[b"GET ", &[7; 300]]).unwrap(), 304);
            world.millis(1 + u64::from(round % 3) * 10);
            let mut read = 0;
            while let Ok(size) = server.recv(&mut buffer) {
                read += size;
            }
            assert_eq!(read, 304);
            assert_eq!(server.send(&buffer[..3000]).unwrap(), 3000);
            world.millis(60);
            let mut read = 0;
            while let Ok(size) = client.recv_with(|bytes| bytes.len()) {
                read += size;
            }
            assert_eq!(read, 3000);
        }
    };
    talk();
    let before = count();
    talk();
    assert_eq!(count() - before, 0);
}

#[test]
fn new_connections_reuse_buffers() {
    let world = world();
    let listener = world.listen("10.0.0.2:80", 4);
    let visit = || {
        let client = world.client.tcp().unwrap();
        client.connect(at("10.0.0.2:80")).unwrap();
        client.send(b"request").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        world.millis(3);
        let (server, _) = listener.accept().unwrap();
        assert_eq!(server.recv_with(|bytes| bytes.len()).unwrap(), 7);
        assert_eq!(server.recv_with(|bytes| bytes.len()).unwrap(), 0);
        server.send(&[1; 1000]).unwrap();
        drop(server);
        assert_eq!(client.recv_with(|bytes| bytes.len()).unwrap(), 1000);
        drop(client);
        world.millis(3);
    };
    // So many that expired records are as many as new ones.
    (0..9000).for_each(|_| visit());
    let before = count();
    (0..200).for_each(|_| visit());
    assert_eq!(count() - before, 0);
}

#[test]
fn datagrams_allocate_nothing() {
    let world = world();
    let server = world.server.udp().unwrap();
    server.bind(at("0.0.0.0:7")).unwrap();
    let client = world.client.udp().unwrap();
    let talk = || {
        for _ in 0..100 {
            client.send_to(&[7; 1000], at("10.0.0.2:7")).unwrap();
            let (size, from) = server.recv_from(&mut [0; 1500]).unwrap();
            server.send_to(&[1; 100], from).unwrap();
            assert_eq!(
                (size, client.recv_from(&mut [0; 1500]).unwrap().0),
                (1000, 100)
            );
        }
    };
    talk();
    let before = count();
    talk();
    assert_eq!(count() - before, 0);
}
