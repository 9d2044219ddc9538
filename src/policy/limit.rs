//! How much an allocator may take, where its own options name a limit.

use serde::{Deserialize, Deserializer, de};

use crate::space::Space;
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
