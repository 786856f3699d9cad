// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stacks of this build.

use std::error::Error;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use swapstone_net::{Net, Platform, Stack};
use swapstone_net_kernel::{Buffers, Kernel};

use crate::options::Options;
#[cfg(feature = "smoltcp")]
use crate::tuning::POOLS;
#[cfg(any(feature = "lwip", feature = "smoltcp"))]
use crate::tuning::{BUFFERS, Tunable};
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
            let tunable = Tunable {
                fixes: swapstone_net_lwip::FIXES,
                compiled: swapstone_net_lwip::options().into(),
                at_start: &[BUFFERS],
            };
            let (tuning, options) = wired::tuned(name, &tunable, options)?;
            let (tap, platform) = wired::device(&options)?;
            let config = wired::config(&options)?;
            let stack = swapstone_net_lwip::Lwip::with_fixes(tap, &config, tuning.fixes)?;
            over(
                stack,
                platform,
                |stack| {
                    let in_force = tuning.in_force(&tunable, &stack.limits());
                    wired::report(stack.device().counters(), tuning.fixes, in_force)
                },
                &options,
                stop,
            )
        }
        #[cfg(feature = "smoltcp")]
        name if name.split(':').next() == Some("smoltcp") => {
            let tunable = Tunable {
                fixes: swapstone_net_smoltcp::FIXES,
                compiled: swapstone_net_smoltcp::options().into(),
                at_start: &[POOLS, BUFFERS],
            };
            let (tuning, options) = wired::tuned(name, &tunable, options)?;
            let (tap, platform) = wired::device(&options)?;
            let config = wired::config(&options)?;
            let stack = swapstone_net_smoltcp::Smoltcp::with_fixes(tap, &config, tuning.fixes)?;
            over(
                stack,
                platform,
                |stack| {
                    let in_force = tuning.in_force(&tunable, &stack.limits());
                    wired::report(stack.device().counters(), stack.fixes(), in_force)
                },
                &options,
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
    if options.warm_up > 0 {
        warm_up(&net, options, stop)?;
    }
    let mut app = roles::make(&net, options)?;
    let start = report::begin(options)?;
    app::run(&net, app.as_mut(), options.time, stop);
    let end = report::stop()?;
    let outcome = app.outcome();
    let (counters, device) = net.with(|stack| {
        let counters = (stack.capabilities(), stack.statistics());
        (counters, device(stack))
    });
    report::end(options, (&start, &end), &outcome, counters, device)?;
    match options.connect {
        Some(peer) if options.hold => app::hold(&net, peer, stop),
        _ => Ok(()),
    }
}

/// Makes the first requests, which are not measured: with them the stack resolves the peer's
/// address and allocates what it keeps.
fn warm_up<S: Stack>(
    net: &Net<S>,
    options: &Options,
    stop: &AtomicBool,
) -> Result<(), Box<dyn Error>> {
    let options = Options {
        requests: Some(options.warm_up),
        ..options.clone()
    };
    let mut app = roles::make(net, &options)?;
    app::run(net, app.as_mut(), options.time, stop);
    let outcome = app.outcome();
    match outcome.first_failure {
        Some(why) => Err(format!("before the measured interval: {why}").into()),
        None => Ok(()),
    }
}

/// Common parts of stacks that need a device.
#[cfg(any(feature = "lwip", feature = "smoltcp"))]
mod wired {
    use std::error::Error;
    use std::io::Read;

    use serde_json::{Value, json};
    use swapstone_net::Config;
    use swapstone_net::fixes::Fixes;
    use swapstone_net_tap::{Counters, Settings, Tap, TapPlatform};

    use crate::options::Options;
    use crate::tuning::{Tunable, Tuning};

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

    /// Returns what the name of a stack selects, and the options with that applied.
    pub fn tuned(
        name: &str,
        stack: &Tunable,
        options: &Options,
    ) -> Result<(Tuning, Options), Box<dyn Error>> {
        let tuning = Tuning::parse(name, stack)?;
        let mut options = options.clone();
        tuning.apply(&mut options);
        Ok((tuning, options))
    }

    /// The counters of the device, the fixes that are on in the stack, and its options in force.
    pub fn report(counters: Counters, fixes: Fixes, options: Vec<String>) -> Value {
        let mut device = counted(counters);
        device["fixes"] = fixes.names().collect();
        device["options"] = options.into();
        device
    }

    fn counted(counters: Counters) -> Value {
        json!({"dropped_in": counters.dropped_in, "refused_out": counters.refused_out})
    }
}
