// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HTTP server.

use std::error::Error;

use swapstone_net::{Net, Readiness, SocketId, Stack};
use swapstone_net_apps::{HttpServer, Settings};

use crate::app::App;
use crate::options::Options;
use crate::report::{Outcome, Span};

/// The server, and the interval of its work.
pub struct Server<S: Stack> {
    server: HttpServer<S>,
    span: Span,
}

impl<S: Stack> Server<S> {
    pub fn new(net: &Net<S>, options: &Options) -> Result<Self, Box<dyn Error>> {
        let settings = Settings {
            listen: options.listen,
            backlog: options.backlog,
            nodelay: options.nodelay,
            page: options.page,
            receive: options.receive,
            send: options.send,
        };
        Ok(Self {
            server: HttpServer::new(net, &settings)?,
            span: Span::default(),
        })
    }
}

impl<S: Stack> App for Server<S> {
    fn event(&mut self, id: SocketId, _: Readiness) {
        self.span.note();
        self.server.event(id);
    }

    fn tick(&mut self) {
        self.server.tick();
    }

    fn outcome(&self) -> Outcome {
        let counts = self.server.counts();
        Outcome {
            requests: counts.requests,
            failed: counts.failed,
            connections: counts.connections,
            bytes_in: counts.bytes_in,
            bytes_out: counts.bytes_out,
            active_s: self.span.seconds(),
            first_failure: counts.first_failure.clone(),
            ..Outcome::default()
        }
    }
}

#[cfg(test)]
#[path = "http_server_tests.rs"]
mod tests;
