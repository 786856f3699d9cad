//! What a test is given, and how tests are listed.

use swapstone_net::{Cidr, Config};

use crate::backend::Backend;

/// Which version of IP a test runs over.
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
    /// What it asserts, in a few words: `area: claim`.
    pub name: &'static str,
    /// What it does; it panics if the claim does not hold.
    pub run: fn(&Context),
    /// Over which versions of IP.
    pub families: &'static [Family],
    /// Seconds after which it is stopped.
    pub patience: u64,
    /// Whether it runs only when slow tests are asked for.
    pub slow: bool,
    /// Whether it is a part of another test, which starts it.
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

    /// A test over both versions of IP.
    pub const fn both(name: &'static str, run: fn(&Context)) -> Self {
        Self::new(name, run, &[Family::V4, Family::V6], 60)
    }

    /// A test over IPv4, or one that IP has no part in.
    pub const fn once(name: &'static str, run: fn(&Context)) -> Self {
        Self::new(name, run, &[Family::V4], 60)
    }

    /// A test over IPv6 only.
    pub const fn v6(name: &'static str, run: fn(&Context)) -> Self {
        Self::new(name, run, &[Family::V6], 60)
    }

    /// It may take so many seconds.
    pub const fn within(self, patience: u64) -> Self {
        Self { patience, ..self }
    }

    /// It runs only when slow tests are asked for.
    pub const fn slow(self) -> Self {
        Self { slow: true, ..self }
    }

    /// It is started by another test only.
    pub const fn hidden(self) -> Self {
        Self {
            hidden: true,
            ..self
        }
    }
}

/// What a test is given.
#[derive(Debug)]
pub struct Context {
    /// The stack under test.
    pub backend: &'static Backend,
    /// Which version of IP.
    pub family: Family,
    /// Whether there is time.
    pub slow: bool,
    /// What the link's chance is drawn from, and every byte of the stack's seed.
    pub seed: u8,
}

/// How a process tells that a test can't be run here.
pub const EXIT_UNAVAILABLE: i32 = 77;

impl Context {
    /// Print something that was measured. It has no part in the verdict.
    pub fn note(&self, text: impl AsRef<str>) {
        println!("note: {}", text.as_ref());
    }

    /// End the test: it can't be run, for this reason.
    pub fn unavailable(&self, reason: &str) -> ! {
        println!("unavailable: {reason}");
        std::process::exit(EXIT_UNAVAILABLE)
    }

    /// The configuration of the stack under test.
    pub fn config(&self) -> Config {
        let addresses = [
            Cidr::new(crate::addresses::SUBJECT_V4.into(), 24),
            Cidr::new(crate::addresses::SUBJECT_V6.into(), 64),
        ];
        Config::new(&addresses, [self.seed; 32])
    }

    /// Run a hidden test in a process of its own with another seed; return what it noted.
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
