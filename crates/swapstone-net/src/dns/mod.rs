//! A resolver: names to addresses, by asking the servers that its owner names.
//!
//! It is a stub: servers have to do the recursion. Every attempt has an id and a source port of its own, drawn from the seed. Answers are
//! remembered for their TTL, and so is the absence of a name (RFC 2308), in a cache of bounded size. An answer that does not fit in a
//! datagram is an error, [`ResolveError::Truncated`]: it is not asked for again over TCP.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;

use crate::error::{BindError, OpenError, ResolveError};
use crate::net::Net;
use crate::stack::Stack;
use crate::time::Instant;
use crate::udp::UdpSocket;

mod message;
mod random;

pub use message::Want;
use message::{Answer, Name};
use random::Unguessable;

/// How often an alias leads to another question.
const ALIASES: u8 = 8;
/// How often a random port is tried before the stack chooses one.
const PORTS: usize = 8;

/// How a resolver asks and remembers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whom to ask: in turn, until one answers.
    pub servers: Vec<SocketAddr>,
    /// How long to wait for each answer.
    pub patience: Duration,
    /// How often each server is asked.
    pub tries: u8,
    /// Answers that are remembered.
    pub cache: usize,
    /// The longest time that an answer is remembered.
    pub longest: Duration,
    /// Questions that can be under way at once.
    pub questions: usize,
    /// What ids and ports are drawn from; as [`crate::Config::seed`], but not the same bytes.
    pub seed: [u8; 32],
}

impl Settings {
    /// Usual settings: 2 s for each answer, each server twice, 256 answers for at most a day, 32 questions at once.
    pub fn new(servers: &[SocketAddr], seed: [u8; 32]) -> Self {
        Self {
            servers: servers.into(),
            patience: Duration::from_secs(2),
            tries: 2,
            cache: 256,
            longest: Duration::from_secs(86_400),
            questions: 32,
            seed,
        }
    }
}

/// A question that is under way.
#[derive(Debug, PartialEq, Eq)]
pub struct Question {
    index: usize,
    generation: u64,
}

type Outcome = Result<Vec<IpAddr>, ResolveError>;

/// What became of a question.
enum State<S: Stack> {
    /// It is answered, and the answer was not taken yet.
    Done(Outcome),
    /// It is asked.
    Asking(Box<Asking<S>>),
}

struct Asking<S: Stack> {
    /// What is asked for now: the first name, or what it is an alias of.
    name: Name,
    aliases: u8,
    /// No answer is true for longer than the aliases that led to it.
    ttl: u32,
    /// Attempts so far.
    attempts: usize,
    socket: Option<UdpSocket<S>>,
    id: u16,
    until: Instant,
    /// What the last server said, if it said anything.
    failure: ResolveError,
}

struct Entry<S: Stack> {
    generation: u64,
    /// What was asked for in the first place.
    name: Name,
    want: Want,
    state: State<S>,
}

struct Remembered {
    outcome: Outcome,
    until: Instant,
}

/// Asks and remembers.
///
/// In a blocking style there is [`Resolver::resolve`]; otherwise [`Resolver::start`] gives a [`Question`], which [`Resolver::poll`] answers
/// sooner or later.
pub struct Resolver<S: Stack> {
    net: Net<S>,
    settings: Settings,
    random: Unguessable,
    entries: Vec<Option<Entry<S>>>,
    generation: u64,
    cache: BTreeMap<(Name, Want), Remembered>,
}

impl<S: Stack> Resolver<S> {
    /// A resolver over a stack. It asks nothing yet.
    pub fn new(net: &Net<S>, settings: Settings) -> Self {
        Self {
            net: net.clone(),
            random: Unguessable::new(&settings.seed),
            settings,
            entries: Vec::new(),
            generation: 0,
            cache: BTreeMap::new(),
        }
    }

    /// Ask for a name's addresses and wait for the answer.
    ///
    /// # Errors
    ///
    /// There is no such name or address, no server answers, or there is no room to ask.
    pub fn resolve(&mut self, name: &str, want: Want) -> Result<Vec<IpAddr>, ResolveError> {
        let question = self.start(name, want)?;
        loop {
            match self.poll(&question) {
                Err(ResolveError::WouldBlock) => self.net.turn(self.deadline()),
                outcome => return outcome,
            }
        }
    }

