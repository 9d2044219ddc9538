//! Segments and their blocks.

use super::super::decode::{self, Fault};
use super::super::record::{BLOCK, word_of};
use super::super::word::*;
use super::super::{Block, Segment};
use super::{Decoded, Finish};
use crate::trace::pickle::{Packed, Record, Value};

impl Finish {
    pub(super) fn segments(&mut self, dict: u32, value: Value) -> Decoded<Vec<Segment>> {
        let items = self.take_list("the top level", dict, "segments", value)?;
        self.segment_items(&items)
    }

    pub(super) fn segment_items(&mut self, items: &[Value]) -> Decoded<Vec<Segment>> {
        let mut segments = Vec::with_capacity(items.len());
        for (index, &item) in items.iter().enumerate() {
            let place = format!("segment {index}");
            let (dict, pairs) = self.plain_dict(&place, "segments", item)?;
            let (mut segment, blocks) = self
                .segment(&pairs)
                .map_err(|fault| self.error(place.clone(), Some(dict), fault))?;
            segment.blocks = self.blocks(&place, dict, blocks)?;
            segments.push(segment);
        }
        Ok(segments)
    }

    /// A segment without its blocks, and the list of these.
    pub(super) fn segment(&mut self, pairs: &[Packed]) -> Result<(Segment, Value), Fault> {
        let (mut address, mut total, mut large, mut blocks) = (None, None, None, None);
        let mut segment = Segment {
            device: 0,
            address: 0,
            total_bytes: 0,
            allocated_bytes: 0,
            active_bytes: 0,
            requested_bytes: None,
            stream: 0,
            large: false,
            pool: None,
            expandable: false,
            stack: None,
            blocks: Vec::new(),
        };
        for pair in pairs.chunks_exact(2) {
            let (key, value) = (pair[0], self.store.value(pair[1]));
            match key.word() {
                DEVICE => segment.device = decode::small("device", value)?,
                ADDRESS => address = Some(decode::address("address", value)?),
                TOTAL_SIZE => total = Some(decode::bytes("total_size", value)?),
                ALLOCATED_SIZE => segment.allocated_bytes = decode::bytes("allocated_size", value)?,
                ACTIVE_SIZE => segment.active_bytes = decode::bytes("active_size", value)?,
                REQUESTED_SIZE => {
                    segment.requested_bytes = Some(decode::bytes("requested_size", value)?);
                }
                STREAM => segment.stream = decode::address("stream", value)?,
                SEGMENT_TYPE => large = Some(is_large(value)?),
                SEGMENT_POOL_ID => {
                    segment.pool = self.records.pool("segment_pool_id", value, &self.store)?;
                }
                IS_EXPANDABLE => segment.expandable = decode::flag("is_expandable", value)?,
                FRAMES => segment.stack = self.records.stack(value, &mut self.store)?,
                BLOCKS => blocks = Some(value),
                _ => self.records.ignore(key, &self.store),
            }
        }
        segment.address = address.ok_or(Fault::missing("address"))?;
        segment.total_bytes = total.ok_or(Fault::missing("total_size"))?;
        segment.large = large.ok_or(Fault::missing("segment_type"))?;
        Ok((segment, blocks.ok_or(Fault::missing("blocks"))?))
    }

    pub(super) fn blocks(&mut self, place: &str, dict: u32, list: Value) -> Decoded<Vec<Block>> {
        let items = self.take_list(place, dict, "blocks", list)?;
        let mut blocks = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            let place = format!("{place}, block {index}");
            if let Some(Record { kind: BLOCK, index }) = self.store.record(item) {
                blocks.push(self.records.blocks[index as usize]);
                continue;
            }
            let (dict, pairs) = self.plain_dict(&place, "blocks", item)?;
            let block = self.records.block(&pairs, &mut self.store);
            blocks.push(block.map_err(|fault| self.error(place, Some(dict), fault))?);
        }
        Ok(blocks)
    }
}

fn is_large(value: Value) -> Result<bool, Fault> {
    match word_of(value) {
        LARGE => Ok(true),
        SMALL => Ok(false),
        _ => Err(Fault::value(
            "segment_type",
            "\"small\" or \"large\"",
            value,
        )),
    }
}
