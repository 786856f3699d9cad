// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output that Swapstone reads: docs/wire.md, section 4.

use std::fmt::Write;

/// The name of an observation and the words that describe it.
pub type Fact = (String, String);

/// The name of a figure and its value; `None` if it could not be measured.
pub type Figure = (&'static str, Option<f64>);

/// The complete output: observations and figures.
pub fn encode(name: &str, seen: &[Fact], figures: &[Figure]) -> String {
    let mut text = format!("swapstone-figures 1\nname {name}\n");
    for (what, how) in seen {
        let _ = writeln!(text, "seen {what} {how}");
    }
    for (figure, value) in figures {
        let _ = match value {
            Some(value) => writeln!(text, "figure {figure} {value:.3}"),
            None => writeln!(text, "figure {figure} -"),
        };
    }
    let lines = text.lines().count();
    let _ = write!(text, "end {lines}");
    let sum = crc32(text.as_bytes());
    let _ = writeln!(text, " {sum:08x}");
    text
}

/// The CRC-32 of ISO 3309, as in zlib.
fn crc32(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 {
                (sum >> 1) ^ 0xedb8_8320
            } else {
                sum >> 1
            };
        }
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn lines_are_counted_and_summed() {
        let text = encode(
            "work",
            &[("tap".into(), "tap0".into())],
            &[("rate", Some(1.5)), ("lost", None)],
        );
        let (before, sum) = text.trim_end().rsplit_once(' ').unwrap();
        assert_eq!(
            before,
            "swapstone-figures 1\nname work\nseen tap tap0\nfigure rate 1.500\nfigure lost -\nend 5"
        );
        assert_eq!(sum, format!("{:08x}", crc32(before.as_bytes())));
    }
}
