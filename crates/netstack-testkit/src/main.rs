//! The conformance suite: `conformance --help` tells how to run it.

fn main() -> std::process::ExitCode {
    netstack_testkit::harness::main()
}
