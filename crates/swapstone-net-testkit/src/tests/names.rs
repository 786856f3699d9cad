// SPDX-License-Identifier: MIT OR Apache-2.0
//! The resolver and a hand-made server.

use std::net::IpAddr;
use std::time::Duration;

use swapstone_net::dns::{Query, RecordType, Resolver, Settings};
use swapstone_net::error::ResolveError;

use crate::context::{Context, Test};
use crate::watched::Watched;
use crate::wire::Udp;
use crate::world::World;

pub(super) const TESTS: &[Test] = &[
    Test::both("dns: a name is resolved and cached for its TTL", resolved),
    Test::both("dns: a negative response is cached, too", absent),
    Test::both(
        "dns: a lost query is repeated with another id and port",
        asked_again,
    ),
    Test::both("dns: a response with a wrong id is ignored", wrong_id),
    Test::both("dns: a server error leads to the next server", next_server),
    Test::both("dns: the target of a CNAME record is queried", alias),
    Test::both("dns: a truncated response is an error", cut_off),
    Test::both("dns: a blocking query times out", blocking),
    Test::both(
        "dns: the numbers of queries and cached responses are bounded",
        bounded,
    ),
];

fn settings(world: &World) -> Settings {
    Settings::new(&[world.at_peer(53), world.at_peer(54)], [9; 32])
}

fn resolver(world: &World) -> Resolver<Watched> {
    Resolver::new(&world.net, settings(world))
}

/// Polls until the query arrives at the server.
fn question(world: &mut World, resolver: &mut Resolver<Watched>, of: &Query) -> Udp {
    for _ in 0..100 {
        assert_eq!(resolver.poll(of), Err(ResolveError::WouldBlock));
        let got = world.find(Duration::from_millis(100), |packet| packet.udp().cloned());
        if let Some(got) = got {
            return got;
        }
    }
    panic!("no query is sent");
}

/// Responds to a query with these flags, counts and records.
fn answer(world: &mut World, to: &Udp, flags: u16, counts: [u8; 3], records: &[u8]) {
    let mut payload = to.payload.clone();
    payload[2..4].copy_from_slice(&(0x8180 | flags).to_be_bytes());
    payload[7] = counts[0];
    payload[9] = counts[1];
    payload[11] = counts[2];
    payload.extend(records);
    world.send_udp(to.destination, to.source, &payload);
    world.run(Duration::from_millis(10));
}

/// A record of the queried name.
fn record(kind: u8, ttl: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xc0, 12, 0, kind, 0, 1];
    bytes.extend(ttl.to_be_bytes());
    bytes.extend((data.len() as u16).to_be_bytes());
    bytes.extend(data);
    bytes
}

const ADDRESS: [u8; 4] = [192, 0, 2, 1];

fn resolved(context: &Context) {
    let mut world = context.world();
    let mut resolver = resolver(&world);
    let of = resolver.start("www.example.org", RecordType::A).unwrap();
    let asked = question(&mut world, &mut resolver, &of);
    assert_eq!(asked.destination, 53);
    assert_eq!(
        asked.payload[12..],
        *b"\x03www\x07example\x03org\0\0\x01\0\x01"
    );
    answer(&mut world, &asked, 0, [1, 0, 0], &record(1, 60, &ADDRESS));
    let expected = vec![IpAddr::from(ADDRESS)];
    assert_eq!(resolver.poll(&of), Ok(expected.clone()));
    assert_eq!(resolver.poll(&of), Err(ResolveError::UnknownQuery));
    assert_eq!(resolver.deadline(), None);
    world.run(Duration::from_secs(59));
    assert_eq!(
        resolver.resolve("WWW.example.org.", RecordType::A),
        Ok(expected)
    );
    world.run(Duration::from_secs(2));
    let of = resolver.start("www.example.org", RecordType::A).unwrap();
    question(&mut world, &mut resolver, &of);
    // The other record type was not cached.
    let of = resolver.start("www.example.org", RecordType::Aaaa).unwrap();
    let asked = question(&mut world, &mut resolver, &of);
    answer(
        &mut world,
        &asked,
        0,
        [1, 0, 0],
        &record(28, 60, &[0x20; 16]),
    );
    assert_eq!(resolver.poll(&of), Ok(vec![IpAddr::from([0x20; 16])]));
    assert_eq!(
        resolver.resolve("192.0.2.7", RecordType::A),
        Ok(vec![IpAddr::from([192, 0, 2, 7])])
    );
}

