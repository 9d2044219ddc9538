//! Where the values of an entry lie among its pairs, so that entries with the same keys are
//! decoded without a look at them.

use super::record::{Records, known_action};
use super::word::*;
use super::{Action, Entry};
use crate::trace::pickle::{Packed, Store, Value};

/// Pairs of a dict that are looked at.
const MOST_PAIRS: usize = 16;

/// What each pair of an entry tells, as the word of its key; 0 where a later pair tells it again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    words: [u16; MOST_PAIRS],
    /// The pair of the call stack, as a bit.
    frames: u32,
    /// The entry that was decoded last.
    last: Entry,
}

impl Plan {
    /// The plan of entries with these pairs, of which `last` is one; none where they have a
    /// key that is not usual, or it is an entry whose values have a meaning of their own.
    pub(super) fn of(pairs: &[Packed], last: Entry) -> Option<Plan> {
        let mut plan = Plan {
            words: [UNKNOWN; MOST_PAIRS],
            frames: 0,
            last,
        };
        if !is_usual(last.action) || pairs.len() > 2 * MOST_PAIRS {
            return None;
        }
        for (at, pair) in pairs.chunks_exact(2).enumerate() {
            let word = pair[0].word();
            match word {
                FRAMES => plan.frames = 1 << at,
                ACTION | ADDR | SIZE | STREAM | TIME_US | POOL_ID | USER_METADATA
                | COMPILE_CONTEXT => {}
                _ => return None,
            }
            for earlier in &mut plan.words[..at] {
                if *earlier == word {
                    *earlier = UNKNOWN;
                }
            }
            plan.words[at] = word;
        }
        Some(plan)
    }
}

/// Whether an entry of this kind is what its values say, and no more.
#[inline(always)]
fn is_usual(action: Action) -> bool {
    !matches!(
        action,
        Action::Oom | Action::Snapshot | Action::Annotate | Action::Unknown(_)
    )
}

impl Records {
    /// Decodes an entry by the plan of its keys: the one before with what `changed`, a bit a
    /// pair. None where a value is not usual, and then the keys must be looked at.
    #[inline(always)]
    pub(super) fn planned(
        &mut self,
        pairs: &[Packed],
        changed: u32,
        store: &mut Store,
    ) -> Option<Entry> {
        let Plan {
            words,
            frames,
            last,
        } = self.plan.as_mut()?;
        // An empty list may have got its frames since.
        let mut changed = match last.stack {
            Some(_) => changed,
            None => changed | *frames,
        };
        let mut named = 0;
        while changed != 0 {
            let pair = changed.trailing_zeros() as usize;
            let value = *pairs.get(2 * pair + 1)?;
            match *words.get(pair)? {
                ACTION => {
                    let action = known_action(value.word());
                    last.action = action.filter(|action| is_usual(*action))?;
                }
                ADDR => last.place = value.integer()? as u64,
                SIZE => last.bytes = u64::try_from(value.integer()?).ok()?,
                STREAM => last.stream = value.integer()? as u64,
                TIME_US => last.set_time_us(Some(value.integer()?)),
                _ => named |= 1 << pair,
            }
            changed &= changed - 1;
        }
        if named != 0 {
            self.named(pairs, named, store)?;
        }
        self.plan.as_ref().map(|plan| plan.last)
    }

    /// As [`planned`](Self::planned), for what has a name in the tables.
    #[inline(never)]
    fn named(&mut self, pairs: &[Packed], mut changed: u32, store: &mut Store) -> Option<()> {
        let Plan {
            words, mut last, ..
        } = self.plan?;
        while changed != 0 {
            let pair = changed.trailing_zeros() as usize;
            let value = *pairs.get(2 * pair + 1)?;
            match words[pair] {
                FRAMES => last.stack = self.stack(store.value(value), store).ok()?,
                POOL_ID => last.pool = self.pool("pool_id", store.value(value), store).ok()?,
                USER_METADATA => last.user_metadata = self.note(value, store)?,
                COMPILE_CONTEXT => last.compile_context = self.note(value, store)?,
                _ => {}
            }
            changed &= changed - 1;
        }
        self.plan.as_mut()?.last = last;
        Some(())
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
