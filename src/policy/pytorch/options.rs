//! The options of `PYTORCH_CUDA_ALLOC_CONF` that change memory, and the sizes they give.
//!
//! Source: behaviour of PyTorch 2.11 to 2.15, specification sections 2 and 13.

use crate::units::MIB;

/// Smallest block, and the quantum of sizes.
pub const MIN_BLOCK_BYTES: u64 = 512;
/// Largest rounded request that goes to the pool of small blocks.
pub const SMALL_BYTES: u64 = MIB;
/// Segment of the small pool, and its page when expandable.
pub const SMALL_SEGMENT_BYTES: u64 = 2 * MIB;
/// Requests below this get one large segment.
pub const LARGE_BELOW_BYTES: u64 = 10 * MIB;
/// Other large segments are multiples of this.
pub const ROUND_LARGE_BYTES: u64 = 2 * MIB;
/// Requests from here on are refused at once.
pub const TOO_LARGE_BYTES: u64 = 1 << 60;
/// Unlimited.
pub const UNLIMITED: u64 = u64::MAX;

/// The options; sizes in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Virtual reservations whose pages are mapped as needed.
    pub expandable_segments: bool,
    /// Blocks from this size on are never split.
    pub max_split_bytes: u64,
    /// How much larger than a request an unsplittable block may be.
    pub max_non_split_rounding_bytes: u64,
    /// Cached segments are collected above this part of the cap; 0 is off.
    pub gc_threshold: f64,
    /// Divisions of each power of two, by MiB interval of the request; 0 is off.
    pub roundup_divisions: [u64; 16],
    /// Segment for requests below 10 MiB, and the page of large expandable segments.
    pub large_segment_bytes: u64,
    /// The part of the card that the process may take; 1 is no cap.
    pub memory_fraction: f64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            expandable_segments: false,
            max_split_bytes: UNLIMITED,
            max_non_split_rounding_bytes: 20 * MIB,
            gc_threshold: 0.0,
            roundup_divisions: [0; 16],
            large_segment_bytes: 20 * MIB,
            memory_fraction: 1.0,
        }
    }
}

/// Options that change nothing of what is placed where.
const WITHOUT_EFFECT: [&str; 14] = [
    "release_lock_on_cudamalloc",
    "pinned_use_cuda_host_register",
    "pinned_num_register_threads",
    "pinned_use_background_threads",
    "pinned_reserve_segment_size_mb",
    "pinned_max_round_threshold_mb",
    "pinned_max_cached_size_mb",
    "pinned_free_catch_all",
    "graph_capture_record_stream_reuse",
    "throw_on_cudamalloc_oom",
    "expandable_segments_reserve",
    "expandable_segments_reserve_by_class",
    "max_round_threshold",
    "max_cached_size",
];

impl Options {
    /// Reads an option string as PyTorch does: what it names is set, and parsing again
    /// puts the split, rounding and collection options back to their defaults.
    ///
    /// # Errors
    /// An unknown key, or a value that PyTorch would refuse: a sentence with both.
    pub fn parse(&mut self, text: &str) -> Result<(), String> {
        self.max_split_bytes = UNLIMITED;
        self.roundup_divisions = [0; 16];
        self.gc_threshold = 0.0;
        let mut rounding = None;
        for pair in split_pairs(text)? {
            let (key, value) = pair;
            match key.as_str() {
                "expandable_segments" => self.expandable_segments = truth(&key, &value)?,
                "max_split_size_mb" => self.max_split_bytes = mib(&key, &value)?,
                "max_non_split_rounding_mb" => rounding = Some(mib(&key, &value)?),
                "garbage_collection_threshold" => self.set_gc(number(&key, &value)?)?,
                "roundup_power2_divisions" => self.roundup_divisions = divisions(&value)?,
                "large_segment_size_mb" => self.large_segment_bytes = mib(&key, &value)?,
                "per_process_memory_fraction" => self.set_fraction(number(&key, &value)?)?,
                "backend" if value == "native" => {}
                "backend" => {
                    return Err(format!(
                        "backend '{value}' is another allocator; try the policy cuda-malloc-async"
                    ));
                }
                known if WITHOUT_EFFECT.contains(&known) => {}
                _ => return Err(format!("PyTorch knows no option '{key}'")),
            }
        }
        self.max_non_split_rounding_bytes = rounding.unwrap_or(self.large_segment_bytes);
        self.check()
    }

