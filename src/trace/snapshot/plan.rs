//! Where the values of an entry lie among its pairs, so that entries with the same keys are
//! decoded without a look at them.

use super::record::{Records, known_action};
use super::word::*;
use super::{Action, Entry};
use crate::trace::pickle::{Packed, Store, Value};

/// The place of each value among the pairs; [`ABSENT`] where there is none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    action: u8,
    addr: u8,
    size: u8,
    stream: u8,
    time_us: u8,
    frames: u8,
    pool_id: u8,
    user_metadata: u8,
    compile_context: u8,
}

/// Past the end of all pairs.
const ABSENT: u8 = u8::MAX;

impl Plan {
    /// The plan of an entry with these pairs; none where they have a key that is not usual.
    pub(super) fn of(pairs: &[Packed]) -> Option<Plan> {
        let mut plan = Plan {
            action: ABSENT,
            addr: ABSENT,
            size: ABSENT,
            stream: ABSENT,
            time_us: ABSENT,
            frames: ABSENT,
            pool_id: ABSENT,
            user_metadata: ABSENT,
            compile_context: ABSENT,
        };
        for (pair, at) in pairs.chunks_exact(2).zip((1u8..).step_by(2)) {
            *match pair[0].word() {
                ACTION => &mut plan.action,
                ADDR => &mut plan.addr,
                SIZE => &mut plan.size,
                STREAM => &mut plan.stream,
                TIME_US => &mut plan.time_us,
                FRAMES => &mut plan.frames,
                POOL_ID => &mut plan.pool_id,
                USER_METADATA => &mut plan.user_metadata,
                COMPILE_CONTEXT => &mut plan.compile_context,
                _ => return None,
            } = at;
        }
        Some(plan)
    }
}

/// The value at a place of a plan.
#[inline(always)]
fn value(pairs: &[Packed], at: u8) -> Option<Packed> {
    pairs.get(usize::from(at)).copied()
}

impl Records {
    /// Decodes an entry by the plan of its keys; none where a value is not usual, and then
    /// its keys must be looked at.
    #[inline(always)]
    pub(super) fn planned(
        &mut self,
        plan: &Plan,
        pairs: &[Packed],
        store: &mut Store,
    ) -> Option<Entry> {
        let action = known_action(value(pairs, plan.action)?.word()).filter(|action| {
            !matches!(action, Action::Oom | Action::Snapshot | Action::Annotate)
        })?;
        let address = value(pairs, plan.addr)?.integer()? as u64;
        let bytes = value(pairs, plan.size)?.integer()?;
        let stream = value(pairs, plan.stream)?.integer()? as u64;
        let mut entry = Entry::new(action, address, u64::try_from(bytes).ok()?, stream);
        if let Some(time_us) = value(pairs, plan.time_us) {
            entry.set_time_us(Some(time_us.integer()?));
        }
        if let Some(frames) = value(pairs, plan.frames) {
            entry.stack = self.stack(store.value(frames), store).ok()?;
        }
        if let Some(pool) = value(pairs, plan.pool_id) {
            entry.pool = self.pool("pool_id", store.value(pool), store).ok()?;
        }
        if let Some(text) = value(pairs, plan.user_metadata) {
            entry.user_metadata = self.note(text, store)?;
        }
        if let Some(text) = value(pairs, plan.compile_context) {
            entry.compile_context = self.note(text, store)?;
        }
        Some(entry)
    }

    /// A text that an entry may lack.
    #[inline(always)]
    fn note(&mut self, text: Packed, store: &Store) -> Option<Option<super::TextId>> {
        if text.word() == NOT_AVAILABLE {
            return Some(None);
        }
        match store.value(text) {
            Value::None => Some(None),
            text => self.optional_text("user_metadata", text, store).ok(),
        }
    }
}