    /// Ask for a name's addresses. An address in digits is its own answer.
    ///
    /// # Errors
    ///
    /// It is no name, there is no server to ask, or there are too many questions.
    pub fn start(&mut self, name: &str, want: Want) -> Result<Question, ResolveError> {
        if let Some(outcome) = literal(name, want) {
            let root = Name::new("literal").ok_or(ResolveError::BadName)?;
            return self.enter(root, want, State::Done(outcome));
        }
        let name = Name::new(name).ok_or(ResolveError::BadName)?;
        let now = self.net.now();
        if let Some(known) = self.cache.get(&(name, want)) {
            if known.until > now {
                let outcome = known.outcome.clone();
                return self.enter(name, want, State::Done(outcome));
            }
            self.cache.remove(&(name, want));
        }
        if self.settings.servers.is_empty() {
            return Err(ResolveError::NoServer);
        }
        let asking = Asking {
            name,
            aliases: 0,
            ttl: u32::MAX,
            attempts: 0,
            socket: None,
            id: 0,
            until: now,
            failure: ResolveError::TimedOut,
        };
        self.enter(name, want, State::Asking(Box::new(asking)))
    }

    fn enter(&mut self, name: Name, want: Want, state: State<S>) -> Result<Question, ResolveError> {
        let free = self.entries.iter().position(Option::is_none);
        let index = match free {
            Some(index) => index,
            None if self.entries.len() < self.settings.questions => {
                self.entries.push(None);
                self.entries.len() - 1
            }
            None => return Err(ResolveError::TooMany),
        };
        self.generation += 1;
        self.entries[index] = Some(Entry {
            generation: self.generation,
            name,
            want,
            state,
        });
        Ok(Question {
            index,
            generation: self.generation,
        })
    }

    /// Look whether a question is answered; the answer is given once.
    ///
    /// Polling the stack is the caller's affair; it is due again when something arrives, or at [`Resolver::deadline`].
    ///
    /// # Errors
    ///
    /// It is not answered yet (`WouldBlock`), or what came of it.
    pub fn poll(&mut self, question: &Question) -> Result<Vec<IpAddr>, ResolveError> {
        let place = self.entries.get_mut(question.index);
        let entry =
            place.and_then(|place| place.take_if(|entry| entry.generation == question.generation));
        let Some(mut entry) = entry else {
            return Err(ResolveError::Unknown);
        };
        let outcome = match entry.state {
            State::Done(outcome) => return outcome,
            State::Asking(ref mut asking) => self.advance(entry.name, entry.want, asking),
        };
        if outcome == Err(ResolveError::WouldBlock) {
            self.entries[question.index] = Some(entry);
        }
        outcome
    }

    /// Give a question up.
    pub fn cancel(&mut self, question: Question) {
        if let Some(place) = self.entries.get_mut(question.index) {
            place.take_if(|entry| entry.generation == question.generation);
        }
    }

    /// When to poll at the latest, even if nothing arrives; `None` if nothing is asked.
    pub fn deadline(&self) -> Option<Instant> {
        let entries = self.entries.iter().flatten();
        let times = entries.map(|entry| match &entry.state {
            State::Done(_) => Instant::ZERO,
            State::Asking(asking) => asking.until,
        });
        times.min()
    }

    /// How many answers are remembered.
    pub fn remembered(&self) -> usize {
        self.cache.len()
    }

    /// Go on with a question as far as there is something to go on with.
    fn advance(&mut self, first: Name, want: Want, asking: &mut Asking<S>) -> Outcome {
        loop {
            let now = self.net.now();
            if let Some(answer) = asking.hear(want) {
                match answer {
                    Answer::Addresses(addresses, ttl) => {
                        let ttl = ttl.min(asking.ttl);
                        self.remember(first, want, Ok(addresses.clone()), Some(ttl), now);
                        return Ok(addresses);
                    }
                    Answer::Alias(target, ttl) => asking.follow(*target, ttl)?,
                    Answer::AliasLoop => return Err(ResolveError::AliasLoop),
                    Answer::NoName(ttl) => {
                        return self.absent(first, want, ResolveError::NoName, ttl, asking, now);
                    }
                    Answer::NoData(ttl) => {
                        return self.absent(first, want, ResolveError::NoData, ttl, asking, now);
                    }
                    Answer::Truncated => asking.fail(ResolveError::Truncated),
                    Answer::Failed(code) => asking.fail(ResolveError::Failed(code)),
                }
            } else if asking.socket.is_some() && now < asking.until {
                return Err(ResolveError::WouldBlock);
            }
            self.ask(want, asking, now)?;
        }
    }

