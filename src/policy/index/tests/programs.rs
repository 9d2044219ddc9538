//! Random programs, and where they take place.

use proptest::prelude::*;

/// Bytes from few values (equal sizes), of all magnitudes, or next to a power of two.
pub(super) fn any_bytes() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (1u64..6).prop_map(|step| step * 512),
        4 => (0u32..58, any::<u64>()).prop_map(|(shift, word)| word >> 6 >> shift),
        1 => (0u32..58, 0u64..3).prop_map(|(shift, near)| (1 << shift) + near - 1),
        1 => Just(0),
        1 => (0u64..3).prop_map(|near| u64::MAX - near),
    ]
}

/// Addresses so dense that programs meet them again, and a few at both ends.
pub(super) fn any_address() -> impl Strategy<Value = u64> {
    prop_oneof![
        20 => (0u64..1500).prop_map(|page| page * 16),
        1 => (0u64..4).prop_map(|near| u64::MAX - near),
    ]
}

/// Where a program takes place: what its addresses and bytes, written for 0 and up, stand for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground {
    base: u64,
    pub(super) granule: u64,
    /// Whether all addresses and bytes are multiples of the granule, and none is far away.
    is_tidy: bool,
}

/// Where every number stands for itself.
pub(super) const PLAIN: Ground = Ground {
    base: 0,
    granule: 0,
    is_tidy: false,
};

pub(super) fn any_ground() -> impl Strategy<Value = Ground> {
    let bases = [
        0,
        1 << 40,
        (1 << 63) - (1 << 20),
        (1 << 63) + (1 << 33),
        u64::MAX << 28,
    ];
    let base = prop::sample::select(bases.to_vec());
    let granule = prop::sample::select(vec![1, 16, 256, 4096]);
    let granular = (base, granule, prop::bool::weighted(0.7));
    let granular = granular.prop_map(|(base, granule, is_tidy)| Ground {
        base,
        granule,
        is_tidy,
    });
    prop_oneof![1 => Just(PLAIN), 2 => granular]
}

impl Ground {
    pub(super) fn address(self, address: u64) -> u64 {
        if self.granule == 0 || !self.is_tidy && address > 1 << 32 {
            return address;
        }
        self.base + address % (1 << 20) / 16 * self.granule
    }

    pub(super) fn bytes(self, bytes: u64) -> u64 {
        if self.granule == 0 || !self.is_tidy && bytes % 50 == 7 {
            return bytes;
        }
        (bytes % 4099 + 1) * self.granule
    }
}

/// One step of a program; the index named picks among the entries that are there.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Insert(u64, u64),
    Remove(usize),
    RemoveAny(u64, u64),
    Resize(usize, u64),
    Rekey(usize, u64, u64),
    /// Inserts this many entries of the same bytes, upwards or downwards.
    Run(u64, u64, u64, bool),
    /// Removes this many entries, one after another from there.
    Clear(usize, usize),
}

pub(super) fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (any_bytes(), any_address()).prop_map(|(b, a)| Step::Insert(b, a)),
        6 => any::<usize>().prop_map(Step::Remove),
        1 => (any_bytes(), any_address()).prop_map(|(b, a)| Step::RemoveAny(b, a)),
        3 => (any::<usize>(), any_bytes()).prop_map(|(at, b)| Step::Resize(at, b)),
        3 => (any::<usize>(), any_address(), any_bytes())
            .prop_map(|(at, a, b)| Step::Rekey(at, a, b)),
        1 => (any_bytes(), any_address(), 1u64..300, any::<bool>())
            .prop_map(|(b, a, n, up)| Step::Run(b, a, n, up)),
        1 => (any::<usize>(), 1usize..300).prop_map(|(at, n)| Step::Clear(at, n)),
    ]
}
