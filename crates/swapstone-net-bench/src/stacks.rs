// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stacks of this build.

use std::error::Error;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use swapstone_net::{Net, Platform, Stack};
use swapstone_net_kernel::{Buffers, Kernel};

use crate::options::Options;
use crate::{app, report, roles};

/// Creates a stack and runs the role over it.
pub fn run(options: &Options, stop: &AtomicBool) -> Result<(), Box<dyn Error>> {
    match options.stack.as_str() {
        "kernel" => {
            let buffers = if options.fixed_buffers {
                Buffers::Limits
            } else {
                Buffers::Automatic
            };
            let (kernel, platform) = Kernel::new(options.limits, buffers)?;
            over(kernel, platform, |_| Value::Null, options, stop)
        }
        #[cfg(feature = "lwip")]
        name if name.split(':').next() == Some("lwip") => {
            let fixes = wired::fixes(name, swapstone_net_lwip::FIXES)?;
            let (tap, platform) = wired::device(options)?;
            let stack = swapstone_net_lwip::Lwip::with_fixes(tap, &wired::config(options)?, fixes)?;
            over(
                stack,
                platform,
                |stack| wired::fixed(stack.device().counters(), fixes),
                options,
                stop,
            )
        }
        #[cfg(feature = "smoltcp")]
        name if name.split(':').next() == Some("smoltcp") => {
            let fixes = wired::fixes(name, swapstone_net_smoltcp::FIXES)?;
            let (tap, platform) = wired::device(options)?;
            let config = wired::config(options)?;
            let stack = swapstone_net_smoltcp::Smoltcp::with_fixes(tap, &config, fixes)?;
            over(
                stack,
                platform,
                |stack| wired::fixed(stack.device().counters(), stack.fixes()),
                options,
                stop,
            )
        }
        other => Err(format!("unavailable: this build has no stack {other}").into()),
    }
}

fn over<S: Stack>(
    stack: S,
    platform: impl Platform + 'static,
    device: impl FnOnce(&mut S) -> Value,
    options: &Options,
    stop: &AtomicBool,
) -> Result<(), Box<dyn Error>> {
    let net = Net::new(stack, platform);
    let mut app = roles::make(&net, options)?;
    let start = report::begin(options)?;
    let outcome = app::run(&net, app.as_mut(), options.time, stop);
    let (counters, device) = net.with(|stack| {
        let counters = (stack.capabilities(), stack.statistics());
        (counters, device(stack))
    });
    report::end(options, &start, &outcome, counters, device)?;
    Ok(())
}

/// Common parts of stacks that need a device.
#[cfg(any(feature = "lwip", feature = "smoltcp"))]
mod wired {
    use std::error::Error;
    use std::io::Read;

    use serde_json::{Value, json};
    use swapstone_net::Config;
    use swapstone_net::fixes::{Fix, Fixes};
    use swapstone_net_tap::{Counters, Settings, Tap, TapPlatform};

    use crate::options::Options;

    /// Opens the TAP.
    pub fn device(options: &Options) -> Result<(Tap, TapPlatform), Box<dyn Error>> {
        let name = options
            .tap
            .as_deref()
            .ok_or("this stack needs a device: --tap and --address")?;
        let tap = Tap::open(&Settings {
            mtu: options.mtu,
            offload: options.offload,
            frames: options.frames,
            ..Settings::new(name)
        })
        .map_err(|error| format!("the TAP {name}: {error}"))?;
        let platform = TapPlatform::new(&tap)?;
        Ok((tap, platform))
    }

    pub fn config(options: &Options) -> Result<Config, Box<dyn Error>> {
        let mut seed = [7; 32];
        if options.random {
            std::fs::File::open("/dev/urandom")?.read_exact(&mut seed)?;
        }
        Ok(Config {
            gateway_v4: options.gateway,
            limits: options.limits,
            ..Config::new(&options.addresses, seed)
        })
    }

    /// Returns the fixes of a stack by its name: `STACK`, `STACK:shipped` or `STACK:without-FIX`.
    pub fn fixes(name: &str, table: &'static [Fix]) -> Result<Fixes, Box<dyn Error>> {
        let (stack, text) = name.split_once(':').unwrap_or((name, ""));
        Fixes::parse(table, text).ok_or_else(|| {
            let known: Vec<_> = table.iter().map(|fix| fix.name).collect();
            format!(
                "{stack} has no fixes {text:?}: write {stack}, {stack}:shipped, or {stack}:without-FIX; FIX is {}",
                known.join(", ")
            )
            .into()
        })
    }

    /// The counters of the device, and the fixes that are on in the stack.
    pub fn fixed(counters: Counters, fixes: Fixes) -> Value {
        let mut device = counted(counters);
        device["fixes"] = fixes.names().collect();
        device
    }

    fn counted(counters: Counters) -> Value {
        json!({"dropped_in": counters.dropped_in, "refused_out": counters.refused_out})
    }
}
