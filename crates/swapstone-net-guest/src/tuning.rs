// SPDX-License-Identifier: MIT OR Apache-2.0
//! The name of a stack with its fixes and options, as `swapstone-net-bench --stack` takes it: for
//! example `lwip:without-least-mss+buffers=256KiB`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use swapstone_net::Limits;
use swapstone_net::fixes::{Fix, Fixes};

const BUFFERS: &str = "buffers";
const POOLS: &str = "pools";
const UNIT: &str = "KiB";

/// What can be selected of a stack.
pub struct Tunable {
    /// The name of the stack.
    pub stack: &'static str,
    /// Its fixes.
    pub fixes: &'static [Fix],
    /// The options that it was compiled with, and their values.
    pub compiled: Vec<(&'static str, u64)>,
    /// The options that are set when it is created: `buffers`, `pools`.
    pub at_start: &'static [&'static str],
}

/// What is selected.
pub struct Tuning {
    pub fixes: Fixes,
    pools: bool,
    buffers: bool,
}

impl Tuning {
    /// Parses the name of a stack, and sets the limits that it selects.
    ///
    /// # Errors
    ///
    /// It names another stack, or a part is unknown or has an impossible value.
    pub fn parse(name: &str, of: &Tunable, limits: &mut Limits) -> Result<Self, String> {
        let (stack, rest) = name.split_once(':').unwrap_or((name, ""));
        if stack != of.stack {
            return Err(format!("this program has {}, not {name:?}", of.stack));
        }
        let parts = || rest.split('+').filter(|part| !part.is_empty());
        let mut names = parts().filter(|part| !part.contains('='));
        let fixes = Fixes::parse(of.fixes, names.next().unwrap_or(""));
        let fixes = fixes.filter(|_| names.next().is_none());
        let mut tuning = Self {
            fixes: fixes.ok_or_else(|| format!("{stack} has no fixes {rest:?}"))?,
            pools: false,
            buffers: false,
        };
        for (option, text) in parts().filter_map(|part| part.split_once('=')) {
            let wrong = || format!("{stack} can't have {option}={text}");
            let number = match option {
                BUFFERS => text.strip_suffix(UNIT).ok_or_else(wrong)?,
                _ => text,
            };
            let value: u64 = number.parse().map_err(|_| wrong())?;
            if of.compiled.contains(&(option, value)) {
                continue;
            }
            if !of.at_start.contains(&option) {
                return Err(wrong());
            }
            let value = usize::try_from(value).map_err(|_| wrong())?;
            if option == BUFFERS {
                tuning.buffers = true;
                limits.receive_buffer = value.checked_mul(1024).ok_or_else(wrong)?;
                limits.send_buffer = limits.receive_buffer;
            } else {
                tuning.pools = true;
                limits.tcp_sockets = value;
            }
        }
        Ok(tuning)
    }

    /// Returns the options in force: those that were compiled in, and those that the name sets, of
    /// the running stack.
    pub fn in_force(&self, of: &Tunable, limits: &Limits) -> Vec<String> {
        let compiled = of.compiled.iter();
        let mut found: Vec<String> = compiled
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if self.pools {
            found.push(format!("{POOLS}={}", limits.tcp_sockets));
        }
        if self.buffers {
            found.push(format!("{BUFFERS}={}{UNIT}", limits.receive_buffer / 1024));
        }
        found
    }
}
