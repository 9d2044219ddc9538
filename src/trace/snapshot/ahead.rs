//! A large file is read by one thread, decoded by a second, and its entries are put together by a third;
//! one thread does all of it where the file is small. What comes out is the same.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::record::Records;
use super::{Entry, SnapshotError};
use crate::trace::pickle::{self, Document};
use crate::trace::relay::{relay, several_threads};

/// Up to this size a file is not worth threads.
pub(super) const SMALL_BYTES: u64 = 512 << 10;
/// How much is read at once.
const BLOCK_BYTES: usize = 256 << 10;
/// Blocks that are read ahead at most.
const BLOCKS: usize = 2;

/// What a file holds: its document, what was taken out of it, and its entries.
type Decoded = Result<(Document, Records, Vec<Entry>), SnapshotError>;
type Block = io::Result<Vec<u8>>;

/// Decodes `input`, on several threads where it has more than `small_bytes`.
pub(super) fn decode(mut input: impl Read, small_bytes: u64) -> Decoded {
    let mut head = Vec::new();
    let read = (&mut input).take(small_bytes).read_to_end(&mut head);
    match read {
        // What is wrong with the file may be told before this failure is met.
        Err(error) => here(head.chain(Failing(Some(error)))),
        Ok(read) if (read as u64) < small_bytes => here(&head[..]),
        Ok(_) if !several_threads() => here(head.chain(input)),
        Ok(_) => on_threads(head.chain(input)),
    }
}

fn here(input: impl Read) -> Decoded {
    let mut records = Records::default();
    let document = pickle::read(input, &mut records)?;
    let entries = records.entries.close();
    Ok((document, records, entries))
}

fn on_threads(input: impl Read) -> Decoded {
    let (to_decoder, blocks) = sync_channel(BLOCKS);
    let (used, spare) = sync_channel(BLOCKS);
    let (giver, taker) = relay();
    thread::scope(|scope| {
        let keeping = scope.spawn(|| {
            let mut entries: Vec<Entry> = Vec::new();
            taker.each(|chunk| {
                entries.extend_from_slice(chunk);
                ControlFlow::Continue(())
            });
            entries
        });
        let decoding = scope.spawn(|| {
            let mut records = Records::with(giver);
            let document = pickle::read(Ahead::new(blocks, used), &mut records)?;
            records.entries.close();
            Ok((document, records))
        });
        read_ahead(input, &to_decoder, &spare);
        drop(to_decoder);
        let decoded = joined(decoding);
        let entries = joined(keeping);
        decoded.map(|(document, records)| (document, records, entries))
    })
}

/// What a thread answers; its panic goes on here.
fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Reads block after block until the input ends or fails, or nobody takes them any more.
fn read_ahead(mut input: impl Read, blocks: &SyncSender<Block>, spare: &Receiver<Vec<u8>>) {
    loop {
        let mut block = spare.try_recv().unwrap_or_default();
        block.resize(BLOCK_BYTES, 0);
        let (read, failure) = fill(&mut input, &mut block);
        block.truncate(read);
        let is_last = read < BLOCK_BYTES;
        if read > 0 && blocks.send(Ok(block)).is_err() {
            return;
        }
        if let Some(error) = failure {
            // A decoder that is done needs to know no more.
            let _ = blocks.send(Err(error));
        }
        if is_last {
            return;
        }
    }
}

/// Reads until `block` is full, the input ends, or it fails; answers how much was read.
fn fill(input: &mut impl Read, block: &mut [u8]) -> (usize, Option<io::Error>) {
    let mut read = 0;
    while read < block.len() {
        match input.read(&mut block[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (read, Some(error)),
        }
    }
    (read, None)
}

/// What another thread reads.
struct Ahead {
    blocks: Receiver<Block>,
    used: SyncSender<Vec<u8>>,
    block: Vec<u8>,
    /// The next byte of `block`.
    at: usize,
}

impl Ahead {
    fn new(blocks: Receiver<Block>, used: SyncSender<Vec<u8>>) -> Self {
        Ahead {
            blocks,
            used,
            block: Vec::new(),
            at: 0,
        }
    }
}

impl Read for Ahead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() {
            let Ok(block) = self.blocks.recv() else {
                return Ok(0);
            };
            // Where enough are on their way back, this one is not needed.
            let _ = self
                .used
                .try_send(std::mem::replace(&mut self.block, block?));
            self.at = 0;
        }
        let read = (&self.block[self.at..]).read(buffer)?;
        self.at += read;
        Ok(read)
    }
}

/// A reader that fails.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
