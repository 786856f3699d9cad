// SPDX-License-Identifier: MIT OR Apache-2.0
//! A DNS stub resolver (RFC 1035): it sends queries to recursive servers.
//!
//! Each query uses its own random id and source port (RFC 5452), derived from the seed. A cache of
//! bounded size keeps responses for their TTL, and negative ones as RFC 2308 states. A truncated
//! response is the error [`ResolveError::Truncated`]; the resolver does not retry over TCP.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use crate::backend::{FIRST_EPHEMERAL_PORT, wildcard_for};
use crate::error::{BindError, OpenError, ResolveError};
use crate::net::Net;
use crate::stack::Stack;
use crate::time::Instant;
use crate::udp::UdpSocket;

mod message;
mod random;

pub use message::RecordType;
use message::{Name, Response};
use random::KeyedRandom;

/// How many CNAME records are followed with a further query.
const MAX_CNAMES: u8 = 8;
/// How many random ports are tried before the stack selects one.
const PORT_ATTEMPTS: usize = 8;

/// The configuration of a resolver.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The servers to query, one after another until one responds.
    pub servers: Vec<SocketAddr>,
    /// The time to wait for each response.
    pub timeout: Duration,
    /// The number of queries to each server.
    pub attempts: u8,
    /// The capacity of the cache in responses.
    pub cache_entries: usize,
    /// The longest time to cache a response, whatever its TTL.
    pub max_ttl: Duration,
    /// The number of concurrent queries.
    pub queries: usize,
    /// The seed of ids and source ports, as [`crate::Config::seed`]. Use other bytes than there.
    pub seed: [u8; 32],
}

impl Settings {
    /// Default settings: a timeout of 2 s, 2 attempts for each server, 256 cached responses for at
    /// most a day, and 32 concurrent queries.
    pub fn new(servers: &[SocketAddr], seed: [u8; 32]) -> Self {
        Self {
            servers: servers.into(),
            timeout: Duration::from_secs(2),
            attempts: 2,
            cache_entries: 256,
            max_ttl: Duration::from_secs(86_400),
            queries: 32,
            seed,
        }
    }
}

/// A pending query.
#[derive(Debug, PartialEq, Eq)]
pub struct Query {
    index: usize,
    generation: u64,
}

type Outcome = Result<Vec<IpAddr>, ResolveError>;

/// The state of a query.
enum State<S: Stack> {
    /// The result is available and was not returned yet.
    Done(Outcome),
    /// A request was sent.
    Pending(Box<Pending<S>>),
}

struct Pending<S: Stack> {
    /// The name of the current request: the original name or a CNAME target.
    name: Name,
    cnames: u8,
    /// The lowest TTL of the CNAME records so far.
    ttl: u32,
    /// Requests sent for the current name.
    attempts: usize,
    socket: Option<UdpSocket<S>>,
    id: u16,
    until: Instant,
    /// The error of the last server that responded.
    failure: ResolveError,
}

struct Entry<S: Stack> {
    generation: u64,
    /// The original name.
    name: Name,
    kind: RecordType,
    state: State<S>,
}

struct Cached {
    outcome: Outcome,
    until: Instant,
}

/// A caching stub resolver.
///
/// [`Resolver::resolve`] blocks. For an event loop, [`Resolver::start`] returns a [`Query`] whose
/// result [`Resolver::poll`] returns.
pub struct Resolver<S: Stack> {
    net: Net<S>,
    settings: Settings,
    random: KeyedRandom,
    entries: Vec<Option<Entry<S>>>,
    generation: u64,
    cache: BTreeMap<(Name, RecordType), Cached>,
}

impl<S: Stack> Resolver<S> {
    /// Creates a resolver over a stack.
    pub fn new(net: &Net<S>, settings: Settings) -> Self {
        Self {
            net: net.clone(),
            random: KeyedRandom::new(&settings.seed),
            settings,
            entries: Vec::new(),
            generation: 0,
            cache: BTreeMap::new(),
        }
    }

    /// Resolves a name and waits for the result.
    ///
    /// # Errors
    ///
    /// See [`ResolveError`]; never `WouldBlock`.
    pub fn resolve(&mut self, name: &str, kind: RecordType) -> Result<Vec<IpAddr>, ResolveError> {
        let query = self.start(name, kind)?;
        loop {
            match self.poll(&query) {
                Err(ResolveError::WouldBlock) => self.net.turn(self.deadline()),
                outcome => return outcome,
            }
        }
    }

