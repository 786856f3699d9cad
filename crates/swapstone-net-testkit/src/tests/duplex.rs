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
        |context| echo(context, 8_000_000, &[1 << 20], &[lossy(2000)]),
    )
    .within(300),
    Test::once("duplex: 64 KiB of buffers and 3 % of loss end", |context| {
        echo(context, 1_000_000, &[64 << 10], &[lossy(30_000)])
    })
    .within(300),
    Test::once(
        "duplex: reordering, duplicates and bit errors end",
        |context| echo(context, 1_000_000, &[64 << 10], &faults()),
    )
    .within(300),
    Test::once(
        "duplex: buffers of 64 KiB to 1 MiB and loss of 0.1 to 3 % end",
        |context| {
            let losses = [1000, 2000, 5000, 10_000, 30_000].map(lossy);
            echo(context, 8_000_000, &BUFFERS, &losses);
        },
    )
    .within(3600)
    .slow(),
    Test::once(
        "duplex: buffers of 64 KiB to 1 MiB and every fault of a link end",
        |context| echo(context, 8_000_000, &BUFFERS, &faults()),
    )
    .within(3600)
    .slow(),
];

const BUFFERS: [usize; 5] = [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];

fn lossy(loss_ppm: u32) -> Path {
    Path {
        bandwidth: 1_000_000_000,
        delay: Duration::from_millis(2),
        loss_ppm,
        queue: Queue::default(),
        ..Path::default()
    }
}

/// Paths with one fault each, and one with all.
fn faults() -> [Path; 4] {
    let (clean, rare) = (lossy(0), 5000);
    let reordered = Path {
        reorder_ppm: 10_000,
        reorder_by: Duration::from_millis(1),
        ..clean
    };
    let duplicated = Path {
        duplicate_ppm: 10_000,
        ..clean
    };
    let corrupted = Path {
        corrupt_ppm: rare,
        ..clean
    };
    let all = Path {
        loss_ppm: rare,
        duplicate_ppm: 10_000,
        corrupt_ppm: rare,
        ..reordered
    };
    [reordered, duplicated, corrupted, all]
}

/// Sends data to an echo server of the other stack, with three buffers ahead of what is back, so
/// that windows close on both sides.
fn echo(context: &Context, bytes: usize, buffers: &[usize], paths: &[Path]) {
    for buffer in buffers {
        for path in paths {
            let config = Config {
                limits: Limits {
                    receive_buffer: *buffer,
                    send_buffer: *buffer,
                    packet_memory: 64 << 20,
                    ..Limits::default()
                },
                ..context.config()
            };
            let pair = context.pair_with(&config, *path);
            pair.link.attach(
                1,
                Server::new(&pair.other, pair.at_other(7), 4, Echo::default),
            );
            let socket = connect(&pair, 7);
            let all = pattern(bytes);
            let begun = pair.link.now();
            assert!(round_trip(&socket, &all, 3 * buffer) == all);
            let seconds = (pair.link.now() - begun).as_secs_f64();
            let [here, there] = [pair.link.counters(0), pair.link.counters(1)];
            let faults =
                [here, there].map(|one| one.lost + one.duplicated + one.corrupted + one.reordered);
            context.note(format!(
                "{bytes} bytes, buffers of {buffer}, {} ppm of loss, {} of {} frames with a fault: {seconds:.1} virtual s",
                path.loss_ppm,
                faults[0] + faults[1],
                here.sent + there.sent
            ));
            assert!(faults[0] + faults[1] > 0);
            // They hold the stacks, and lwIP can exist only once.
            drop(socket);
            pair.link.detach(0);
            pair.link.detach(1);
        }
    }
}
