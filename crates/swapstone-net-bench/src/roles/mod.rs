// SPDX-License-Identifier: MIT OR Apache-2.0
//! The roles of a process.

mod bulk;
mod echo;
mod http_client;
mod http_server;
mod udp;

use std::error::Error;

use swapstone_net::{Net, Stack};

use crate::app::App;
use crate::options::{Close, Options};

/// Creates the application of a role.
pub fn make<'a, S: Stack>(
    net: &'a Net<S>,
    options: &'a Options,
) -> Result<Box<dyn App + 'a>, Box<dyn Error>> {
    let peer = || options.connect.ok_or("this role needs --connect");
    let of_client = options.warm_up > 0 || options.await_close || options.hold;
    if of_client && !matches!(options.role.as_str(), "http-client" | "churn") {
        return Err("--warm-up, --await-close and --hold are options of http-client".into());
    }
    Ok(match options.role.as_str() {
        "http" => Box::new(http_server::Server::new(net, options)?),
        "http-client" => {
            let close = options.close.unwrap_or(Close::None);
            Box::new(http_client::Client::new(net, options, peer()?, close)?)
        }
        "churn" => {
            let close = options.close.unwrap_or(Close::Client);
            Box::new(http_client::Client::new(net, options, peer()?, close)?)
        }
        "echo" => Box::new(echo::Server::new(net, options)?),
        "ping" => Box::new(echo::Pinger::new(net, options, peer()?)?),
        "source" => Box::new(bulk::Source::new(net, options)?),
        "sink" => Box::new(bulk::Sink::new(net, options)?),
        "udp-sink" => Box::new(udp::Sink::new(net, options)?),
        "udp-blast" => Box::new(udp::Blast::new(net, options, peer()?)?),
        other => return Err(format!("there is no role {other}; see --help").into()),
    })
}
