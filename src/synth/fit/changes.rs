//! Change points of the mix of sizes: where a trace has no marks, its phases begin there.
//!
//! Source: binary segmentation (Scott and Knott, Biometrics 30, 1974; Vostrikova, 1981)
//! with the likelihood of a multinomial mix over octaves: a stretch is cut where two mixes
//! describe it best, as long as the bits saved pay for the mix that must be told anew.

use crate::synth::fixed::log2;

/// Requests to a step: a change point lies between two steps.
const STEP: usize = 64;
/// The octaves of a size, and one for no bytes.
const OCTAVES: usize = 65;
/// No stretch is cut into pieces of fewer steps.
const LEAST_STEPS: usize = 4;
/// A cut must save so many times the bits that the second mix costs: recordings are
/// bursty, and bursts are no phases.
const PRUDENCE: u128 = 4;

/// The first request of each phase: 0, and each change point, in order.
#[must_use]
pub fn find(sizes: &[u64]) -> Vec<usize> {
    let steps = Steps::of(sizes);
    let mut found = Vec::new();
    let mut open = vec![(0, steps.count())];
    while let Some((from, to)) = open.pop() {
        match steps.best_cut(from..to) {
            // The later piece goes on the pile first, so that phases come in order.
            Some(cut) => {
                open.push((cut, to));
                open.push((from, cut));
            }
            None => found.push(from * STEP),
        }
    }
    found
}

/// Counts by octave, summed up from the start.
struct Steps {
    sums: Vec<[u64; OCTAVES]>,
}

impl Steps {
    fn of(sizes: &[u64]) -> Self {
        let mut sum = [0; OCTAVES];
        let mut sums = vec![sum];
        for step in sizes.chunks(STEP) {
            for bytes in step {
                sum[bytes
                    .checked_ilog2()
                    .map_or(0, |octave| octave as usize + 1)] += 1;
            }
            sums.push(sum);
        }
        Steps { sums }
    }

    fn count(&self) -> usize {
        self.sums.len() - 1
    }

    /// What the best mix needs to describe a stretch, in bits of 32.32 fixed point.
    fn bits(&self, from: usize, to: usize) -> u128 {
        let counts = (0..OCTAVES).map(|octave| self.sums[to][octave] - self.sums[from][octave]);
        let weigh = |count: u64| match count {
            0 => 0,
            count => u128::from(count) * u128::from(log2(count)),
        };
        let (mut all, mut parts) = (0, 0);
        for count in counts {
            all += count;
            parts += weigh(count);
        }
        // The fixed-point logarithm rounds down; the sum of the parts never passes the whole.
        weigh(all).saturating_sub(parts)
    }

    /// Where to cut a stretch, if a cut pays.
    fn best_cut(&self, stretch: std::ops::Range<usize>) -> Option<usize> {
        let whole = self.bits(stretch.start, stretch.end);
        let cuts = stretch.start + LEAST_STEPS..(stretch.end + 1).saturating_sub(LEAST_STEPS);
        let cost = |cut: &usize| self.bits(stretch.start, *cut) + self.bits(*cut, stretch.end);
        let best = cuts.min_by_key(cost)?;
        let saved = whole.saturating_sub(cost(&best));
        (saved > self.price(&stretch)).then_some(best)
    }

    /// What a second mix costs: half the logarithm of the requests for each octave met.
    fn price(&self, stretch: &std::ops::Range<usize>) -> u128 {
        let (from, to) = (&self.sums[stretch.start], &self.sums[stretch.end]);
        let met = from.iter().zip(to).filter(|(from, to)| to > from).count() as u128;
        let requests: u64 = to.iter().sum::<u64>() - from.iter().sum::<u64>();
        PRUDENCE * met * u128::from(log2(requests.max(1))) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::dice::Dice;

    #[test]
    fn a_change_of_the_mix_is_found_and_none_where_there_is_none() {
        let mut dice = Dice::new("changes", 1);
        let mut draw = |from: u64, to: u64, count: usize| -> Vec<u64> {
            (0..count).map(|_| dice.log_uniform(from, to)).collect()
        };
        let even = draw(512, 1 << 26, 20_000);
        assert_eq!(find(&even), [0]);
        let mut sizes = draw(512, 1 << 20, 5000);
        sizes.extend(draw(1 << 16, 1 << 26, 3000));
        sizes.extend(draw(512, 1 << 20, 5000));
        let found = find(&sizes);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[1].abs_diff(5000) <= STEP, "{found:?}");
        assert!(found[2].abs_diff(8000) <= STEP, "{found:?}");
        assert_eq!(find(&[]), [0]);
        assert_eq!(find(&[0, 1, u64::MAX]), [0]);
    }
}
