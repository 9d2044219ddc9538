//! How things stood after each of a run of events, in columns.

/// The most events that are carried out in one go: what is noted of them stays in the
/// nearest cache.
pub const RUN: usize = 64;

const _: () = assert!(RUN.is_power_of_two());

/// How things stand after an event that served a request or gave a block back; in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Glance {
    /// Asked for by live blocks.
    pub requested_bytes: u64,
    /// Used blocks.
    pub used_bytes: u64,
    /// Free blocks.
    pub free_bytes: u64,
    /// Largest Free block.
    pub largest_free_bytes: u64,
    /// Mapped from the driver.
    pub reserved_bytes: u64,
    /// What the policy holds of the card.
    pub footprint_bytes: u64,
}

/// Glances, a column for each of their figures: an observer goes through one after the
/// other, several events at a time.
#[derive(Debug, Clone)]
pub struct Glances {
    len: usize,
    requested_bytes: [u64; RUN],
    used_bytes: [u64; RUN],
    free_bytes: [u64; RUN],
    largest_free_bytes: [u64; RUN],
    reserved_bytes: [u64; RUN],
    footprint_bytes: [u64; RUN],
}

impl Default for Glances {
    fn default() -> Self {
        Glances {
            len: 0,
            requested_bytes: [0; RUN],
            used_bytes: [0; RUN],
            free_bytes: [0; RUN],
            largest_free_bytes: [0; RUN],
            reserved_bytes: [0; RUN],
            footprint_bytes: [0; RUN],
        }
    }
}

/// The figures of [`Glances`], each in a slice as long as there are events.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    /// Asked for by live blocks.
    pub requested_bytes: &'a [u64],
    /// Used blocks.
    pub used_bytes: &'a [u64],
    /// Free blocks.
    pub free_bytes: &'a [u64],
    /// Largest Free block.
    pub largest_free_bytes: &'a [u64],
    /// Mapped from the driver.
    pub reserved_bytes: &'a [u64],
    /// What the policy holds of the card.
    pub footprint_bytes: &'a [u64],
}

impl Glances {
    /// Of so many events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Of no event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Notes how things stand after an event; the place is taken modulo [`RUN`].
    #[inline(always)]
    pub(super) fn note(&mut self, at: usize, glance: Glance) {
        let at = at % RUN;
        self.requested_bytes[at] = glance.requested_bytes;
        self.used_bytes[at] = glance.used_bytes;
        self.free_bytes[at] = glance.free_bytes;
        self.largest_free_bytes[at] = glance.largest_free_bytes;
        self.reserved_bytes[at] = glance.reserved_bytes;
        self.footprint_bytes[at] = glance.footprint_bytes;
    }

    /// From here on the first `len` are told.
    #[inline]
    pub(super) fn close(&mut self, len: usize) {
        self.len = len.min(RUN);
    }

    /// After the event at a place.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<Glance> {
        (at < self.len).then(|| Glance {
            requested_bytes: self.requested_bytes[at],
            used_bytes: self.used_bytes[at],
            free_bytes: self.free_bytes[at],
            largest_free_bytes: self.largest_free_bytes[at],
            reserved_bytes: self.reserved_bytes[at],
            footprint_bytes: self.footprint_bytes[at],
        })
    }

    /// After each event.
    pub fn iter(&self) -> impl Iterator<Item = Glance> + '_ {
        (0..self.len).map_while(|at| self.get(at))
    }

    /// The figures by themselves.
    #[inline]
    #[must_use]
    pub fn columns(&self) -> Columns<'_> {
        Columns {
            requested_bytes: &self.requested_bytes[..self.len],
            used_bytes: &self.used_bytes[..self.len],
            free_bytes: &self.free_bytes[..self.len],
            largest_free_bytes: &self.largest_free_bytes[..self.len],
            reserved_bytes: &self.reserved_bytes[..self.len],
            footprint_bytes: &self.footprint_bytes[..self.len],
        }
    }
}

impl FromIterator<Glance> for Glances {
    /// The first [`RUN`] of them.
    fn from_iter<I: IntoIterator<Item = Glance>>(glances: I) -> Self {
        let mut kept = Glances::default();
        for (at, glance) in glances.into_iter().take(RUN).enumerate() {
            kept.note(at, glance);
            kept.close(at + 1);
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glances_are_told_as_they_were_noted_and_no_more_than_a_run() {
        let glance = |bytes| Glance {
            requested_bytes: bytes,
            reserved_bytes: 2 * bytes,
            ..Glance::default()
        };
        let noted: Vec<Glance> = (0..100).map(glance).collect();
        let kept: Glances = noted.iter().copied().collect();
        assert_eq!(kept.iter().collect::<Vec<_>>(), noted[..RUN]);
        assert_eq!(kept.get(RUN), None);
        assert_eq!(kept.columns().reserved_bytes[RUN - 1], 2 * (RUN as u64 - 1));
        assert!(Glances::default().is_empty());
    }
}
