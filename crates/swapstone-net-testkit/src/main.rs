// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conformance suite: `conformance --help` prints how to run it.

fn main() -> std::process::ExitCode {
    swapstone_net_testkit::harness::main()
}
