//! A block moves inside the card, also where its old and its new place overlap.

use super::card::{Card, CardError};
use crate::trace::StreamId;
use crate::units::MIB;

/// The buffer of a move that overlaps itself.
pub(super) const STAGING_BYTES: u64 = 32 * MIB;

/// From where to where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Move {
    pub to: u64,
    pub from: u64,
    pub bytes: u64,
}

/// Whether the old and the new place share a byte.
pub(super) fn overlaps(to: u64, from: u64, bytes: u64) -> bool {
    to.abs_diff(from) < bytes
}

/// Copies on a lane. A move that overlaps itself goes piece by piece through the buffer
/// at `staging`, in the direction in which no piece is overwritten before it was read.
pub(super) fn move_block(
    card: &mut dyn Card,
    lane: StreamId,
    staging: u64,
    it: Move,
) -> Result<(), CardError> {
    if !overlaps(it.to, it.from, it.bytes) {
        return card.copy(lane, it.to, it.from, it.bytes);
    }
    let pieces = it.bytes.div_ceil(STAGING_BYTES);
    for number in 0..pieces {
        let down = it.to < it.from;
        let piece = if down { number } else { pieces - 1 - number };
        let offset = piece * STAGING_BYTES;
        let length = STAGING_BYTES.min(it.bytes - offset);
        card.copy(lane, staging, it.from + offset, length)?;
        card.copy(lane, it.to + offset, staging, length)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::card::Span;
    use crate::cuda::host::HostCard;

    #[test]
    fn a_block_larger_than_the_buffer_survives_a_move_over_itself_both_ways() {
        let bytes = STAGING_BYTES + 4099;
        for (from, to) in [(4096, 0), (0, 4096)] {
            let mut card = HostCard::new(1 << 30);
            let base = card.map(2 * STAGING_BYTES).expect("room");
            let staging = card.map(STAGING_BYTES).expect("room");
            let span = |at: u64| Span {
                base: base + at,
                from: 0,
                to: bytes,
                seed: 3,
            };
            card.fill(0, span(from)).expect("it is mapped");
            let it = Move {
                to: base + to,
                from: base + from,
                bytes,
            };
            move_block(&mut card, 0, staging, it).expect("it is mapped");
            card.check(0, span(to)).expect("it is mapped");
            assert_eq!(card.verdicts(), Ok(vec![0]), "{from} to {to}");
        }
    }
}