fn absent(context: &Context) {
    let mut world = context.world();
    let mut resolver = resolver(&world);
    let of = resolver.start("no.example.org", RecordType::A).unwrap();
    let asked = question(&mut world, &mut resolver, &of);
    let mut zone = vec![0, 0];
    for number in [1_u32, 2, 3, 4, 30] {
        zone.extend(number.to_be_bytes());
    }
    answer(&mut world, &asked, 3, [0, 1, 0], &record(6, 900, &zone));
    assert_eq!(resolver.poll(&of), Err(ResolveError::NxDomain));
    assert_eq!(
        resolver.resolve("no.example.org", RecordType::A),
        Err(ResolveError::NxDomain)
    );
    world.run(Duration::from_secs(31));
    let of = resolver.start("no.example.org", RecordType::A).unwrap();
    question(&mut world, &mut resolver, &of);
}

fn asked_again(context: &Context) {
    let mut world = context.world();
    let mut resolver = resolver(&world);
    let of = resolver.start("a.b", RecordType::A).unwrap();
    let mut asked = Vec::new();
    for _ in 0..4 {
        asked.push(question(&mut world, &mut resolver, &of));
    }
    let servers: Vec<_> = asked.iter().map(|udp| udp.destination).collect();
    assert_eq!(servers, [53, 54, 53, 54]);
    let mut ids: Vec<_> = asked
        .iter()
        .map(|udp| (udp.payload[0], udp.payload[1]))
        .collect();
    let mut ports: Vec<_> = asked.iter().map(|udp| udp.source).collect();
    assert!(ports.iter().all(|port| *port >= 49152));
    ids.sort_unstable();
    ids.dedup();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!((ids.len(), ports.len()), (4, 4));
    answer(
        &mut world,
        &asked[3],
        0,
        [1, 0, 0],
        &record(1, 60, &ADDRESS),
    );
    assert_eq!(resolver.poll(&of), Ok(vec![ADDRESS.into()]));
}

fn wrong_id(context: &Context) {
    let mut world = context.world();
    let mut resolver = resolver(&world);
    let of = resolver.start("a.b", RecordType::A).unwrap();
    let asked = question(&mut world, &mut resolver, &of);
    let mut forged = asked.clone();
    forged.payload[0] ^= 1;
    answer(&mut world, &forged, 0, [1, 0, 0], &record(1, 60, &[6; 4]));
    assert_eq!(resolver.poll(&of), Err(ResolveError::WouldBlock));
    // From another port than the server's.
    forged = asked.clone();
    forged.destination = 99;
    answer(&mut world, &forged, 0, [1, 0, 0], &record(1, 60, &[6; 4]));
    assert_eq!(resolver.poll(&of), Err(ResolveError::WouldBlock));
    answer(&mut world, &asked, 0, [1, 0, 0], &record(1, 60, &ADDRESS));
    assert_eq!(resolver.poll(&of), Ok(vec![ADDRESS.into()]));
}

fn next_server(context: &Context) {
    let mut world = context.world();
    let mut resolver = resolver(&world);
    let of = resolver.start("a.b", RecordType::A).unwrap();
    let asked = question(&mut world, &mut resolver, &of);
    let before = world.now();
    answer(&mut world, &asked, 2, [0, 0, 0], &[]);
    let other = question(&mut world, &mut resolver, &of);
    assert_eq!((asked.destination, other.destination), (53, 54));
    assert!((world.now() - before).as_millis() < 100, "without waiting");
    for _ in 0..2 {
        answer(&mut world, &other, 5, [0, 0, 0], &[]);
        let _ = question(&mut world, &mut resolver, &of);
    }
    world.run(Duration::from_secs(3));
    assert_eq!(resolver.poll(&of), Err(ResolveError::ServerError(5)));
}

