// SPDX-License-Identifier: MIT OR Apache-2.0
//! The setting of an emulated link as text: `clean`, or parts such as `loss:1%+delay:10ms`.

use std::time::Duration;

use swapstone_net_link::Path;

/// The setting of a link without impairments.
pub const CLEAN: &str = "clean";
/// How long a reordered frame is held, so that later ones overtake it.
pub const REORDER_BY: Duration = Duration::from_millis(1);

/// In the order of a canonical text.
const SHARES: [&str; 4] = ["loss", "reorder", "duplicate", "corrupt"];
const DELAY: &str = "delay";
const MOST_PPM: u32 = 500_000;
const MOST_DELAY: Duration = Duration::from_secs(1);

/// Parses a setting. Both directions have the same path.
///
/// # Errors
///
/// The text has another form, an unknown or doubled part, or a number that is not possible.
pub fn parse(text: &str) -> Result<Path, String> {
    let mut path = Path {
        reorder_by: REORDER_BY,
        ..Path::default()
    };
    if text == CLEAN {
        return Ok(path);
    }
    let mut before: Vec<&str> = Vec::new();
    for part in text.split('+') {
        let (name, value) = part.split_once(':').ok_or_else(|| {
            format!("the link {text:?} is neither {CLEAN} nor parts such as loss:1%+delay:10ms")
        })?;
        if before.contains(&name) {
            return Err(format!("the link {text:?} has {name} twice"));
        }
        before.push(name);
        if name == DELAY {
            path.delay = delay(value).ok_or_else(|| {
                format!("the delay {value:?} is not above 0ms and at most 1000ms, such as 10ms")
            })?;
        } else {
            *share_of(&mut path, name).ok_or_else(|| {
                format!(
                    "a link has no {name:?}; it has {} and {DELAY}",
                    SHARES.join(", ")
                )
            })? = share(value).ok_or_else(|| {
                format!("the share {value:?} is not above 0% and at most 50%, such as 0.1%")
            })?;
        }
    }
    Ok(path)
}

/// Returns the canonical text of a path.
pub fn text_of(path: &Path) -> String {
    let mut path = *path;
    let mut parts: Vec<String> = Vec::new();
    for name in SHARES {
        let ppm = share_of(&mut path, name).map_or(0, |ppm| *ppm);
        if ppm > 0 {
            parts.push(format!("{name}:{}%", f64::from(ppm) / 1e4));
        }
    }
    if !path.delay.is_zero() {
        parts.push(format!("{DELAY}:{}ms", path.delay.as_micros() as f64 / 1e3));
    }
    if parts.is_empty() {
        return CLEAN.into();
    }
    parts.join("+")
}

fn share_of<'a>(path: &'a mut Path, name: &str) -> Option<&'a mut u32> {
    Some(match name {
        "loss" => &mut path.loss_ppm,
        "reorder" => &mut path.reorder_ppm,
        "duplicate" => &mut path.duplicate_ppm,
        "corrupt" => &mut path.corrupt_ppm,
        _ => return None,
    })
}

/// Returns parts per million of a percentage with at most four decimals.
fn share(text: &str) -> Option<u32> {
    let ppm = u32::try_from(scaled(text.strip_suffix('%')?, 4)?).ok()?;
    (1..=MOST_PPM).contains(&ppm).then_some(ppm)
}

/// Returns a delay of milliseconds with at most three decimals.
fn delay(text: &str) -> Option<Duration> {
    let delay = Duration::from_micros(scaled(text.strip_suffix("ms")?, 3)?);
    (!delay.is_zero() && delay <= MOST_DELAY).then_some(delay)
}

/// Returns a decimal number without sign and exponent, times ten to the power of `decimals`.
fn scaled(text: &str, decimals: usize) -> Option<u64> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(rest) || rest.len() > decimals || whole.len() > 4 {
        return None;
    }
    format!("{whole}{rest:0<decimals$}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_written() {
        for (text, canonical) in [
            ("clean", "clean"),
            ("loss:1%", "loss:1%"),
            ("loss:1.0%", "loss:1%"),
            ("reorder:0.0001%", "reorder:0.0001%"),
            ("delay:10ms+loss:1%", "loss:1%+delay:10ms"),
            (
                "corrupt:0.1%+duplicate:50%+delay:0.5ms",
                "duplicate:50%+corrupt:0.1%+delay:0.5ms",
            ),
        ] {
            assert_eq!(text_of(&parse(text).unwrap()), canonical);
        }
        let path = parse("loss:0.1%+reorder:1%+delay:10ms").unwrap();
        assert_eq!((path.loss_ppm, path.reorder_ppm), (1000, 10_000));
        assert_eq!(
            (path.delay, path.reorder_by),
            (Duration::from_millis(10), REORDER_BY)
        );
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        for (text, part) in [
            ("", "neither clean nor parts"),
            ("loss", "neither clean nor parts"),
            ("clean+loss:1%", "neither clean nor parts"),
            ("loss:1%+loss:2%", "loss twice"),
            ("lose:1%", "a link has no \"lose\"; it has loss, reorder"),
            ("loss:1", "the share \"1\" is not above 0%"),
            ("loss:0%", "not above 0%"),
            ("loss:-1%", "not above 0%"),
            ("loss:51%", "at most 50%"),
            ("loss:1e1%", "not above 0%"),
            ("loss:0.00001%", "not above 0%"),
            ("delay:10", "not above 0ms"),
            ("delay:0ms", "not above 0ms"),
            ("delay:1001ms", "at most 1000ms"),
            ("delay:99999999999999999999ms", "at most 1000ms"),
            ("delay:.5ms", "not above 0ms"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
