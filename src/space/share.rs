//! A share of the capacity: for several policies that live side by side in one Space.

use super::Space;

/// What one of several policies may reserve, and what it has reserved so far. The owner
/// of the policies keeps it and hands it to [`Space::within`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    capacity_bytes: u64,
    reserved_bytes: u64,
    claimed: bool,
}

impl Share {
    /// A share of `capacity_bytes`, of which nothing is reserved yet.
    #[must_use]
    pub fn new(capacity_bytes: u64) -> Self {
        Share {
            capacity_bytes,
            reserved_bytes: 0,
            claimed: false,
        }
    }
}

impl Space {
    /// Bytes reserved within the share that the Space is narrowed to; all of them where it
    /// is not.
    #[must_use]
    pub fn own_reserved_bytes(&self) -> u64 {
        self.counters.reserved_bytes - self.elsewhere_bytes
    }

    /// Does `work` with the Space narrowed to `share`: its capacity and its room are
    /// those of the share until `work` returns. Shares may be nested.
    pub fn within<T>(&mut self, share: &mut Share, work: impl FnOnce(&mut Space) -> T) -> T {
        let outer = (
            self.capacity_bytes,
            self.elsewhere_bytes,
            self.capacity_claimed,
        );
        self.capacity_bytes = share.capacity_bytes;
        self.elsewhere_bytes = self.counters.reserved_bytes - share.reserved_bytes;
        self.capacity_claimed = share.claimed;
        let answer = work(self);
        share.reserved_bytes = self.counters.reserved_bytes - self.elsewhere_bytes;
        share.claimed = self.capacity_claimed;
        (
            self.capacity_bytes,
            self.elsewhere_bytes,
            self.capacity_claimed,
        ) = outer;
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::super::SpaceConfig;
    use super::*;

    #[test]
    fn a_share_bounds_what_is_mapped_within_it() {
        let mut space = Space::new(SpaceConfig::bare(4096));
        let (mut one, mut two) = (Share::new(1024), Share::new(3072));
        let first = space.within(&mut one, |space| {
            assert_eq!((space.capacity_bytes(), space.room_bytes()), (1024, 1024));
            assert!(space.map(1025).is_err());
            space.map(1000).expect("within the share")
        });
        space.within(&mut two, |space| {
            assert_eq!((space.capacity_bytes(), space.room_bytes()), (3072, 3072));
            space.map(3072).expect("all of the share");
        });
        assert_eq!((space.capacity_bytes(), space.room_bytes()), (4096, 24));
        space.within(&mut one, |space| {
            assert_eq!(space.room_bytes(), 24);
            space.unmap(first);
            assert_eq!(space.room_bytes(), 1024);
        });
    }
}
