// SPDX-License-Identifier: MIT OR Apache-2.0
//! An application: the callbacks of an event loop over any stack.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use swapstone_net::{Net, Readiness, SocketId, Stack, TcpSocket};

use crate::report::{self, Outcome};

/// The maximum wait of the loop, so that signals and the time limit are noticed.
const TICK: Duration = Duration::from_millis(50);

/// A role over a stack.
pub trait App {
    /// Begins the work of a client. It is called once, after the start of the measured interval.
    fn start(&mut self) {}

    /// Handles an event of a socket.
    fn event(&mut self, id: SocketId, ready: Readiness);

    /// Returns whether all work is done.
    fn is_done(&self) -> bool {
        false
    }

    /// Returns whether there is work that needs no event.
    fn work(&mut self) -> bool {
        false
    }

    /// Called when no event occurred for a while.
    fn tick(&mut self) {}

    /// Called when the time limit is reached.
    fn time_is_up(&mut self) {}

    /// Returns the result.
    fn outcome(&self) -> Outcome;
}

/// Runs the application until it is done, the time limit is reached or a signal arrives.
pub fn run<S: Stack>(net: &Net<S>, app: &mut dyn App, time: Option<Duration>, stop: &AtomicBool) {
    app.start();
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
}

/// Opens a connection, reports it, and holds it until a signal arrives: so the sockets of a client
/// can be observed after its work.
pub fn hold<S: Stack>(
    net: &Net<S>,
    peer: SocketAddr,
    stop: &AtomicBool,
) -> Result<(), Box<dyn Error>> {
    use swapstone_net::error::ConnectError;
    let socket = connecting(net, peer, false)?;
    let mut held = false;
    while !stop.load(Ordering::Relaxed) {
        if !held {
            match socket.connect(peer) {
                Ok(()) => {
                    report::held()?;
                    held = true;
                }
                Err(ConnectError::WouldBlock) => {}
                Err(error) => return Err(format!("the held connection: {error}").into()),
            }
        }
        net.next_event(Some(net.now() + TICK));
    }
    Ok(())
}

/// Opens a socket and starts to connect.
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
