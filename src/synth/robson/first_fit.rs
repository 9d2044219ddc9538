//! The program against first fit: Robson's of 1974, which meets every policy that cannot
//! move, played against first fit's own placements.
//!
//! Step i asks for blocks of 2^i units. Before it, of all blocks only those stay that
//! cover an address which is f modulo 2^i; f is chosen among two so that what stays
//! holds the fewest units for the most addresses it blocks. No hole is then as long as
//! 2^i, and all of step i goes to fresh memory.

use super::Player;
use crate::synth::pen::Held;

/// A block of the program.
struct Block {
    at: u64,
    held: Held,
}

/// Plays the program with `live` units at most, in blocks of 1 to `largest` units.
pub fn play(live: u64, largest: u64, player: &mut Player<'_, '_>) {
    let mut blocks: Vec<Block> = Vec::new();
    let mut residue = 0;
    let mut taken = 0;
    for log2 in 0..=largest.ilog2() {
        let units = 1 << log2;
        if log2 > 0 {
            residue = better_residue(&blocks, residue, units, player);
            for block in std::mem::take(&mut blocks) {
                let size = player.units(&block.held);
                if covers(block.at, size, residue, units) {
                    blocks.push(block);
                } else {
                    taken -= size;
                    player.free(block.at, block.held);
                }
            }
        }
        while taken + units <= live && !player.done() {
            let (at, held) = player.alloc(units);
            taken += units;
            blocks.push(Block { at, held });
        }
    }
}

/// Whether a block covers an address that is `residue` modulo `modulus`.
fn covers(at: u64, size: u64, residue: u64, modulus: u64) -> bool {
    (residue + modulus - at % modulus) % modulus < size
}

/// The residue modulo `modulus` that blocks the most units beside what is live.
fn better_residue(blocks: &[Block], old: u64, modulus: u64, player: &Player<'_, '_>) -> u64 {
    let blocked = |residue: u64| -> u64 {
        let sizes = blocks
            .iter()
            .map(|block| (block.at, player.units(&block.held)));
        sizes
            .filter(|(at, size)| covers(*at, *size, residue, modulus))
            .map(|(_, size)| modulus - size)
            .sum()
    };
    let other = old + modulus / 2;
    if blocked(other) > blocked(old) {
        other
    } else {
        old
    }
}