fn alias(context: &Context) {
    let mut world = context.world();
    let mut resolver = resolver(&world);
    let of = resolver.start("a.b", RecordType::A).unwrap();
    let asked = question(&mut world, &mut resolver, &of);
    answer(
        &mut world,
        &asked,
        0,
        [1, 0, 0],
        &record(5, 10, b"\x01c\x01d\0"),
    );
    let asked = question(&mut world, &mut resolver, &of);
    assert_eq!(asked.payload[12..17], *b"\x01c\x01d\0");
    answer(&mut world, &asked, 0, [1, 0, 0], &record(1, 60, &ADDRESS));
    assert_eq!(resolver.poll(&of), Ok(vec![ADDRESS.into()]));
    // It is cached for the TTL of the CNAME record.
    world.run(Duration::from_secs(9));
    assert_eq!(
        resolver.resolve("a.b", RecordType::A),
        Ok(vec![ADDRESS.into()])
    );
    world.run(Duration::from_secs(2));
    let of = resolver.start("a.b", RecordType::A).unwrap();
    // An endless chain is an error.
    for _ in 0..9 {
        let asked = question(&mut world, &mut resolver, &of);
        let target = if asked.payload[13] == b'a' {
            b"\x01c\x01d\0"
        } else {
            b"\x01a\x01b\0"
        };
        answer(&mut world, &asked, 0, [1, 0, 0], &record(5, 10, target));
    }
    assert_eq!(resolver.poll(&of), Err(ResolveError::CnameLoop));
}

fn cut_off(context: &Context) {
    let mut world = context.world();
    let mut one = settings(&world);
    one.servers.truncate(1);
    one.attempts = 1;
    let mut resolver = Resolver::new(&world.net, one);
    let of = resolver.start("a.b", RecordType::A).unwrap();
    let asked = question(&mut world, &mut resolver, &of);
    answer(&mut world, &asked, 0x200, [0, 0, 0], &[]);
    assert_eq!(resolver.poll(&of), Err(ResolveError::Truncated));
}

fn blocking(context: &Context) {
    let world = context.world();
    let mut resolver = resolver(&world);
    let begun = world.now();
    assert_eq!(
        resolver.resolve("a.b", RecordType::A),
        Err(ResolveError::TimedOut)
    );
    assert_eq!((world.now() - begun).as_secs(), 8, "four attempts of 2 s");
    assert_eq!(world.statistics().udp_sockets, 0);
}

fn bounded(context: &Context) {
    let mut world = context.world();
    let mut few = settings(&world);
    few.queries = 2;
    few.cache_entries = 3;
    let mut resolver = Resolver::new(&world.net, few);
    assert_eq!(
        resolver.start("a..b", RecordType::A),
        Err(ResolveError::InvalidName)
    );
    let first = resolver.start("a.b", RecordType::A).unwrap();
    let _second = resolver.start("c.d", RecordType::A).unwrap();
    assert_eq!(
        resolver.start("e.f", RecordType::A),
        Err(ResolveError::TooManyQueries)
    );
    resolver.cancel(first);
    for at in 0..10 {
        let of = resolver.start(&format!("n{at}.b"), RecordType::A).unwrap();
        let asked = question(&mut world, &mut resolver, &of);
        answer(
            &mut world,
            &asked,
            0,
            [1, 0, 0],
            &record(1, 60 + at, &ADDRESS),
        );
        assert_eq!(resolver.poll(&of), Ok(vec![ADDRESS.into()]));
        assert!(resolver.cached() <= 3);
    }
    assert_eq!(
        resolver.resolve("n9.b", RecordType::A),
        Ok(vec![ADDRESS.into()])
    );
    resolver = Resolver::new(&world.net, Settings::new(&[], [0; 32]));
    assert_eq!(
        resolver.start("a.b", RecordType::A),
        Err(ResolveError::NoServer)
    );
}