    fn absent(
        &mut self,
        name: Name,
        want: Want,
        error: ResolveError,
        ttl: Option<u32>,
        asking: &Asking<S>,
        now: Instant,
    ) -> Outcome {
        let ttl = ttl.map(|ttl| ttl.min(asking.ttl));
        self.remember(name, want, Err(error), ttl, now);
        Err(error)
    }

    /// Send a question to the next server.
    fn ask(
        &mut self,
        want: Want,
        asking: &mut Asking<S>,
        now: Instant,
    ) -> Result<(), ResolveError> {
        let servers = &self.settings.servers;
        if asking.attempts >= servers.len() * usize::from(self.settings.tries.max(1)) {
            return Err(asking.failure);
        }
        let server = servers[asking.attempts % servers.len()];
        asking.attempts += 1;
        asking.socket = None;
        asking.until = now + self.settings.patience;
        asking.id = (self.random.next() & 0xffff) as u16;
        let socket = match self.net.udp() {
            Ok(socket) => socket,
            Err(OpenError::Limit(limit)) => return Err(ResolveError::Limit(limit)),
        };
        socket.set_nonblocking(true);
        bind(&socket, server, &mut self.random);
        let message = message::question(asking.id, &asking.name, want);
        // What can't be sent is as good as lost: the next attempt comes in time.
        if socket.connect(server).is_ok() {
            let _ = socket.send(&message);
        }
        asking.socket = Some(socket);
        Ok(())
    }

    /// Keep an answer, if it is true for any time. What is no longer true goes first, then what would be next.
    fn remember(
        &mut self,
        name: Name,
        want: Want,
        outcome: Outcome,
        ttl: Option<u32>,
        now: Instant,
    ) {
        let Some(ttl) = ttl.filter(|ttl| *ttl > 0 && self.settings.cache > 0) else {
            return;
        };
        if self.cache.len() >= self.settings.cache {
            self.cache.retain(|_, known| known.until > now);
        }
        if self.cache.len() >= self.settings.cache {
            let next = self.cache.iter().min_by_key(|(_, known)| known.until);
            if let Some(key) = next.map(|(key, _)| *key) {
                self.cache.remove(&key);
            }
        }
        let until = now + Duration::from_secs(ttl.into()).min(self.settings.longest);
        self.cache
            .insert((name, want), Remembered { outcome, until });
    }
}

impl<S: Stack> Asking<S> {
    /// The server's answer, if it is there. What is malformed or answers something else may be forged: it is as if it had not come.
    fn hear(&mut self, want: Want) -> Option<Answer> {
        let socket = self.socket.as_ref()?;
        let (id, name) = (self.id, &self.name);
        while let Ok(read) = socket.recv_with(|bytes, _| message::answer(bytes, id, name, want)) {
            if let Ok(answer) = read {
                return Some(answer);
            }
        }
        None
    }

    /// Ask for another name from now on, from the first server.
    fn follow(&mut self, target: Name, ttl: u32) -> Result<(), ResolveError> {
        self.aliases += 1;
        if self.aliases > ALIASES {
            return Err(ResolveError::AliasLoop);
        }
        self.name = target;
        self.ttl = self.ttl.min(ttl);
        self.attempts = 0;
        self.socket = None;
        Ok(())
    }

    /// This server does not help.
    fn fail(&mut self, why: ResolveError) {
        self.failure = why;
        self.socket = None;
    }
}

/// Give a socket a random port. If that does not work, the stack gives it one when it connects.
fn bind<S: Stack>(socket: &UdpSocket<S>, server: SocketAddr, random: &mut Unguessable) {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    for _ in 0..PORTS {
        let port = 49152 | (random.next() & 0x3fff) as u16;
        if socket.bind(SocketAddr::new(any, port)) != Err(BindError::InUse) {
            return;
        }
    }
}

/// What a text that is an address already stands for.
fn literal(name: &str, want: Want) -> Option<Outcome> {
    let address: IpAddr = name.parse().ok()?;
    Some(match (want, address) {
        (Want::V4, IpAddr::V4(_)) | (Want::V6, IpAddr::V6(_)) => Ok([address].into()),
        _ => Err(ResolveError::NoData),
    })
}

impl<S: Stack> fmt::Debug for Resolver<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asking = self.entries.iter().flatten().count();
        write!(
            out,
            "Resolver({asking} asked, {} remembered)",
            self.cache.len()
        )
    }
}
