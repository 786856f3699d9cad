// SPDX-License-Identifier: MIT OR Apache-2.0
//! The context of a test, and the description of tests.

use swapstone_net::fixes::Fixes;
use swapstone_net::{Cidr, Config};

use crate::backend::Backend;

/// The IP version of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Returns `v4` or `v6`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V4 => "v4",
            Self::V6 => "v6",
        }
    }
}

/// A test.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// What it asserts: `area: claim`.
    pub name: &'static str,
    /// The test function. It panics if the claim is false.
    pub run: fn(&Context),
    /// The IP versions to run it with.
    pub families: &'static [Family],
    /// The time limit in seconds.
    pub patience: u64,
    /// It runs with `--slow` only.
    pub slow: bool,
    /// It is a part of another test, which starts it.
    pub hidden: bool,
}

impl Test {
    const fn new(
        name: &'static str,
        run: fn(&Context),
        families: &'static [Family],
        patience: u64,
    ) -> Self {
        Self {
            name,
            run,
            families,
            patience,
            slow: false,
            hidden: false,
        }
    }

    /// A test with both IP versions.
    pub const fn both(name: &'static str, run: fn(&Context)) -> Self {
        Self::new(name, run, &[Family::V4, Family::V6], 60)
    }

    /// A test with IPv4, or one that does not depend on the IP version.
    pub const fn once(name: &'static str, run: fn(&Context)) -> Self {
        Self::new(name, run, &[Family::V4], 60)
    }

    /// A test with IPv6 only.
    pub const fn v6(name: &'static str, run: fn(&Context)) -> Self {
        Self::new(name, run, &[Family::V6], 60)
    }

    /// Sets the time limit in seconds.
    pub const fn within(self, patience: u64) -> Self {
        Self { patience, ..self }
    }

    /// Makes it run with `--slow` only.
    pub const fn slow(self) -> Self {
        Self { slow: true, ..self }
    }

    /// Makes it run only if another test starts it.
    pub const fn hidden(self) -> Self {
        Self {
            hidden: true,
            ..self
        }
    }
}

/// The parameters of a test.
#[derive(Debug)]
pub struct Context {
    /// The stack under test.
    pub backend: &'static Backend,
    /// The fixes of the stack under test.
    pub fixes: Fixes,
    /// The IP version.
    pub family: Family,
    /// `--slow` is set.
    pub slow: bool,
    /// The seed of the link, and each byte of the seed of the stack.
    pub seed: u8,
}

/// The exit status of a test that is unavailable.
pub const EXIT_UNAVAILABLE: i32 = 77;

impl Context {
    /// Prints a measured value. It does not affect the result.
    pub fn note(&self, text: impl AsRef<str>) {
        println!("note: {}", text.as_ref());
    }

    /// Ends the test as unavailable.
    pub fn unavailable(&self, reason: &str) -> ! {
        println!("unavailable: {reason}");
        std::process::exit(EXIT_UNAVAILABLE)
    }

    /// Returns the configuration of the stack under test.
    pub fn config(&self) -> Config {
        let addresses = [
            Cidr::new(crate::addresses::SUBJECT_V4.into(), 24),
            Cidr::new(crate::addresses::SUBJECT_V6.into(), 64),
        ];
        Config::new(&addresses, [self.seed; 32])
    }

    /// Runs a test in a separate process with these fixes of the stack under test.
    pub fn part(&self, test: &str, family: Family, fixes: &str) -> std::process::Output {
        let program = std::env::current_exe().expect("a process has a program");
        std::process::Command::new(program)
            .args(["--one", test, self.backend.name])
            .args(["--family", family.name(), "--fixes", fixes])
            .env("RUST_BACKTRACE", "0")
            .output()
            .expect("it ran before")
    }

    /// Runs a hidden test in a separate process with another seed; returns its notes.
    pub fn child(&self, test: &str, seed: u8) -> Vec<String> {
        let program = std::env::current_exe().expect("a process has a program");
        let output = std::process::Command::new(program)
            .args(["--one", test, self.backend.name])
            .args(["--family", self.family.name()])
            .args(["--seed", &seed.to_string()])
            .output()
            .expect("it ran before");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "the part {test} failed: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text.lines()
            .filter_map(|line| line.strip_prefix("note: "))
            .map(String::from)
            .collect()
    }
}
