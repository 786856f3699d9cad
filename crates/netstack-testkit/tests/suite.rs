//! The conformance suite, as a test: `cargo test -p netstack-testkit --test suite`.

fn main() -> std::process::ExitCode {
    netstack_testkit::harness::main()
}
