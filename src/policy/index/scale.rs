//! One word for size and address, in the order of both: what a search compares.
//!
//! Sizes and addresses have a common power of two, and few of their bits are used: mostly
//! both fit one `u64`. Where they do not, the word is a `u128`, which holds any two.

use super::Entry;

/// A word that holds a size above an address.
pub(super) trait Word: Copy + Ord {
    /// Bits of the word.
    const BITS: u32;
    /// Stands where no entry is; the index never asks for it to be held.
    const MAX: Self;
    /// Before all others.
    const MIN: Self;

    fn pack(size: u64, address: u64, address_bits: u32) -> Self;

    fn size(self, address_bits: u32) -> u64;

    fn low(self) -> u64;

    /// The difference, modulo the word.
    fn minus(self, other: Self) -> Self;

    /// The word after this one.
    fn next(self) -> Self;

    /// The six bits from `shift` on.
    fn digit(self, shift: u32) -> usize;

    /// The bits above those that [`digit`](Self::digit) gives.
    fn prefix(self, shift: u32) -> Self;

    /// The highest bit in which two different words differ.
    fn highest_difference(self, other: Self) -> u32;
}

/// The words differ in width only.
macro_rules! word {
    ($word:ty) => {
        impl Word for $word {
            const BITS: u32 = <$word>::BITS;
            const MAX: Self = <$word>::MAX;
            const MIN: Self = 0;

            #[inline]
            fn pack(size: u64, address: u64, address_bits: u32) -> Self {
                Self::from(size) << address_bits | Self::from(address)
            }

            #[inline]
            fn size(self, address_bits: u32) -> u64 {
                (self >> address_bits) as u64
            }

            #[inline]
            fn low(self) -> u64 {
                self as u64
            }

            #[inline]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline]
            fn next(self) -> Self {
                self.wrapping_add(1)
            }

            #[inline]
            fn digit(self, shift: u32) -> usize {
                (self >> shift) as usize & 63
            }

            #[inline]
            fn prefix(self, shift: u32) -> Self {
                // Two shifts: one by the whole width is none.
                self >> shift >> 6
            }

            #[inline]
            fn highest_difference(self, other: Self) -> u32 {
                (self ^ other).ilog2()
            }
        }
    };
}

word!(u64);
word!(u128);

/// The lowest `bits` of a `u64`, of which there may be 64.
#[inline]
fn low_bits(bits: u32) -> u64 {
    // Two shifts: one by 64 is none.
    !(u64::MAX << (bits / 2) << (bits - bits / 2))
}

/// How sizes and addresses become words: both in granules of `1 << shift` bytes.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    shift: u32,
    address_bits: u32,
    /// What is below a granule.
    below_granule: u64,
    /// The bits of an address, counted in granules.
    address_mask: u64,
    /// Bits that a size must not have.
    odd_in_size: u64,
    /// Bits that an address must not have.
    odd_in_address: u64,
}

impl Scale {
    /// Holds any size and any address, in a `u128`.
    pub(super) const ANY: Scale = Scale {
        shift: 0,
        address_bits: u64::BITS,
        below_granule: 0,
        address_mask: u64::MAX,
        odd_in_size: 0,
        odd_in_address: 0,
    };

    /// Holds only the block of no bytes at 0.
    pub(super) const NONE: Scale = Scale {
        shift: 32,
        address_bits: 1,
        below_granule: u32::MAX as u64,
        address_mask: 1,
        odd_in_size: u64::MAX,
        odd_in_address: u64::MAX,
    };

    /// A scale for `u64` words that holds what this one was made for and these entries too;
    /// `None` where there is none.
    pub(super) fn widened(self, entries: &[Entry]) -> Option<Scale> {
        let or = |bits: u64, more: u64| bits | more;
        let sizes = entries.iter().map(|entry| entry.bytes).fold(0, or);
        let addresses = entries.iter().map(|entry| entry.address).fold(0, or);
        // Of what was there before, the scale keeps the granule and the highest address.
        let shift = (sizes | addresses).trailing_zeros().min(self.shift);
        let used = |bits: u64| u64::BITS - (bits >> shift).leading_zeros();
        let address_bits = used(addresses).max(self.address_bits + self.shift - shift);
        if used(sizes).max(1) + address_bits > u64::BITS {
            return None;
        }
        // All other bits are for sizes.
        Some(Scale {
            shift,
            address_bits,
            below_granule: low_bits(shift),
            address_mask: low_bits(address_bits),
            odd_in_size: !(low_bits(u64::BITS - address_bits) << shift),
            odd_in_address: !(low_bits(address_bits) << shift),
        })
    }

    /// Whether a word can hold the entry.
    #[inline]
    pub(super) fn holds(&self, bytes: u64, address: u64) -> bool {
        (bytes & self.odd_in_size) | (address & self.odd_in_address) == 0
    }

    /// Size and word of an entry that a word can hold.
    #[inline]
    pub(super) fn word<W: Word>(&self, bytes: u64, address: u64) -> (u64, W) {
        let size = bytes >> self.shift;
        let address = address >> self.shift;
        (size, W::pack(size, address, self.address_bits))
    }

    /// Size and word before all entries of at least so many bytes, which must not be more than
    /// some entry has that a word can hold.
    #[inline]
    pub(super) fn least_of<W: Word>(&self, bytes: u64) -> (u64, W) {
        let size = (bytes + self.below_granule) >> self.shift;
        (size, W::pack(size, 0, self.address_bits))
    }

    /// Size and word before all entries that are not before `(bytes, address)`; `None` where no
    /// word can hold one.
    #[inline]
    pub(super) fn least<W: Word>(&self, bytes: u64, address: u64) -> Option<(u64, W)> {
        let odd = self.below_granule;
        let up = |value: u64| (value >> self.shift) + u64::from(value & odd != 0);
        let (mut size, mut low) = (up(bytes), up(address));
        if bytes & odd != 0 {
            low = 0;
        } else if low > self.address_mask {
            // Every address of the next size is a later one.
            size = size.checked_add(1)?;
            low = 0;
        }
        let size_bits = (W::BITS - self.address_bits).min(u64::BITS);
        (size <= low_bits(size_bits)).then(|| (size, W::pack(size, low, self.address_bits)))
    }

    /// The size in granules.
    #[inline]
    pub(super) fn size<W: Word>(&self, word: W) -> u64 {
        word.size(self.address_bits)
    }

    #[inline]
    pub(super) fn entry<W: Word>(&self, (word, block): (W, u32)) -> Entry {
        Entry {
            address: (word.low() & self.address_mask) << self.shift,
            bytes: word.size(self.address_bits) << self.shift,
            block,
        }
    }
}
