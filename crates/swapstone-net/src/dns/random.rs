// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unpredictable numbers from a seed: SipHash-2-4 (Aumasson and Bernstein, 2012) of a counter.

/// A generator whose output is unpredictable without its seed.
#[derive(Clone, Debug)]
pub(super) struct KeyedRandom {
    key: [u64; 4],
    count: u64,
}

impl KeyedRandom {
    pub(super) fn new(seed: &[u8; 32]) -> Self {
        let mut key = [0; 4];
        for (word, bytes) in key.iter_mut().zip(seed.chunks_exact(8)) {
            *word = bytes
                .iter()
                .fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        Self { key, count: 0 }
    }

    /// Returns the next 64 bits.
    pub(super) fn next(&mut self) -> u64 {
        self.count = self.count.wrapping_add(1);
        let half = siphash(self.key[0], self.key[1], self.count);
        // Mix in the other half of the seed.
        siphash(self.key[2], self.key[3], half)
    }
}

/// SipHash-2-4 of an 8-byte message.
fn siphash(key0: u64, key1: u64, word: u64) -> u64 {
    let mut state = [
        key0 ^ 0x736f_6d65_7073_6575,
        key1 ^ 0x646f_7261_6e64_6f6d,
        key0 ^ 0x6c79_6765_6e65_7261,
        key1 ^ 0x7465_6462_7974_6573,
    ];
    // The last block has the message length, 8, in its highest byte.
    for block in [word, 8 << 56] {
        state[3] ^= block;
        rounds(&mut state, 2);
        state[0] ^= block;
    }
    state[2] ^= 0xff;
    rounds(&mut state, 4);
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

fn rounds(state: &mut [u64; 4], count: usize) {
    let [a, b, c, d] = state;
    for _ in 0..count {
        *a = a.wrapping_add(*b);
        *b = b.rotate_left(13) ^ *a;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*d);
        *d = d.rotate_left(16) ^ *c;
        *a = a.wrapping_add(*d);
        *d = d.rotate_left(21) ^ *a;
        *c = c.wrapping_add(*b);
        *b = b.rotate_left(17) ^ *c;
        *c = c.rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_matches_the_reference_vectors() {
        // vectors_sip64[8]: the key is 00 01 .. 0f, the message 00 01 .. 07.
        let key0 = 0x0706_0504_0302_0100;
        let key1 = 0x0f0e_0d0c_0b0a_0908;
        let expected = u64::from_le_bytes([0x62, 0x24, 0x93, 0x9a, 0x79, 0xf5, 0xf5, 0x93]);
        assert_eq!(siphash(key0, key1, key0), expected);
    }

    #[test]
    fn every_byte_of_the_seed_changes_the_output() {
        let of = |seed: &[u8; 32]| KeyedRandom::new(seed).next();
        let seed = [7; 32];
        for at in 0..32 {
            let mut other = seed;
            other[at] ^= 1;
            assert_ne!(of(&other), of(&seed), "byte {at}");
        }
        let mut numbers = KeyedRandom::new(&seed);
        assert_ne!(numbers.next(), numbers.next());
    }
}
