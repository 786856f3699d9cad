//! The stacks that this build has.

use std::error::Error;
use std::sync::atomic::AtomicBool;

use netstack::{Net, Platform, Stack};
use netstack_kernel::{Buffers, Kernel};
use serde_json::Value;

use crate::options::Options;
use crate::{app, report, roles};

/// Make the stack that was asked for, and run the role over it.
pub fn run(options: &Options, stop: &AtomicBool) -> Result<(), Box<dyn Error>> {
    match options.stack.as_str() {
        "kernel" => {
            let buffers = if options.fixed_buffers {
                Buffers::Limits
            } else {
                Buffers::Kernels
            };
            let (kernel, platform) = Kernel::new(options.limits, buffers)?;
            over(kernel, platform, Value::Null, options, stop)
        }
        other => Err(format!("unavailable: this build has no stack {other}").into()),
    }
}

fn over<S: Stack>(
    stack: S,
    platform: impl Platform + 'static,
    device: Value,
    options: &Options,
    stop: &AtomicBool,
) -> Result<(), Box<dyn Error>> {
    let net = Net::new(stack, platform);
    let mut app = roles::make(&net, options)?;
    let start = report::begin(options)?;
    let outcome = app::run(&net, app.as_mut(), options.time, stop);
    let said = net.with(|stack| (stack.capabilities(), stack.statistics()));
    report::end(options, &start, &outcome, said, device)?;
    Ok(())
}
