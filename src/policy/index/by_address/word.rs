//! What the columns of a node hold, and how it is compared without branches.

/// What a column holds.
pub(super) trait Cell: Copy {
    /// One of two, by a mask of all bits or none.
    fn choose(mask: i32, this: Self, that: Self) -> Self;
}

impl Cell for u32 {
    #[inline(always)]
    fn choose(mask: i32, this: Self, that: Self) -> Self {
        this & mask as u32 | that & !mask as u32
    }
}

impl Cell for i32 {
    #[inline(always)]
    fn choose(mask: i32, this: Self, that: Self) -> Self {
        this & mask | that & !mask
    }
}

impl Cell for u64 {
    #[inline(always)]
    fn choose(mask: i32, this: Self, that: Self) -> Self {
        let mask = i64::from(mask) as u64;
        this & mask | that & !mask
    }
}

/// What addresses and sizes are counted in.
pub(super) trait Word: Cell + Ord {
    /// No size: not above any. It is no key.
    const LEAST: Self;
    /// The greatest word, which fills the unused end of the keys. It may also be a key of its own.
    const GREATEST: Self;

    /// The word before this one, which is not the least.
    fn before(self) -> Self;

    /// All bits if this is below `other`, none if it is not.
    fn below(self, other: Self) -> i32;
}

/// Keys and sizes are not negative, so that no difference overflows and its sign tells the order.
impl Word for i32 {
    const LEAST: Self = -1;
    const GREATEST: Self = i32::MAX;

    #[inline(always)]
    fn before(self) -> Self {
        self - 1
    }

    #[inline(always)]
    fn below(self, other: Self) -> i32 {
        self.wrapping_sub(other) >> 31
    }
}

impl Word for u64 {
    const LEAST: Self = u64::MIN;
    const GREATEST: Self = u64::MAX;

    #[inline(always)]
    fn before(self) -> Self {
        self - 1
    }

    #[inline(always)]
    fn below(self, other: Self) -> i32 {
        -i32::from(self < other)
    }
}
