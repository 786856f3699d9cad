// SPDX-License-Identifier: MIT OR Apache-2.0
//! A digest of a run.

/// A 64-bit digest: each word is mixed in by a multiplication and a rotation. It detects accidental
/// differences, not forgeries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digest(u64);

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl Digest {
    pub(crate) const fn new() -> Self {
        Self(0x5357_4150_5354_4f4e)
    }

    pub(crate) const fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(MULTIPLIER).rotate_left(29);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.word(u64::from_le_bytes(word));
        }
        self.word(bytes.len() as u64);
    }

    /// Returns the digest, after a final mixing step.
    pub(crate) const fn value(self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(MULTIPLIER);
        mixed ^ (mixed >> 29)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> u64 {
        let mut digest = Digest::new();
        digest.bytes(bytes);
        digest.value()
    }

    #[test]
    fn each_bit_and_the_length_count() {
        let bytes = [7_u8; 20];
        let whole = of(&bytes);
        assert_eq!(whole, of(&bytes));
        for place in 0..20 * 8 {
            let mut other = bytes;
            other[place / 8] ^= 1 << (place % 8);
            assert_ne!(of(&other), whole, "bit {place}");
        }
        assert_ne!(of(&[0; 3]), of(&[0; 4]));
        assert_ne!(of(&[]), of(&[0]));
    }
}
