// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams in both directions at once, with back pressure, over a link that loses frames.

use std::time::Duration;

use swapstone_net::{Config, Limits};
use swapstone_net_link::{Path, Queue};

use super::data::pattern;
use super::streams::{connect, round_trip};
use crate::context::{Context, Test};
use crate::pair::{Echo, Server};

pub(super) const TESTS: &[Test] = &[
    Test::once(
        "duplex: full buffers in both directions and 0.2 % of loss end",
        |context| echo(context, 8_000_000, &[1 << 20], &[2000]),
    )
    .within(300),
    Test::once(
        "duplex: buffers of 64 KiB to 1 MiB and loss of 0.1 to 1 % end",
        |context| {
            let buffers = [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];
            echo(context, 8_000_000, &buffers, &[1000, 2000, 5000, 10_000]);
        },
    )
    .within(1800)
    .slow(),
];

/// Sends data to an echo server of the other stack, with three buffers ahead of what is back, so
/// that windows close on both sides.
fn echo(context: &Context, bytes: usize, buffers: &[usize], losses: &[u32]) {
    for buffer in buffers {
        for loss_ppm in losses {
            let config = Config {
                limits: Limits {
                    receive_buffer: *buffer,
                    send_buffer: *buffer,
                    packet_memory: 64 << 20,
                    ..Limits::default()
                },
                ..context.config()
            };
            let pair = context.pair_with(
                &config,
                Path {
                    bandwidth: 1_000_000_000,
                    delay: Duration::from_millis(2),
                    loss_ppm: *loss_ppm,
                    queue: Queue::default(),
                    ..Path::default()
                },
            );
            pair.link.attach(
                1,
                Server::new(&pair.other, pair.at_other(7), 4, Echo::default),
            );
            let socket = connect(&pair, 7);
            let all = pattern(bytes);
            let begun = pair.link.now();
            assert!(round_trip(&socket, &all, 3 * buffer) == all);
            let seconds = (pair.link.now() - begun).as_secs_f64();
            context.note(format!(
                "{bytes} bytes, buffers of {buffer}, {loss_ppm} ppm of loss: {seconds:.1} virtual s"
            ));
            assert!(pair.link.counters(0).lost + pair.link.counters(1).lost > 0);
            // They hold the stacks, and lwIP can exist only once.
            drop(socket);
            pair.link.detach(0);
            pair.link.detach(1);
        }
    }
}
