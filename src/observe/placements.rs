//! The placements of a replay as csv: where every served request went.

use std::io::{self, Write};

use crate::replay::{Moment, Observer, Outcome};
use crate::trace::{Event, Ids};

/// The columns. `id` is the trace's name of the allocation, `address` absolute, `bytes`
/// as asked for, `offset` from the start of the segment (empty where the segment is gone
/// after the event), `block_bytes` what the request occupies.
pub const COLUMNS: [&str; 6] = ["event", "id", "address", "bytes", "offset", "block_bytes"];

/// Writes one line a served request, as they come. The first error of the output ends
/// the writing and is told by [`finish`](Self::finish).
#[derive(Debug)]
pub struct Placements<'a, W: Write> {
    out: csv::Writer<W>,
    ids: &'a Ids,
    requests: usize,
    failed: Option<csv::Error>,
}

impl<'a, W: Write> Placements<'a, W> {
    /// Writes to `out`; `ids` are the trace's.
    #[must_use]
    pub fn new(out: W, ids: &'a Ids) -> Self {
        let mut out = csv::Writer::from_writer(out);
        let failed = out.write_record(COLUMNS).err();
        Placements {
            out,
            ids,
            requests: 0,
            failed,
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The first error of the output.
    pub fn finish(mut self) -> io::Result<()> {
        match self.failed {
            Some(error) => Err(error.into()),
            None => self.out.flush(),
        }
    }

    fn place(&mut self, moment: &Moment<'_>, asked: u64) -> csv::Result<()> {
        let space = moment.space;
        let (address, bytes, segment) = match moment.outcome {
            Outcome::Served(block) => {
                let segment = Some(space.segment(block));
                (space.base(block), space.bytes(block), segment)
            }
            Outcome::ServedInstant { address, bytes } => {
                let segment = space.find(address).map(|block| space.segment(block));
                (address, bytes, segment)
            }
            _ => return Ok(()),
        };
        let offset = segment.map(|segment| address - space.segment_base(segment));
        self.out.write_record([
            moment.index.to_string(),
            self.ids.name(self.requests),
            address.to_string(),
            asked.to_string(),
            offset.map_or_else(String::new, |offset| offset.to_string()),
            bytes.to_string(),
        ])
    }
}

impl<W: Write> Observer for Placements<'_, W> {
    fn see(&mut self, moment: &Moment<'_>) {
        let (Event::Alloc { bytes, .. } | Event::Attempt { bytes, .. }) = *moment.event else {
            return;
        };
        if self.failed.is_none() {
            self.failed = self.place(moment, bytes).err();
        }
        self.requests += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::testing::{Script, Walk, replay};
    use crate::trace::builder::Ask;

    #[test]
    fn every_served_request_has_its_line() {
        let mut script = Script::new();
        script
            .alloc(10, 100)
            .alloc(20, 0)
            .alloc(30, 4096)
            .free(10)
            .alloc(40, 300);
        let ask = Ask {
            bytes: 5,
            ..Ask::default()
        };
        script.0.attempt(50, ask);
        let trace = script.finish();
        let policy = Walk {
            grows: true,
            ..Walk::default()
        };
        let mut text = Vec::new();
        let mut placements = Placements::new(&mut text, &trace.ids);
        replay(&trace, policy, 2048, &mut placements);
        placements.finish().expect("memory is writable");
        assert_eq!(
            String::from_utf8(text).expect("it is text"),
            "event,id,address,bytes,offset,block_bytes\n\
             0,10,0,100,0,256\n\
             4,40,256,300,0,512\n\
             5,50,0,5,0,256\n"
        );
    }

    #[test]
    fn an_output_that_fails_is_told_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::other("no space left"))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut script = Script::new();
        for key in 0..2000 {
            script.alloc(key, 1);
        }
        let trace = script.finish();
        let mut placements = Placements::new(Full, &trace.ids);
        replay(&trace, Walk::default(), 1 << 20, &mut placements);
        let error = placements.finish().expect_err("the output is full");
        assert_eq!(error.to_string(), "no space left");
    }
}
