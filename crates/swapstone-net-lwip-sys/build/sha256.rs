//! SHA-256 (FIPS 180-4): the build needs no more of cryptography than this.

/// The digest of `bytes`, as 64 hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let constants = fractions(64, |prime| prime.cbrt());
    let mut state: Vec<u32> = fractions(8, |prime| prime.sqrt());
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - bytes.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let end = padded.len();
    padded[end - 8..].copy_from_slice(&(bytes.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks(64) {
        let mut words: Vec<u32> = block
            .chunks(4)
            .map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
            .collect();
        for at in 16..64 {
            let (early, late) = (words[at - 15], words[at - 2]);
            let first = early.rotate_right(7) ^ early.rotate_right(18) ^ (early >> 3);
            let second = late.rotate_right(17) ^ late.rotate_right(19) ^ (late >> 10);
            words.push(
                words[at - 16]
                    .wrapping_add(first)
                    .wrapping_add(words[at - 7])
                    .wrapping_add(second),
            );
        }
        let mut v = state.clone();
        for at in 0..64 {
            let mixed = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
            let chosen = (v[4] & v[5]) ^ (!v[4] & v[6]);
            let first = v[7]
                .wrapping_add(mixed)
                .wrapping_add(chosen)
                .wrapping_add(constants[at])
                .wrapping_add(words[at]);
            let mixed = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
            let second = mixed.wrapping_add((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
            v.rotate_right(1);
            v[4] = v[4].wrapping_add(first);
            v[0] = first.wrapping_add(second);
        }
        for (old, new) in state.iter_mut().zip(v) {
            *old = old.wrapping_add(new);
        }
    }
    state.iter().map(|word| format!("{word:08x}")).collect()
}

/// The first 32 bits of the fractions of a root of the first primes. (A double has 53 bits, of which at most 5 are before the point.)
fn fractions(count: usize, root: impl Fn(f64) -> f64) -> Vec<u32> {
    (2u32..)
        .filter(|number| (2..*number).all(|divisor| number % divisor != 0))
        .take(count)
        .map(|prime| (root(f64::from(prime)).fract() * 4_294_967_296.0) as u32)
        .collect()
}
