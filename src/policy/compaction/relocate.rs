//! A used block goes into a hole that it is not next to.

use crate::policy::Policy;
use crate::space::{BlockId, Space};

/// Moves `used` to the lowest multiple of its alignment in `hole`, which holds it there.
/// Padding in front and the rest behind stay holes; the place that it leaves is joined
/// with free neighbours. The rest is returned, where there is one.
pub(super) fn relocate(
    policy: &mut dyn Policy,
    used: BlockId,
    hole: BlockId,
    space: &mut Space,
) -> Option<BlockId> {
    let bytes = space.bytes(used);
    policy.forget(hole, space);
    let padding_bytes = space.base(hole).next_multiple_of(space.align(used)) - space.base(hole);
    let mut place = hole;
    if padding_bytes > 0 {
        place = space.split(hole, padding_bytes);
        policy.learn(hole, space);
    }
    let rest = (space.bytes(place) > bytes).then(|| space.split(place, bytes));
    if let Some(rest) = rest {
        policy.learn(rest, space);
    }
    space.exchange(used, place);
    if let Some(above) = space.free_next(place) {
        policy.forget(above, space);
        space.merge(place, above);
    }
    if let Some(below) = space.free_prev(place) {
        policy.forget(below, space);
        space.merge(below, place);
        place = below;
    }
    policy.learn(place, space);
    rest
}
