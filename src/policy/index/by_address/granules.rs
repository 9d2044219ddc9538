//! Addresses and sizes in granules, so that 31 bits hold either.

use crate::policy::index::Entry;

/// How entries are written down: a power of two that divides addresses and sizes, and the address that
/// counts as the lowest.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    low: u64,
    shift: u32,
    /// What a granule divides has none of these bits.
    odd: u64,
}

/// Bits of a key.
const BITS: u32 = 31;

/// The greatest key. A size is one granule more than is written down, for there are no empty blocks.
const MOST: u64 = (1 << BITS) - 1;

/// Granules no larger than this, unless the addresses are too far apart: later entries may be finer.
const USUAL_SHIFT: u32 = 8;

impl Scale {
    /// The first 2 GiB, byte by byte.
    pub(super) const BYTES: Scale = Scale {
        low: 0,
        shift: 0,
        odd: 0,
    };

    /// A scale for these entries, with as much room below as above them; `None` where their addresses
    /// are too far apart or too fine.
    pub(super) fn over(entries: &[Entry]) -> Option<Self> {
        let addresses = || entries.iter().map(|entry| entry.address);
        let sizes = || entries.iter().map(|entry| entry.bytes);
        sizes().min()?.checked_sub(1)?;
        let (lowest, highest) = (addresses().min()?, addresses().max()?);
        let common = addresses().chain(sizes()).fold(0, |all, bits| all | bits);
        let greatest = (highest - lowest).max(sizes().max()? - 1);
        let needed = (u64::BITS - greatest.leading_zeros()).saturating_sub(BITS);
        let shift = needed.max(USUAL_SHIFT).min(common.trailing_zeros());
        if shift < needed || shift > 32 {
            return None;
        }
        let room = MOST - ((highest - lowest) >> shift);
        let low = lowest.saturating_sub((room / 2) << shift);
        // Not so high that addresses below `low` come round as addresses above.
        let low = low.min(u64::MAX - ((MOST << shift) | ((1 << shift) - 1)));
        Some(Scale {
            low,
            shift,
            odd: (1 << shift) - 1,
        })
    }

    #[inline(always)]
    fn granules(&self, bytes: u64) -> Option<i32> {
        let granules = bytes >> self.shift;
        (granules <= MOST && bytes & self.odd == 0).then_some(granules as i32)
    }

    /// The keys of two addresses and a size, all at one look; `None` where one cannot be written down.
    #[inline(always)]
    pub(super) fn all(&self, addresses: [u64; 2], bytes: u64) -> Option<([i32; 2], i32)> {
        let one = addresses[0].wrapping_sub(self.low);
        let other = addresses[1].wrapping_sub(self.low);
        let rest = bytes.wrapping_sub(self.odd + 1);
        let bits = one | other | rest;
        let granules = |bytes: u64| (bytes >> self.shift) as i32;
        let fits = bits >> self.shift <= MOST && bits & self.odd == 0;
        fits.then(|| ([granules(one), granules(other)], granules(rest)))
    }

    /// The key of an address; `None` where it has none.
    #[inline(always)]
    pub(super) fn key(&self, address: u64) -> Option<i32> {
        self.granules(address.wrapping_sub(self.low))
    }

    /// A size; `None` where it cannot be written down.
    #[inline(always)]
    pub(super) fn size(&self, bytes: u64) -> Option<i32> {
        self.granules(bytes.wrapping_sub(self.odd + 1))
    }

    /// The greatest key that is not above `address`; `None` where all are.
    #[inline(always)]
    pub(super) fn key_below(&self, address: u64) -> Option<i32> {
        let granules = address.checked_sub(self.low)? >> self.shift;
        Some(granules.min(MOST) as i32)
    }

    /// The least key that is not below `address`; `None` where all are.
    #[inline(always)]
    pub(super) fn key_above(&self, address: u64) -> Option<i32> {
        let bytes = address.saturating_sub(self.low);
        let granules = (bytes >> self.shift) + u64::from(bytes & self.odd != 0);
        (granules <= MOST).then_some(granules as i32)
    }

    /// The least size that holds `bytes`; `None` where none does.
    #[inline(always)]
    pub(super) fn size_above(&self, bytes: u64) -> Option<i32> {
        let granules = bytes.saturating_sub(1) >> self.shift;
        (granules <= MOST).then_some(granules as i32)
    }

    /// The address of a key.
    #[inline(always)]
    pub(super) fn address(&self, key: i32) -> u64 {
        self.low + ((key as u64) << self.shift)
    }

    /// The bytes of a size; 0 where it is none.
    #[inline(always)]
    pub(super) fn bytes(&self, size: i32) -> u64 {
        ((i64::from(size) + 1) as u64) << self.shift
    }
}
