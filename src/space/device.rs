//! A card: its size, its page, and what the calls of its driver cost.
//!
//! The tables are measured (`experiments/devices/NAME.toml`). Between two measured
//! sizes a cost is interpolated on a straight line; below the first it is the first,
//! and beyond the last it grows in proportion to the size.

use serde::Deserialize;

use crate::units::{ADDRESS_LIMIT, serde_bytes};

/// A measured cost: pairs of bytes and nanoseconds, by rising bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct Curve(Vec<(u64, u64)>);

impl Curve {
    /// The cost of `bytes`, ns; 0 for an empty table.
    #[must_use]
    pub fn at(&self, bytes: u64) -> u64 {
        let Some(&(last_bytes, last_ns)) = self.0.last() else {
            return 0;
        };
        if bytes >= last_bytes {
            let scaled = u128::from(last_ns) * u128::from(bytes) / u128::from(last_bytes.max(1));
            return u64::try_from(scaled).unwrap_or(u64::MAX);
        }
        let above = self.0.partition_point(|(size, _)| *size <= bytes);
        if above == 0 {
            return self.0[0].1;
        }
        let ((x0, y0), (x1, y1)) = (self.0[above - 1], self.0[above]);
        let part = i128::from(bytes - x0) * (i128::from(y1) - i128::from(y0)) / i128::from(x1 - x0);
        (i128::from(y0) + part) as u64
    }

    fn rises(&self) -> bool {
        self.0.windows(2).all(|pair| pair[0].0 < pair[1].0)
    }
}

/// The most memory of a card: 256 PiB, of which reservations of several times its size
/// still find addresses.
pub const MOST_CARD_BYTES: u64 = ADDRESS_LIMIT / 8;

/// A card and the costs of its driver.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Short name, as `--card` takes it.
    pub name: String,
    /// One line for people: model, driver, date of the measurement.
    pub about: String,
    /// All of its memory, in bytes.
    #[serde(with = "serde_bytes")]
    pub total_bytes: u64,
    /// The physical page, in bytes: what a mapping takes is rounded up to it.
    #[serde(with = "serde_bytes")]
    pub page_bytes: u64,
    /// Waiting for the whole device, ns.
    pub sync_ns: u64,
    /// cudaMalloc.
    pub malloc: Curve,
    /// cudaFree.
    pub free: Curve,
    /// cuMemAddressReserve, and as much again for the free of the range.
    pub reserve: Curve,
    /// cuMemCreate, cuMemMap and cuMemSetAccess together.
    pub back: Curve,
    /// cuMemUnmap and cuMemRelease together.
    pub unback: Curve,
    /// A copy inside the device, as the host waits for it.
    pub copy: Curve,
    /// cuMemMap alone; a call for every page that is stitched.
    #[serde(default)]
    pub map: Curve,
    /// cuMemSetAccess alone.
    #[serde(default)]
    pub access: Curve,
    /// cuMemUnmap alone.
    #[serde(default)]
    pub unmap: Curve,
    /// A copy between the card and its host; as `copy` where it was not measured.
    #[serde(default)]
    pub host_copy: Curve,
}

