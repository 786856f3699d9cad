//! An application: what an event loop calls, over any stack.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use swapstone_net::{Net, Readiness, SocketId, Stack, TcpSocket};

use crate::report::Outcome;

/// How long the loop sleeps at most, so that a signal or the end of the time is seen.
const TICK: Duration = Duration::from_millis(50);

/// One role, over one stack.
pub trait App {
    /// Something changed for a socket.
    fn event(&mut self, id: SocketId, ready: Readiness);

    /// Whether all is done.
    fn is_done(&self) -> bool {
        false
    }

    /// Whether there is work that waits for no event.
    fn work(&mut self) -> bool {
        false
    }

    /// Nothing happened for a while.
    fn tick(&mut self) {}

    /// The time that was asked for is over.
    fn time_is_up(&mut self) {}

    /// What came of it.
    fn outcome(&self) -> Outcome;
}

/// Run it until it is done, the time is over or a signal came.
pub fn run<S: Stack>(
    net: &Net<S>,
    app: &mut dyn App,
    time: Option<Duration>,
    stop: &AtomicBool,
) -> Outcome {
    let mut end = time.map(|time| Instant::now() + time);
    let mut until = net.now() + TICK;
    while !app.is_done() && !stop.load(Ordering::Relaxed) {
        if app.work() {
            net.poll();
            while let Some((id, ready)) = net.with(Stack::next_event) {
                app.event(id, ready);
            }
        } else if let Some((id, ready)) = net.next_event(Some(until)) {
            app.event(id, ready);
            if end.is_none() {
                continue;
            }
        } else {
            until = net.now() + TICK;
            app.tick();
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            end = None;
            app.time_is_up();
        }
    }
    app.outcome()
}

/// Open a socket that begins to connect.
pub fn connecting<S: Stack>(
    net: &Net<S>,
    peer: SocketAddr,
    nodelay: bool,
) -> Result<TcpSocket<S>, Box<dyn Error>> {
    use swapstone_net::error::ConnectError;
    let socket = net.tcp()?;
    socket.set_nonblocking(true);
    if nodelay {
        let _ = socket.set_nodelay(true);
    }
    match socket.connect(peer) {
        Ok(()) | Err(ConnectError::WouldBlock) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}
