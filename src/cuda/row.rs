//! One row of a validation: what the simulator said and what the card did.

use std::io::{self, Write};

use serde::Serialize;

/// How the two words compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The card did what the simulator said.
    Agrees,
    /// Memory held what it should; how much of it the driver takes is modelled
    /// approximately, and both figures are told.
    Approximate,
    /// The card did something else.
    Disagrees,
    /// The card did nothing; the note says why.
    #[default]
    NotRun,
}

impl Verdict {
    /// As rows spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Approximate => "approximate",
            Verdict::Disagrees => "disagrees",
            Verdict::NotRun => "not-run",
        }
    }
}

/// A trace under one policy on a card. Bytes and nanoseconds; an empty cell is what could
/// not be known.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CardRow {
    /// Name of the trace.
    pub trace: String,
    /// The policy as given.
    pub policy: String,
    /// The card.
    pub card: String,
    /// What might be reserved.
    pub capacity_bytes: u64,
    /// `full`: every byte is filled and checked; `edges`: both ends of every block.
    pub coverage: &'static str,
    /// The fault that was planted, or `none`.
    pub fault: &'static str,
    /// How the simulator and the card compare.
    pub verdict: Verdict,
    /// Events carried out.
    pub events: u64,
    /// Blocks placed on the card.
    pub allocations: u64,
    /// Bytes filled with patterns.
    pub filled_bytes: u64,
    /// Checks of patterns.
    pub checks: u64,
    /// Bytes that they compared.
    pub checked_bytes: u64,
    /// Moves whose result was checked.
    pub moves_checked: u64,
    /// Bytes moved on the card.
    pub moved_bytes: u64,
    /// Bytes of pages that were mapped a second time, for aliases.
    pub aliased_bytes: u64,
    /// Bytes of pages that went to the host, and of those that came back.
    pub paged_bytes: u64,
    /// Pages that came back and whose blocks were compared at once.
    pub pages_checked: u64,
    /// Pages that were used where they lie on the host, since the capacity had no room and
    /// the policy made none.
    pub pages_across: u64,
    /// Checks that found a wrong byte.
    pub patterns_broken: u64,
    /// Wrong bytes that they found.
    pub broken_bytes: u64,
    /// Number of the first event whose check found one.
    pub first_broken_event: Option<u64>,
    /// Reuses without an ordering point that the simulator counts, of policies that leave
    /// the order of streams to others; the executor orders them.
    pub hazards_predicted: u64,
    /// Blocks whose real address breaks an alignment.
    pub misaligned: u64,
    /// Blocks whose real addresses overlap a live one.
    pub overlaps: u64,
    /// Requests that the simulator did not serve.
    pub failures_predicted: u64,
    /// Of those, the ones that the driver does not serve either: beyond the capacity by
    /// what is held on the card, or tried and refused.
    pub failures_met: u64,
    /// Of those, the ones that a rule of the policy refuses while the card has room.
    pub failures_by_rule: u64,
    /// Requests that the simulator served and the driver did not.
    pub failures_unpredicted: u64,
    /// Comparisons of what the card has free (or the pool holds) with what was predicted:
    /// at every mark, and at 32 events evenly spread.
    pub looks: u64,
    /// Of those, the ones that are equal to the byte.
    pub looks_met: u64,
    /// Device-free bytes that were predicted at the last look.
    pub free_predicted_bytes: Option<u64>,
    /// Device-free bytes that cuMemGetInfo read there.
    pub free_read_bytes: Option<u64>,
    /// The largest difference at a look.
    pub free_difference_bytes: Option<u64>,
    /// Bytes that the model's pool reserved at most at a look.
    pub pool_reserved_predicted_bytes: Option<u64>,
    /// Bytes that the driver's pool reserved at most at a look.
    pub pool_reserved_read_bytes: Option<u64>,
    /// The largest difference of them at a look.
    pub pool_difference_bytes: Option<u64>,
    /// Most bytes that the policy held on the card at once.
    pub held_peak_bytes: u64,
    /// Timed calls of the driver: map, unmap, reserve, back, unback, alias.
    pub driver_calls: u64,
    /// What the host waited for them.
    pub driver_ns: u64,
    /// What the cost model charges for them.
    pub driver_model_ns: u64,
    /// What the host waited for moves.
    pub move_ns: u64,
    /// What the cost model charges for them.
    pub move_model_ns: u64,
    /// What the host waited for pages that went to it and came back.
    pub paging_ns: u64,
    /// What the cost model charges for them.
    pub paging_model_ns: u64,
    /// Memory that was free before the run and is not after it.
    pub left_bytes: Option<u64>,
    /// All of the run, as the host saw it.
    pub wall_ns: u64,
    /// Words: why it did not run, what broke.
    pub note: String,
}

impl CardRow {
    /// Settles the verdict from the counts. `pooled`: the driver's own pool served.
    pub(super) fn judge(&mut self, pooled: bool) {
        let broken = self.patterns_broken > 0;
        let misplaced = self.misaligned + self.overlaps > 0;
        let refused = self.failures_unpredicted > 0 && !pooled;
        let unlike = self.looks_met < self.looks && !pooled;
        self.verdict = if broken || misplaced || refused || unlike {
            Verdict::Disagrees
        } else if pooled {
            Verdict::Approximate
        } else {
            Verdict::Agrees
        };
    }

    /// Adds words to the note.
    pub(super) fn say(&mut self, words: &str) {
        if !self.note.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(words);
    }
}

/// Writes records as csv, with a header.
///
/// # Errors
/// What `out` says.
pub fn write_csv<R: Serialize>(rows: &[R], out: &mut dyn Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    for row in rows {
        csv.serialize(row)?;
    }
    csv.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(row: CardRow, pooled: bool) -> Verdict {
        let mut row = row;
        row.judge(pooled);
        row.verdict
    }

    #[test]
    fn one_wrong_byte_is_a_disagreement_even_in_a_pool_of_the_driver() {
        let broken = CardRow {
            patterns_broken: 1,
            ..CardRow::default()
        };
        assert_eq!(judged(CardRow::default(), false), Verdict::Agrees);
        assert_eq!(judged(broken.clone(), false), Verdict::Disagrees);
        assert_eq!(judged(broken, true), Verdict::Disagrees);
    }

    #[test]
    fn a_pool_of_the_driver_is_modelled_approximately() {
        let refused = CardRow {
            failures_unpredicted: 2,
            looks: 3,
            looks_met: 1,
            ..CardRow::default()
        };
        assert_eq!(judged(refused.clone(), true), Verdict::Approximate);
        assert_eq!(judged(refused, false), Verdict::Disagrees);
    }
}
