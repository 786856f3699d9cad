//! Time that passes only while everybody waits.

use alloc::boxed::Box;
use alloc::vec::Vec;

use swapstone_net::{Instant, Net, Platform, Stack};

use crate::link::{Link, PortId};

/// Somebody who lives on the link and acts while others wait: a stack, or a program with event-style sockets on one. It must not block.
pub trait Actor {
    /// Do what there is to do now; `true` if there may be more at once.
    fn act(&mut self, now: Instant) -> bool;

    /// When it has something to do at the latest, even if no frame arrives; `None` if never.
    fn deadline(&mut self, now: Instant) -> Option<Instant>;
}

/// A stack alone: connections go on, and closing ones close.
impl<S: Stack> Actor for Net<S> {
    fn act(&mut self, now: Instant) -> bool {
        self.with(|stack| stack.poll(now))
    }

    fn deadline(&mut self, now: Instant) -> Option<Instant> {
        self.with(|stack| stack.deadline(now))
    }
}

#[derive(Default)]
pub(crate) struct Actors {
    list: Vec<(PortId, Box<dyn Actor>)>,
}

impl Actors {
    /// Let all act until none has more to do, but those of the port that waits.
    fn act(&mut self, but: Option<PortId>, now: Instant) {
        for (port, actor) in &mut self.list {
            if Some(*port) != but {
                while actor.act(now) {}
            }
        }
    }

    fn deadline(&mut self, but: Option<PortId>, now: Instant) -> Option<Instant> {
        let others = self.list.iter_mut().filter(|(port, _)| Some(*port) != but);
        let deadlines = others.filter_map(|(_, actor)| actor.deadline(now));
        deadlines.min()
    }
}

impl Link {
    /// Let `actor`, who uses `port`, act while sockets of other ports wait.
    ///
    /// Actors act in the order in which they came. An actor that holds this link keeps it alive: [`Link::detach`] ends that.
    pub fn attach(&self, port: PortId, actor: impl Actor + 'static) {
        let mut actors = self.shared.actors.borrow_mut();
        actors.list.push((port, Box::new(actor)));
    }

    /// Take all actors of `port` away.
    pub fn detach(&self, port: PortId) {
        let mut actors = self.shared.actors.borrow_mut();
        let list = core::mem::take(&mut actors.list);
        let (gone, rest) = list.into_iter().partition(|(whose, _)| *whose == port);
        actors.list = rest;
        // An actor's last deeds on the link must not find it borrowed.
        drop(actors);
        drop::<Vec<(PortId, Box<dyn Actor>)>>(gone);
    }

    /// The clock, for a stack on `port`: its sockets wait while the other ports' actors act.
    pub fn time(&self, port: PortId) -> VirtualTime {
        VirtualTime {
            link: self.clone(),
            port,
        }
    }

    /// Let all actors act until `until`.
    pub fn run_until(&self, until: Instant) {
        self.pass(None, Some(until));
    }

    /// Let time pass until `until` or until something has arrived at `port`, whose actors have to wait.
    ///
    /// # Panics
    ///
    /// If nothing can ever happen again and `until` is `None`.
    pub(crate) fn pass(&self, port: Option<PortId>, until: Option<Instant>) {
        loop {
            let now = self.now();
            self.actors(|actors| actors.act(port, now));
            let wires = self.shared.wires.borrow();
            if port.is_some_and(|port| wires.has_arrived(port, now))
                || until.is_some_and(|until| until <= now)
            {
                return;
            }
            let arrival = wires.next_arrival(now);
            drop(wires);
            let due = self.actors(|actors| actors.deadline(port, now));
            // Whoever has just acted and is due again at once gets its turn with the next microsecond.
            let due = due.map(|due| due.max(Instant::from_micros(now.micros() + 1)));
            let next = [until, arrival, due].into_iter().flatten().min();
            let Some(next) = next else {
                panic!("nothing can ever happen again on the link, and somebody waits for it");
            };
            self.shared.now.set(next);
        }
    }

    fn actors<T>(&self, what: impl FnOnce(&mut Actors) -> T) -> T {
        let actors = self.shared.actors.try_borrow_mut();
        what(&mut actors.expect("an actor must not block: others are waiting"))
    }
}

/// The clock of a [`Link`], as the stack on one of its ports sees it.
#[derive(Clone, Debug)]
pub struct VirtualTime {
    link: Link,
    port: PortId,
}

impl Platform for VirtualTime {
    fn now(&mut self) -> Instant {
        self.link.now()
    }

    /// Time jumps to the next thing that happens, until something arrives here or it is `until`.
    ///
    /// # Panics
    ///
    /// If nothing can ever happen again and `until` is `None`, or if an actor calls it.
    fn wait(&mut self, until: Option<Instant>) {
        self.link.pass(Some(self.port), until);
    }
}
