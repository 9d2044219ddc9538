//! The pattern of a block: a word of 32 bits for each four bytes, made from the seed and
//! the word's number, so that a block that is shifted, cut or overwritten shows it.
//!
//! The kernels in `gpu/kernels.ptx` compute the same; a test on the card compares them.

/// What the pattern of an allocation is made from: its event's number, scrambled (the
/// finaliser of SplitMix64, Steele and others 2014) so that neighbours share no bits.
#[must_use]
pub fn seed(event: u64) -> u64 {
    let mut mixed = event.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The word with that number.
#[must_use]
pub fn word(seed: u64, index: u32) -> u32 {
    let (low, high) = (seed as u32, (seed >> 32) as u32);
    let mut mixed = (index ^ low).wrapping_mul(0x9e37_79b1);
    mixed ^= mixed >> 16;
    mixed = mixed.wrapping_add(high).wrapping_mul(0x85eb_ca77);
    mixed ^ (mixed >> 13)
}

/// The byte at that offset of the block; words are little-endian.
#[must_use]
pub fn byte(seed: u64, offset: u64) -> u8 {
    let word = word(seed, (offset / 4) as u32);
    (word >> (8 * (offset % 4))) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_of_one_block_is_not_that_of_another_nor_of_itself_shifted() {
        let bytes = |event: u64, from: u64| -> Vec<u8> {
            (from..from + 256).map(|at| byte(seed(event), at)).collect()
        };
        let differ = |a: &[u8], b: &[u8]| a.iter().zip(b).filter(|(a, b)| a != b).count();
        // By chance one byte in 256 is equal.
        assert!(differ(&bytes(1, 0), &bytes(2, 0)) > 240);
        assert!(differ(&bytes(1, 0), &bytes(1, 1)) > 240);
        assert!(differ(&bytes(1, 0), &bytes(1, 256)) > 240);
    }

    #[test]
    fn a_word_is_made_of_its_bytes() {
        let seed = seed(7);
        let bytes = [8, 9, 10, 11].map(|at| byte(seed, at));
        assert_eq!(u32::from_le_bytes(bytes), word(seed, 2));
    }
}
