//! The moments that matter: those at which a largest set of buffers is alive.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::bound::packing::Buffer;

/// Which buffers meet in which section.
#[derive(Debug)]
pub(super) struct Sections {
    /// First section of each buffer, and the one after its last.
    span: Vec<(u32, u32)>,
    /// The first buffer that could change places with each: in the same sections, and
    /// aligned in such a way that the two may lie upon each other in either order.
    pub group: Vec<u32>,
    /// The first buffer that is the same in all that counts: sections, bytes and alignment.
    pub twin: Vec<u32>,
    /// Bytes alive in each section.
    pub load_bytes: Vec<u64>,
    live: Lists,
    starts: Lists,
}

/// Many short lists, one behind the other.
#[derive(Debug, Default)]
struct Lists {
    ends: Vec<usize>,
    items: Vec<u32>,
}

impl Lists {
    fn of(count: usize, mut fill: impl FnMut(usize, &mut Vec<u32>)) -> Self {
        let mut lists = Lists::default();
        for number in 0..count {
            fill(number, &mut lists.items);
            lists.ends.push(lists.items.len());
        }
        lists
    }

    fn get(&self, number: usize) -> &[u32] {
        let from = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.items[from..self.ends[number]]
    }
}

impl Sections {
    /// A moment is a section where something ends right behind it and something has begun
    /// since the section before: what is alive at any other moment is alive together in a
    /// section too.
    pub fn new(buffers: &[Buffer]) -> Self {
        let mut changes: Vec<(u32, bool)> = Vec::with_capacity(2 * buffers.len());
        for buffer in buffers {
            changes.extend([(buffer.lower, true), (buffer.upper, false)]);
        }
        changes.sort_unstable();
        let (mut moments, mut begun) = (Vec::new(), None);
        for (moment, begins) in changes {
            if begins {
                begun = Some(moment);
            } else if let Some(last) = begun.take() {
                moments.push(last);
            }
        }
        let section = |moment: u32| moments.partition_point(|at| *at < moment) as u32;
        let span: Vec<(u32, u32)> = buffers
            .iter()
            .map(|buffer| (section(buffer.lower), section(buffer.upper)))
            .collect();
        let meets = |one: (u32, u32), two: (u32, u32)| one.0 < two.1 && two.0 < one.1;
        let all = 0..buffers.len() as u32;
        let live = Lists::of(moments.len(), |section, items| {
            let here = (section as u32, section as u32 + 1);
            items.extend(all.clone().filter(|at| meets(span[*at as usize], here)));
        });
        let starts = Lists::of(moments.len(), |section, items| {
            items.extend(
                all.clone()
                    .filter(|at| span[*at as usize].0 as usize == section),
            );
        });
        let load = |section| {
            let bytes = live
                .get(section)
                .iter()
                .map(|at| buffers[*at as usize].bytes);
            bytes.sum()
        };
        Sections {
            load_bytes: (0..moments.len()).map(load).collect(),
            group: groups(buffers, &span),
            twin: twins(buffers, &span),
            span,
            live,
            starts,
        }
    }

    /// How many sections there are.
    pub fn len(&self) -> usize {
        self.load_bytes.len()
    }

    /// The buffers alive in a section.
    pub fn live(&self, section: usize) -> &[u32] {
        self.live.get(section)
    }

    /// The buffers whose first section this is.
    pub fn starts(&self, section: usize) -> &[u32] {
        self.starts.get(section)
    }

    /// The sections of a buffer.
    pub fn span(&self, buffer: usize) -> Range<usize> {
        let (from, end) = self.span[buffer];
        from as usize..end as usize
    }
}

fn groups(buffers: &[Buffer], span: &[(u32, u32)]) -> Vec<u32> {
    let mut first = BTreeMap::new();
    let group = |number: usize| {
        let Buffer { bytes, align, .. } = buffers[number];
        match bytes.is_multiple_of(align) {
            true => *first.entry((span[number], align)).or_insert(number as u32),
            false => number as u32,
        }
    };
    (0..buffers.len()).map(group).collect()
}

fn twins(buffers: &[Buffer], span: &[(u32, u32)]) -> Vec<u32> {
    let mut first = BTreeMap::new();
    let twin = |number: usize| {
        let Buffer { bytes, align, .. } = buffers[number];
        *first
            .entry((span[number], bytes, align))
            .or_insert(number as u32)
    };
    (0..buffers.len()).map(twin).collect()
}