    /// Starts a query. An IP address in text form resolves to itself.
    ///
    /// # Errors
    ///
    /// The name is invalid, no server is configured, or too many queries are pending.
    pub fn start(&mut self, name: &str, kind: RecordType) -> Result<Query, ResolveError> {
        if let Some(outcome) = literal(name, kind) {
            let root = Name::new("literal").ok_or(ResolveError::InvalidName)?;
            return self.enter(root, kind, State::Done(outcome));
        }
        let name = Name::new(name).ok_or(ResolveError::InvalidName)?;
        let now = self.net.now();
        if let Some(cached) = self.cache.get(&(name, kind)) {
            if cached.until > now {
                let outcome = cached.outcome.clone();
                return self.enter(name, kind, State::Done(outcome));
            }
            self.cache.remove(&(name, kind));
        }
        if self.settings.servers.is_empty() {
            return Err(ResolveError::NoServer);
        }
        let pending = Pending {
            name,
            cnames: 0,
            ttl: u32::MAX,
            attempts: 0,
            socket: None,
            id: 0,
            until: now,
            failure: ResolveError::TimedOut,
        };
        self.enter(name, kind, State::Pending(Box::new(pending)))
    }

    fn enter(
        &mut self,
        name: Name,
        kind: RecordType,
        state: State<S>,
    ) -> Result<Query, ResolveError> {
        let free = self.entries.iter().position(Option::is_none);
        let index = match free {
            Some(index) => index,
            None if self.entries.len() < self.settings.queries => {
                self.entries.push(None);
                self.entries.len() - 1
            }
            None => return Err(ResolveError::TooManyQueries),
        };
        self.generation += 1;
        self.entries[index] = Some(Entry {
            generation: self.generation,
            name,
            kind,
            state,
        });
        Ok(Query {
            index,
            generation: self.generation,
        })
    }

    /// Returns the result of a query. It is returned once.
    ///
    /// The caller has to poll the stack. Call this again after an event of the stack or at
    /// [`Resolver::deadline`].
    ///
    /// # Errors
    ///
    /// The query is pending (`WouldBlock`) or has failed.
    pub fn poll(&mut self, query: &Query) -> Result<Vec<IpAddr>, ResolveError> {
        let place = self.entries.get_mut(query.index);
        let entry =
            place.and_then(|place| place.take_if(|entry| entry.generation == query.generation));
        let Some(mut entry) = entry else {
            return Err(ResolveError::UnknownQuery);
        };
        let outcome = match entry.state {
            State::Done(outcome) => return outcome,
            State::Pending(ref mut pending) => self.advance(entry.name, entry.kind, pending),
        };
        if outcome == Err(ResolveError::WouldBlock) {
            self.entries[query.index] = Some(entry);
        }
        outcome
    }

    /// Cancels a query.
    pub fn cancel(&mut self, query: Query) {
        if let Some(place) = self.entries.get_mut(query.index) {
            place.take_if(|entry| entry.generation == query.generation);
        }
    }

    /// Returns the latest time for the next [`Resolver::poll`]; `None` without a pending query.
    pub fn deadline(&self) -> Option<Instant> {
        let entries = self.entries.iter().flatten();
        let times = entries.map(|entry| match &entry.state {
            State::Done(_) => Instant::ZERO,
            State::Pending(pending) => pending.until,
        });
        times.min()
    }

    /// Returns the number of cached responses.
    pub fn cached(&self) -> usize {
        self.cache.len()
    }

    /// Processes responses and timeouts of a query.
    fn advance(&mut self, first: Name, kind: RecordType, pending: &mut Pending<S>) -> Outcome {
        loop {
            let now = self.net.now();
            if let Some(response) = pending.receive(kind) {
                match response {
                    Response::Addresses(addresses, ttl) => {
                        let ttl = ttl.min(pending.ttl);
                        self.store(first, kind, Ok(addresses.clone()), Some(ttl), now);
                        return Ok(addresses);
                    }
                    Response::Cname(target, ttl) => pending.follow(*target, ttl)?,
                    Response::CnameLoop => return Err(ResolveError::CnameLoop),
                    Response::NxDomain(ttl) => {
                        return self.store_negative(
                            first,
                            kind,
                            ResolveError::NxDomain,
                            ttl,
                            pending,
                            now,
                        );
                    }
                    Response::NoData(ttl) => {
                        return self.store_negative(
                            first,
                            kind,
                            ResolveError::NoData,
                            ttl,
                            pending,
                            now,
                        );
                    }
                    Response::Truncated => pending.fail(ResolveError::Truncated),
                    Response::ServerError(code) => pending.fail(ResolveError::ServerError(code)),
                }
            } else if pending.socket.is_some() && now < pending.until {
                return Err(ResolveError::WouldBlock);
            }
            self.send_request(kind, pending, now)?;
        }
    }

