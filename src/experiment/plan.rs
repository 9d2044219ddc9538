//! An experiment and its cells: every source and seed under every policy, at every
//! capacity of every card.
//!
//! A *reading* is one trace: a recorded one, or that of a workload and a seed. It is read
//! or made once and feeds all its cells. Cells are numbered by source, seed, card, capacity
//! and policy, the last one fastest; rows are written in that order.

use std::ops::Range;
use std::sync::Arc;

use super::Wanted;
use super::fault::Text;
use super::source::Source;
use crate::policy::Chosen;
use crate::space::Device;

/// A capacity that the experiment asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// As the file has it.
    pub text: String,
    /// What it means.
    pub wanted: Wanted,
    /// Where it stands in the file.
    pub span: Range<usize>,
}

/// What an experiment file says, with everything found that it names.
#[derive(Clone)]
pub struct Experiment {
    /// The file's name without its ending.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// Traces, then workloads.
    pub sources: Vec<Source>,
    /// Every policy of every sweep.
    pub policies: Vec<Chosen>,
    /// The cards.
    pub devices: Vec<Arc<Device>>,
    /// The capacities.
    pub capacities: Vec<Asked>,
    /// The seeds of the workloads.
    pub seeds: Vec<u64>,
    /// The columns to report.
    pub metrics: Vec<String>,
    /// The policy that the others are compared with.
    pub baseline: Option<String>,
    /// Whether the smallest capacity that serves everything is to be found.
    pub fit: bool,
    /// The file, for errors that are found later.
    pub text: Arc<Text>,
}

/// One trace that feeds many cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Its place among the readings.
    pub number: usize,
    /// Its source, by place.
    pub source: usize,
    /// The seed of a workload.
    pub seed: Option<u64>,
}

/// One cell, by places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// Its place among all cells.
    pub number: usize,
    /// The trace.
    pub reading: Reading,
    /// The card.
    pub device: usize,
    /// The capacity.
    pub capacity: usize,
    /// The policy.
    pub policy: usize,
}

/// A part of the cells, for one machine of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which one, from 1.
    pub index: usize,
    /// Of how many.
    pub of: usize,
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/');
        let shard = numbers.and_then(|(index, of)| {
            Some(Shard {
                index: index.parse().ok()?,
                of: of.parse().ok()?,
            })
        });
        shard
            .filter(|shard| (1..=shard.of).contains(&shard.index))
            .ok_or_else(|| format!("'{text}': expected I/N with I from 1 to N, such as 2/8"))
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{}/{}", self.index, self.of)
    }
}

impl Experiment {
    /// All readings, in order.
    #[must_use]
    pub fn readings(&self) -> Vec<Reading> {
        let mut readings = Vec::new();
        for (source, it) in self.sources.iter().enumerate() {
            let seeds: Vec<Option<u64>> = if it.is_made() {
                self.seeds.iter().map(|seed| Some(*seed)).collect()
            } else {
                vec![None]
            };
            for seed in seeds {
                readings.push(Reading {
                    number: readings.len(),
                    source,
                    seed,
                });
            }
        }
        readings
    }

    /// How many cells a reading feeds.
    #[must_use]
    pub fn cells_each(&self) -> usize {
        self.devices.len() * self.capacities.len() * self.policies.len()
    }

    /// The cell of a reading by its place.
    #[must_use]
    pub fn cell(&self, reading: Reading, place: usize) -> Cell {
        let (policies, capacities) = (self.policies.len(), self.capacities.len());
        Cell {
            number: reading.number * self.cells_each() + place,
            reading,
            device: place / policies / capacities,
            capacity: place / policies % capacities,
            policy: place % policies,
        }
    }

    /// The cells of a shard, or all, in order. A shard takes whole readings where there
    /// are enough of them, so that no trace is read on two machines; else single cells.
    #[must_use]
    pub fn cells(&self, shard: Option<Shard>) -> Vec<Cell> {
        let readings = self.readings();
        let whole = shard.is_none_or(|shard| readings.len() >= shard.of);
        let mine = |cell: &Cell| {
            let place = if whole {
                cell.reading.number
            } else {
                cell.number
            };
            shard.is_none_or(|shard| place % shard.of == shard.index - 1)
        };
        let all = readings
            .iter()
            .flat_map(|reading| (0..self.cells_each()).map(|place| self.cell(*reading, place)));
        all.filter(mine).collect()
    }

    /// The stable id of a cell: its source, seed, card, capacity and policy by name. It
    /// does not change when an experiment grows.
    #[must_use]
    pub fn id(&self, cell: &Cell) -> String {
        let source = &self.sources[cell.reading.source].name;
        let seed = cell.reading.seed;
        let seed = seed.map_or_else(String::new, |seed| format!("/seed-{seed}"));
        let device = &self.devices[cell.device].name;
        let capacity = &self.capacities[cell.capacity].text;
        let policy = &self.policies[cell.policy].label;
        format!("{source}{seed}/{device}/{capacity}/{policy}")
    }

    /// The capacity as a row names it.
    #[must_use]
    pub fn capacity_asked(&self, cell: &Cell) -> String {
        let text = &self.capacities[cell.capacity].text;
        match self.devices.len() {
            1 => text.clone(),
            _ => format!("{text}@{}", self.devices[cell.device].name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_told_as_i_of_n() {
        assert_eq!("2/8".parse(), Ok(Shard { index: 2, of: 8 }));
        for text in ["0/8", "9/8", "2", "a/b", "1/0", ""] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