    fn set_gc(&mut self, threshold: f64) -> Result<(), String> {
        if !(threshold > 0.0 && threshold < 1.0) {
            return Err(format!(
                "garbage_collection_threshold:{threshold} is not between 0 and 1"
            ));
        }
        self.gc_threshold = threshold;
        Ok(())
    }

    fn set_fraction(&mut self, fraction: f64) -> Result<(), String> {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(format!(
                "per_process_memory_fraction:{fraction} is not from 0 to 1"
            ));
        }
        self.memory_fraction = fraction;
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        if self.large_segment_bytes <= LARGE_BELOW_BYTES {
            return Err("large_segment_size_mb must be more than 10".into());
        }
        if self.max_split_bytes < self.large_segment_bytes {
            let least = self.large_segment_bytes / MIB;
            return Err(format!("max_split_size_mb must be at least {least}"));
        }
        Ok(())
    }

    /// The rounded size of a request (section 2.1).
    #[must_use]
    pub fn round(&self, bytes: u64) -> u64 {
        if bytes < MIN_BLOCK_BYTES {
            return MIN_BLOCK_BYTES;
        }
        let divisions = self.divisions_for(bytes);
        if divisions > 1 && bytes > MIN_BLOCK_BYTES * divisions {
            round_power_of_two(bytes, divisions)
        } else {
            bytes.next_multiple_of(MIN_BLOCK_BYTES)
        }
    }

    /// The largest request whose rounded size is at most `bytes`.
    #[must_use]
    pub fn largest_rounding_to(&self, bytes: u64) -> u64 {
        let mut largest = bytes / MIN_BLOCK_BYTES * MIN_BLOCK_BYTES;
        while largest > 0 && self.round(largest) > bytes {
            // Round down to the step that the power of two has there.
            let step = (1u64 << largest.ilog2()) >> self.divisions_for(largest).max(1).ilog2();
            let lower = largest / step.max(1) * step.max(1);
            largest = if lower < largest {
                lower
            } else {
                largest - MIN_BLOCK_BYTES
            };
        }
        largest
    }

    /// How many steps the power of two of a request is divided into.
    ///
    /// # Panics
    /// If `bytes` is 0.
    #[must_use]
    pub fn divisions_for(&self, bytes: u64) -> u64 {
        let interval = i64::from(bytes.ilog2()) - 20;
        self.roundup_divisions[interval.clamp(0, 15) as usize]
    }

    /// The driver allocation for a rounded request (section 2.3).
    #[must_use]
    pub fn segment_bytes(&self, rounded: u64) -> u64 {
        if rounded <= SMALL_BYTES {
            SMALL_SEGMENT_BYTES
        } else if rounded < LARGE_BELOW_BYTES {
            self.large_segment_bytes
        } else {
            rounded.next_multiple_of(ROUND_LARGE_BYTES)
        }
    }
}

/// Rounds up to one of `divisions` equal steps between two powers of two.
fn round_power_of_two(bytes: u64, divisions: u64) -> u64 {
    if bytes.is_power_of_two() {
        return bytes;
    }
    let floor = 1u64 << bytes.ilog2();
    let step = floor >> divisions.ilog2();
    if step == 0 {
        2 * floor
    } else {
        bytes.next_multiple_of(step)
    }
}

/// Splits `key:value,key:[a:1,b:2]` at the commas outside brackets.
fn split_pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let clean: String = text
        .chars()
        .filter(|letter| !letter.is_whitespace())
        .collect();
    let (mut pairs, mut depth, mut from) = (Vec::new(), 0i32, 0);
    let mut ends: Vec<usize> = Vec::new();
    for (at, letter) in clean.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => ends.push(at),
            _ => {}
        }
    }
    ends.push(clean.len());
    for end in ends {
        let pair = &clean[from..end];
        from = end + 1;
        if pair.is_empty() {
            continue;
        }
        let Some((key, value)) = pair.split_once(':') else {
            return Err(format!(
                "option '{pair}': expected key:value, as PyTorch writes it"
            ));
        };
        pairs.push((key.to_owned(), value.to_owned()));
    }
    Ok(pairs)
}

