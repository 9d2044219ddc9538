//! The moments that matter: those at which a largest set of buffers is alive.

use crate::bound::packing::Buffer;

/// Which buffers meet in which section, and which buffers meet at all.
#[derive(Debug)]
pub(super) struct Sections {
    /// First section of each buffer, and the one after its last.
    pub span: Vec<(u32, u32)>,
    /// Bytes alive in each section.
    pub load_bytes: Vec<u64>,
    live: Lists,
    near: Lists,
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
        let near = Lists::of(buffers.len(), |one, items| {
            let others = all.clone().filter(|two| *two as usize != one);
            items.extend(others.filter(|two| meets(span[one], span[*two as usize])));
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
            span,
            live,
            near,
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

    /// The buffers that are alive together with one.
    pub fn near(&self, buffer: usize) -> &[u32] {
        self.near.get(buffer)
    }

    /// The sections from the first to the last of a list that is in the order of first ones.
    pub fn hull(&self, list: &[u32]) -> (usize, usize) {
        let from = list.first().map_or(0, |at| self.span[*at as usize].0);
        let ends = list.iter().map(|at| self.span[*at as usize].1);
        (from as usize, ends.max().unwrap_or(from) as usize)
    }
}
