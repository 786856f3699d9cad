// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interfaces, addresses and routes by ip(8).

use std::error::Error;
use std::process::{Command, Stdio};

/// The search path of system programs: a trial may have a smaller environment.
pub const SYSTEM_PATH: &str = "/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin";

/// Runs ip(8) with arguments such as `["link", "set", "lo", "up"]`.
///
/// # Errors
///
/// ip(8) is not installed, or ends with a status other than 0; the error has its message.
pub fn ip(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let done = Command::new("ip")
        .args(arguments)
        .env("PATH", SYSTEM_PATH)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("ip can't be started: {error}; Debian's iproute2 has it"))?;
    if done.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&done.stderr);
    Err(format!("ip {}: {}", arguments.join(" "), stderr.trim()).into())
}
