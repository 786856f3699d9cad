// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of a stack's name behind the colon: its fixes, and options that tune it. For example
//! `lwip:without-least-mss`, `lwip:ooseq=0+buffers=256KiB`.

use std::error::Error;

use swapstone_net::Limits;
use swapstone_net::fixes::{Fix, Fixes};

use crate::options::Options;

/// The size of the receive and of the send buffer of each TCP socket.
pub const BUFFERS: &str = "buffers";
/// The number of TCP sockets, of a stack that can set it when it is created.
pub const POOLS: &str = "pools";
const UNIT: &str = "KiB";

/// What can be selected of a stack.
pub struct Tunable {
    pub fixes: &'static [Fix],
    /// The options that were set when the stack was compiled, with the values in force.
    pub compiled: Vec<(&'static str, u64)>,
    /// The options that are set when the stack is created: [`BUFFERS`], [`POOLS`].
    pub at_start: &'static [&'static str],
}

/// What the name of a stack selects.
#[derive(Debug)]
pub struct Tuning {
    pub fixes: Fixes,
    buffers_kib: Option<u64>,
    sockets: Option<u64>,
}

impl Tuning {
    /// Parses the name of a stack.
    ///
    /// # Errors
    ///
    /// A part is unknown, or this build has another value of an option that is compiled in.
    pub fn parse(name: &str, stack: &Tunable) -> Result<Self, Box<dyn Error>> {
        let (of, rest) = name.split_once(':').unwrap_or((name, ""));
        let parts = || rest.split('+').filter(|part| !part.is_empty());
        let mut fixes = parts().filter(|part| !part.contains('='));
        let text = fixes.next().unwrap_or("");
        let parsed = Fixes::parse(stack.fixes, text).filter(|_| fixes.next().is_none());
        let mut tuning = Self {
            fixes: parsed.ok_or_else(|| unknown_fix(of, rest, stack.fixes))?,
            buffers_kib: None,
            sockets: None,
        };
        for (option, text) in parts().filter_map(|part| part.split_once('=')) {
            tuning.set(of, option, text, stack)?;
        }
        Ok(tuning)
    }

    fn set(
        &mut self,
        of: &str,
        option: &str,
        text: &str,
        stack: &Tunable,
    ) -> Result<(), Box<dyn Error>> {
        let compiled = stack.compiled.iter().find(|(name, _)| *name == option);
        if compiled.is_none() && !stack.at_start.contains(&option) {
            let known = stack.compiled.iter().map(|(name, _)| *name);
            let known: Vec<_> = known.chain(stack.at_start.iter().copied()).collect();
            return Err(format!("{of} has no option {option}; it has {}", known.join(", ")).into());
        }
        let number = if option == BUFFERS {
            text.strip_suffix(UNIT).unwrap_or("")
        } else {
            text
        };
        let value: u64 = number
            .parse()
            .map_err(|_| format!("{option} of {of} can't be {text:?}"))?;
        match (compiled, option) {
            (Some((_, there)), _) if *there != value => Err(format!(
                "this build of {of} has {option}={there}, and not {value}: the option is set when {of} is compiled"
            )
            .into()),
            (Some(_), _) => Ok(()),
            (None, BUFFERS) => {
                self.buffers_kib = Some(value);
                Ok(())
            }
            (None, _) => {
                self.sockets = Some(value);
                Ok(())
            }
        }
    }

    /// Sets the limits of the stack.
    pub fn apply(&self, options: &mut Options) {
        if let Some(buffers) = self.buffers_kib {
            options.limits.receive_buffer = buffers as usize * 1024;
            options.limits.send_buffer = buffers as usize * 1024;
        }
        if let Some(sockets) = self.sockets {
            options.limits.tcp_sockets = sockets as usize;
            options.backlog = options.backlog.min(sockets as usize);
        }
    }

    /// Returns the options in force as `NAME=VALUE`: those that were compiled in, and of a running
    /// stack those that the name sets. `limits` are the stack's own.
    pub fn in_force(&self, stack: &Tunable, limits: &Limits) -> Vec<String> {
        let compiled = stack.compiled.iter();
        let mut found: Vec<_> = compiled
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if self.sockets.is_some() {
            found.push(format!("{POOLS}={}", limits.tcp_sockets));
        }
        if self.buffers_kib.is_some() {
            let (receive, send) = (limits.receive_buffer, limits.send_buffer);
            found.push(if receive == send {
                format!("{BUFFERS}={}{UNIT}", receive / 1024)
            } else {
                format!("{BUFFERS}={receive}/{send}")
            });
        }
        found
    }
}

fn unknown_fix(of: &str, text: &str, table: &[Fix]) -> String {
    let known: Vec<_> = table.iter().map(|fix| fix.name).collect();
    format!(
        "{of} has no fixes {text:?}: write {of}, {of}:shipped, or {of}:without-FIX; FIX is {}",
        known.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXES: &[Fix] = &[Fix {
        name: "one",
        reason: "none",
    }];

    fn stack() -> Tunable {
        Tunable {
            fixes: FIXES,
            compiled: vec![("ooseq", 1), ("oversize", 1460)],
            at_start: &[BUFFERS, POOLS],
        }
    }

    fn error_of(name: &str) -> String {
        Tuning::parse(name, &stack()).unwrap_err().to_string()
    }

    #[test]
    fn options_are_applied_and_reported_from_the_stack() {
        let tuning = Tuning::parse("x:shipped+ooseq=1+pools=32+buffers=256KiB", &stack()).unwrap();
        assert_eq!(tuning.fixes.names().count(), 0);
        let mut options = Options::default();
        tuning.apply(&mut options);
        assert_eq!(options.limits.receive_buffer, 256 << 10);
        assert_eq!(options.limits.send_buffer, 256 << 10);
        assert_eq!((options.limits.tcp_sockets, options.backlog), (32, 32));
        let expected = ["ooseq=1", "oversize=1460", "pools=32", "buffers=256KiB"];
        assert_eq!(tuning.in_force(&stack(), &options.limits), expected);
        // A stack that ignores the limits does not report them.
        let expected = ["ooseq=1", "oversize=1460", "pools=1024", "buffers=64KiB"];
        assert_eq!(tuning.in_force(&stack(), &Limits::default()), expected);
    }

    #[test]
    fn a_name_without_options_changes_nothing() {
        let tuning = Tuning::parse("x", &stack()).unwrap();
        let mut options = Options::default();
        tuning.apply(&mut options);
        assert_eq!(options.limits, Limits::default());
        assert_eq!(options.backlog, Options::default().backlog);
        assert_eq!(tuning.fixes.names().count(), 1);
        let expected = ["ooseq=1", "oversize=1460"];
        assert_eq!(tuning.in_force(&stack(), &options.limits), expected);
        let without = Tuning::parse("x:without-one", &stack()).unwrap();
        assert_eq!(without.fixes.names().count(), 0);
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(
            error_of("x:window=1"),
            "x has no option window; it has ooseq, oversize, buffers, pools"
        );
        assert_eq!(
            error_of("x:ooseq=0"),
            "this build of x has ooseq=1, and not 0: the option is set when x is compiled"
        );
        assert_eq!(error_of("x:buffers=64"), "buffers of x can't be \"64\"");
        assert_eq!(error_of("x:pools=many"), "pools of x can't be \"many\"");
        assert_eq!(
            error_of("x:without-two"),
            "x has no fixes \"without-two\": write x, x:shipped, or x:without-FIX; FIX is one"
        );
        assert!(error_of("x:shipped+without-one").contains("has no fixes"));
    }
}
