//! How much an allocator may take, where its own options name a limit.

use serde::{Deserialize, Deserializer, de};

use crate::space::{BlockId, SegmentId, Space};
use crate::units::parse_bytes;

/// A limit among the options of an allocator: `"capacity"`, `"none"` or a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Limit {
    /// What the run may use.
    #[default]
    Capacity,
    /// None of its own: the driver refuses.
    None,
    /// So many bytes.
    Bytes(u64),
}

impl Limit {
    /// The limit in bytes; `None` where there is none.
    #[must_use]
    pub fn bytes(self, space: &Space) -> Option<u64> {
        match self {
            Limit::Capacity => Some(space.capacity_bytes()),
            Limit::None => None,
            Limit::Bytes(bytes) => Some(bytes),
        }
    }
}

/// Bytes that the driver would give once the segments that these blocks begin were given
/// back.
pub(super) fn room_after_bytes(gone: &[BlockId], space: &Space) -> u64 {
    let leaves = |segment: SegmentId| gone.iter().any(|block| space.segment(*block) == segment);
    let mapped = |segment: &SegmentId| space.segment_page(*segment).is_none();
    let mut all: Vec<SegmentId> = space.segments().filter(mapped).collect();
    all.sort_unstable_by_key(|segment| space.segment_base(*segment));
    let before = touched_bytes(all.iter(), space);
    let after = touched_bytes(all.iter().filter(|segment| !leaves(**segment)), space);
    let (mut reserved, mut backed) = (0, 0);
    for block in gone {
        let segment = space.segment(*block);
        if mapped(&segment) {
            reserved += space.segment_bytes(segment);
        } else {
            backed += space.bytes(*block);
        }
    }
    let counters = space.counters();
    let card = space.device().total_bytes + (before - after) + backed;
    let capacity = space.capacity_bytes().saturating_add(reserved + backed);
    card.saturating_sub(counters.page_bytes)
        .min(capacity.saturating_sub(counters.reserved_bytes))
}

/// Bytes of the pages that these segments touch, which come by rising address.
fn touched_bytes<'a>(segments: impl Iterator<Item = &'a SegmentId>, space: &Space) -> u64 {
    let page = space.device().page_bytes;
    let (mut pages, mut next) = (0, 0);
    for segment in segments {
        let base = space.segment_base(*segment);
        let first = (base / page).max(next);
        next = (base + space.segment_bytes(*segment)).div_ceil(page);
        pages += next - first;
    }
    pages * page
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Number(u64),
            Text(String),
        }
        match Given::deserialize(from)? {
            Given::Number(bytes) => Ok(Limit::Bytes(bytes)),
            Given::Text(text) if text == "capacity" => Ok(Limit::Capacity),
            Given::Text(text) if text == "none" => Ok(Limit::None),
            Given::Text(text) => parse_bytes(&text).map(Limit::Bytes).map_err(|error| {
                de::Error::custom(format!("{error}; or give \"capacity\" or \"none\""))
            }),
        }
    }
}