    fn store_negative(
        &mut self,
        name: Name,
        kind: RecordType,
        error: ResolveError,
        ttl: Option<u32>,
        pending: &Pending<S>,
        now: Instant,
    ) -> Outcome {
        let ttl = ttl.map(|ttl| ttl.min(pending.ttl));
        self.store(name, kind, Err(error), ttl, now);
        Err(error)
    }

    /// Sends a request to the next server.
    fn send_request(
        &mut self,
        kind: RecordType,
        pending: &mut Pending<S>,
        now: Instant,
    ) -> Result<(), ResolveError> {
        let servers = &self.settings.servers;
        if pending.attempts >= servers.len() * usize::from(self.settings.attempts.max(1)) {
            return Err(pending.failure);
        }
        let server = servers[pending.attempts % servers.len()];
        pending.attempts += 1;
        pending.socket = None;
        pending.until = now + self.settings.timeout;
        pending.id = (self.random.next() & 0xffff) as u16;
        let socket = match self.net.udp() {
            Ok(socket) => socket,
            Err(OpenError::Limit(limit)) => return Err(ResolveError::Limit(limit)),
        };
        socket.set_nonblocking(true);
        bind(&socket, server, &mut self.random);
        let message = message::request(pending.id, &pending.name, kind);
        // A request that can't be sent counts as lost: the next attempt follows after the timeout.
        if socket.connect(server).is_ok() {
            let _ = socket.send(&message);
        }
        pending.socket = Some(socket);
        Ok(())
    }

    /// Caches a result with a TTL above 0. If the cache is full, expired entries are removed, then the
    /// one that expires next.
    fn store(
        &mut self,
        name: Name,
        kind: RecordType,
        outcome: Outcome,
        ttl: Option<u32>,
        now: Instant,
    ) {
        let Some(ttl) = ttl.filter(|ttl| *ttl > 0 && self.settings.cache_entries > 0) else {
            return;
        };
        if self.cache.len() >= self.settings.cache_entries {
            self.cache.retain(|_, cached| cached.until > now);
        }
        if self.cache.len() >= self.settings.cache_entries {
            let next = self.cache.iter().min_by_key(|(_, cached)| cached.until);
            if let Some(key) = next.map(|(key, _)| *key) {
                self.cache.remove(&key);
            }
        }
        let until = now + Duration::from_secs(ttl.into()).min(self.settings.max_ttl);
        self.cache.insert((name, kind), Cached { outcome, until });
    }
}

impl<S: Stack> Pending<S> {
    /// Returns the server's response. Malformed responses, and responses to other requests, may be
    /// forged and are ignored.
    fn receive(&mut self, kind: RecordType) -> Option<Response> {
        let socket = self.socket.as_ref()?;
        let (id, name) = (self.id, &self.name);
        while let Ok(read) = socket.recv_with(|bytes, _| message::response(bytes, id, name, kind)) {
            if let Ok(response) = read {
                return Some(response);
            }
        }
        None
    }

    /// Continues with the target of a CNAME record, at the first server.
    fn follow(&mut self, target: Name, ttl: u32) -> Result<(), ResolveError> {
        self.cnames += 1;
        if self.cnames > MAX_CNAMES {
            return Err(ResolveError::CnameLoop);
        }
        self.name = target;
        self.ttl = self.ttl.min(ttl);
        self.attempts = 0;
        self.socket = None;
        Ok(())
    }

    /// Records the error of a server, so that the next one is queried.
    fn fail(&mut self, why: ResolveError) {
        self.failure = why;
        self.socket = None;
    }
}

/// Binds a socket to a random port. If that fails, `connect` selects a port.
fn bind<S: Stack>(socket: &UdpSocket<S>, server: SocketAddr, random: &mut KeyedRandom) {
    let mut local = wildcard_for(server.ip());
    for _ in 0..PORT_ATTEMPTS {
        local.set_port(FIRST_EPHEMERAL_PORT | (random.next() & 0x3fff) as u16);
        if socket.bind(local) != Err(BindError::InUse) {
            return;
        }
    }
}

/// Returns the result for a name that is an IP address in text form.
fn literal(name: &str, kind: RecordType) -> Option<Outcome> {
    let address: IpAddr = name.parse().ok()?;
    Some(match (kind, address) {
        (RecordType::A, IpAddr::V4(_)) | (RecordType::Aaaa, IpAddr::V6(_)) => Ok([address].into()),
        _ => Err(ResolveError::NoData),
    })
}

impl<S: Stack> fmt::Debug for Resolver<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.entries.iter().flatten().count();
        write!(
            out,
            "Resolver({pending} pending, {} cached)",
            self.cache.len()
        )
    }
}
