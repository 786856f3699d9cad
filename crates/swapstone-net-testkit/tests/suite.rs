// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conformance suite, as a test: `cargo test -p swapstone-net-testkit --test suite`.

fn main() -> std::process::ExitCode {
    swapstone_net_testkit::harness::main()
}
