//! How much an allocator may take, where its own options name a limit.

use serde::{Deserialize, Deserializer, de};

use crate::space::{BlockId, Space};
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
    let page = space.device().page_bytes;
    let (mut reserved, mut pages) = (0, 0);
    for block in gone {
        let bytes = space.segment_bytes(space.segment(*block));
        reserved += bytes;
        // What is smaller than a page may share it with others.
        if bytes >= page {
            pages += bytes.next_multiple_of(page);
        }
    }
    let counters = space.counters();
    let card = space.device().total_bytes + pages;
    let card = card.saturating_sub(counters.page_bytes);
    let capacity = space.capacity_bytes().saturating_add(reserved);
    card.min(capacity.saturating_sub(counters.reserved_bytes))
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