fn truth(key: &str, value: &str) -> Result<bool, String> {
    match value {
        "True" => Ok(true),
        "False" => Ok(false),
        _ => Err(format!("{key}:{value}: expected True or False")),
    }
}

fn mib(key: &str, value: &str) -> Result<u64, String> {
    let count: u64 = value
        .parse()
        .map_err(|_| format!("{key}:{value}: expected a whole number of MiB"))?;
    count
        .checked_mul(MIB)
        .ok_or_else(|| format!("{key}:{value}: too large"))
}

fn number(key: &str, value: &str) -> Result<f64, String> {
    value
        .parse()
        .map_err(|_| format!("{key}:{value}: expected a number"))
}

/// Reads `N` or `[MiB:N,...,>:N]` (section 13): intervals between explicit ones stay 0.
fn divisions(value: &str) -> Result<[u64; 16], String> {
    let one = |text: &str| -> Result<u64, String> {
        match text.parse::<u64>() {
            Ok(count) if count == 0 || count.is_power_of_two() => Ok(count),
            _ => Err(format!(
                "roundup_power2_divisions: '{text}' is no power of two"
            )),
        }
    };
    let Some(list) = value
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    else {
        return Ok([one(value)?; 16]);
    };
    let mut table = [0; 16];
    let mut last = None;
    for pair in list.split(',').filter(|pair| !pair.is_empty()) {
        let (key, count) = pair
            .split_once(':')
            .ok_or_else(|| format!("roundup_power2_divisions: '{pair}': expected MiB:divisions"))?;
        let count = one(count)?;
        if key == ">" {
            let from = last.map_or(1, |last: usize| last + 1);
            table[from.min(16)..].fill(count);
            continue;
        }
        let at = match key.parse::<u64>() {
            Ok(size) if size.is_power_of_two() => (size.ilog2() as usize).min(15),
            _ => {
                return Err(format!(
                    "roundup_power2_divisions: '{key}' MiB is no power of two"
                ));
            }
        };
        if last.is_none() {
            table[..at].fill(count);
        }
        table[at] = count;
        last = Some(at);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_as_the_specification_says() {
        let mut options = Options::default();
        assert_eq!((options.round(1), options.round(513)), (512, 1024));
        options.parse("roundup_power2_divisions:4").expect("valid");
        // 1200 is below 512 * 4, where the quantum rules.
        for (asked, rounded) in [
            (1200, 1536),
            (2049, 2560),
            (1_100_000, 1_310_720),
            (9_000_000, 10_485_760),
        ] {
            assert_eq!(options.round(asked), rounded, "{asked}");
        }
        assert_eq!(round_power_of_two(1200, 4), 1280);
        assert_eq!(options.segment_bytes(10 * MIB), 10 * MIB);
        assert_eq!(options.segment_bytes(10 * MIB - 512), 20 * MIB);
    }

    #[test]
    fn division_lists_fill_below_the_first_and_behind_the_last() {
        let table = divisions("[256:1,512:2,1024:4,>:8]").expect("valid");
        assert_eq!(table, [1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8]);
        assert_eq!(divisions("[64:8,256:4]").expect("valid")[7], 0);
        assert_eq!(divisions("[>:2]").expect("valid")[..2], [0, 2]);
        assert!(divisions("3").is_err());
    }

    #[test]
    fn parsing_again_resets_what_pytorch_resets() {
        let mut options = Options::default();
        options
            .parse("max_split_size_mb:128, expandable_segments:True")
            .expect("valid");
        assert_eq!(options.max_split_bytes, 128 * MIB);
        options
            .parse("garbage_collection_threshold:0.6")
            .expect("valid");
        assert_eq!(options.max_split_bytes, UNLIMITED);
        assert!(options.expandable_segments);
        for wrong in [
            "max_split_size_mb:8",
            "expandable_segments:yes",
            "colour:red",
            "gc",
        ] {
            assert!(options.parse(wrong).is_err(), "{wrong}");
        }
    }
}
