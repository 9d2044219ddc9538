//! The judge of packings: simpler than any packer, and it knows none of them.
//!
//! It walks the moments in order and keeps what is alive, by address. A buffer that begins
//! must not reach into its neighbours there; as nothing alive overlaps, looking at the one
//! below and the one above is enough.

use std::collections::BTreeMap;

use super::packing::Buffer;

/// Checks that `offsets` are aligned and that no two buffers share a byte at any moment.
///
/// # Errors
/// The first buffer that breaks a rule, in words.
pub fn validate(buffers: &[Buffer], offsets: &[u64], height_bytes: u64) -> Result<(), String> {
    if buffers.len() != offsets.len() {
        return Err("not every buffer has an offset".to_owned());
    }
    let mut moments: Vec<(u32, bool, usize)> = Vec::new();
    for (at, buffer) in buffers.iter().enumerate() {
        moments.push((buffer.lower, true, at));
        moments.push((buffer.upper, false, at));
    }
    moments.sort_unstable();
    let mut alive: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    for (_, begins, at) in moments {
        let from = offsets[at];
        let end = from.checked_add(buffers[at].bytes);
        let end = end.ok_or_else(|| format!("buffer {at} ends beyond all addresses"))?;
        if !begins {
            alive.remove(&from);
            continue;
        }
        if end > height_bytes || !from.is_multiple_of(buffers[at].align) {
            return Err(format!(
                "buffer {at} at {from}..{end} is too high or misaligned"
            ));
        }
        let below = alive.range(..end).next_back();
        if let Some((_, (_, other))) = below.filter(|(_, (top, _))| *top > from) {
            return Err(format!(
                "buffers {other} and {at} share bytes at one moment"
            ));
        }
        alive.insert(from, (end, at));
    }
    Ok(())
}