/// A device file that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The TOML does not fit.
    #[error("device: {0}")]
    Toml(#[from] toml::de::Error),
    /// A table whose sizes do not rise.
    #[error("device '{0}': the sizes of table '{1}' must rise from row to row")]
    Curve(String, &'static str),
    /// A page of no bytes.
    #[error("device '{0}': page_bytes must be at least 1")]
    Page(String),
    /// More memory than addresses are left for.
    #[error("device '{0}': a card of {bytes} bytes is more than the most, {MOST_CARD_BYTES} bytes", bytes = .1)]
    Large(String, u64),
}

impl Device {
    /// The memory that can be mapped, in bytes. The driver maps whole pages: a part of a
    /// page at the end of a card is no use.
    #[must_use]
    pub fn usable_bytes(&self) -> u64 {
        self.total_bytes / self.page_bytes * self.page_bytes
    }

    /// A card with pages of one byte and calls that cost nothing.
    #[must_use]
    pub fn bare(total_bytes: u64) -> Self {
        Device {
            name: "bare".into(),
            about: "pages of one byte, calls that cost nothing".into(),
            total_bytes,
            page_bytes: 1,
            sync_ns: 0,
            malloc: Curve::default(),
            free: Curve::default(),
            reserve: Curve::default(),
            back: Curve::default(),
            unback: Curve::default(),
            copy: Curve::default(),
            map: Curve::default(),
            access: Curve::default(),
            unmap: Curve::default(),
            host_copy: Curve::default(),
        }
    }

    /// Reads a device from TOML.
    ///
    /// # Errors
    /// [`DeviceError`] with the place in the text.
    pub fn from_toml(text: &str) -> Result<Self, DeviceError> {
        let device: Device = toml::from_str(text)?;
        let curves = [
            ("malloc", &device.malloc),
            ("free", &device.free),
            ("reserve", &device.reserve),
            ("back", &device.back),
            ("unback", &device.unback),
            ("copy", &device.copy),
            ("map", &device.map),
            ("access", &device.access),
            ("unmap", &device.unmap),
            ("host_copy", &device.host_copy),
        ];
        if let Some((name, _)) = curves.iter().find(|(_, curve)| !curve.rises()) {
            return Err(DeviceError::Curve(device.name, name));
        }
        if device.page_bytes == 0 {
            return Err(DeviceError::Page(device.name));
        }
        let total_bytes = device.total_bytes;
        device.sized(total_bytes)
    }

    /// The card with this much memory.
    ///
    /// # Errors
    /// [`DeviceError::Large`] above [`MOST_CARD_BYTES`].
    pub fn sized(mut self, total_bytes: u64) -> Result<Self, DeviceError> {
        if total_bytes > MOST_CARD_BYTES {
            return Err(DeviceError::Large(self.name, total_bytes));
        }
        self.total_bytes = total_bytes;
        Ok(self)
    }

    /// cudaMalloc of `bytes`, ns.
    #[must_use]
    pub fn malloc_ns(&self, bytes: u64) -> u64 {
        self.malloc.at(bytes)
    }

    /// cudaFree of `bytes`, ns.
    #[must_use]
    pub fn free_ns(&self, bytes: u64) -> u64 {
        self.free.at(bytes)
    }

    /// Reserving a range, ns.
    #[must_use]
    pub fn reserve_ns(&self, bytes: u64) -> u64 {
        self.reserve.at(bytes)
    }

    /// Creating, mapping and opening pages of `page_bytes`, ns. Each is a handle of its
    /// own, as it can be taken away alone, and costs as much as alone: the driver opens
    /// and unmaps page by page even where one call names them all.
    #[must_use]
    pub fn back_ns(&self, bytes: u64, page_bytes: u64) -> u64 {
        pages(bytes, page_bytes).saturating_mul(self.back.at(page_bytes))
    }

    /// Unmapping and releasing pages of `page_bytes`, ns.
    #[must_use]
    pub fn unback_ns(&self, bytes: u64, page_bytes: u64) -> u64 {
        pages(bytes, page_bytes).saturating_mul(self.unback.at(page_bytes))
    }

    /// Mapping pages a second time, ns.
    #[must_use]
    pub fn map_ns(&self, bytes: u64, page_bytes: u64) -> u64 {
        pages(bytes, page_bytes).saturating_mul(self.map.at(page_bytes))
    }

    /// Opening pages that were mapped a second time, ns.
    #[must_use]
    pub fn access_ns(&self, bytes: u64, page_bytes: u64) -> u64 {
        pages(bytes, page_bytes).saturating_mul(self.access.at(page_bytes))
    }

    /// Unmapping a second mapping of pages, ns.
    #[must_use]
    pub fn unmap_ns(&self, bytes: u64, page_bytes: u64) -> u64 {
        pages(bytes, page_bytes).saturating_mul(self.unmap.at(page_bytes))
    }

    /// Copying `bytes` to the host or back, ns.
    #[must_use]
    pub fn host_copy_ns(&self, bytes: u64) -> u64 {
        if self.host_copy.0.is_empty() {
            return self.copy.at(bytes);
        }
        self.host_copy.at(bytes)
    }

    /// Moving `bytes` by `distance`, ns. A move shorter than the block overlaps itself:
    /// it is done in two copies through a staging buffer.
    #[must_use]
    pub fn move_ns(&self, bytes: u64, distance: u64) -> u64 {
        let once = self.copy.at(bytes);
        if distance < bytes { 2 * once } else { once }
    }
}
/// How many pages `bytes` are, the last one whole; a page of no bytes counts as one byte.
fn pages(bytes: u64, page_bytes: u64) -> u64 {
    bytes.div_ceil(page_bytes.max(1))
}
