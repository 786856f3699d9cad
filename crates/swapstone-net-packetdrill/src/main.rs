// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs packetdrill scripts: `--help` prints how.

fn main() -> std::process::ExitCode {
    swapstone_net_packetdrill::harness::main()
}
