//! Copies of a card's memory that the host keeps, pinned or not.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::{ptr, slice};

use cudarc::driver::result;

use super::{Done, told};
use crate::cuda::card::{CardError, HostMemory};

/// One buffer of the host.
#[derive(Debug)]
enum Buffer {
    /// From cuMemHostAlloc; freed by [`Copies::clear`].
    Pinned(*mut c_void, usize),
    Pageable(Vec<u8>),
}

impl Buffer {
    fn new(bytes: u64, kept_in: HostMemory) -> Done<Self> {
        let bytes = bytes as usize;
        if kept_in == HostMemory::Pageable {
            return Ok(Buffer::Pageable(vec![0; bytes]));
        }
        // SAFETY: plain pinned memory, entered in the books of `Copies` by whoever asked.
        let made = unsafe { result::malloc_host(bytes, 0) };
        let at = made.map_err(told("cuMemHostAlloc", bytes as u64))?;
        Ok(Buffer::Pinned(at, bytes))
    }

    fn bytes(&mut self) -> &mut [u8] {
        match self {
            // SAFETY: the driver gave that many bytes, which nobody else knows of.
            Buffer::Pinned(at, bytes) => unsafe { slice::from_raw_parts_mut(at.cast(), *bytes) },
            Buffer::Pageable(bytes) => bytes,
        }
    }

    fn free(self) {
        if let Buffer::Pinned(at, _) = self {
            // SAFETY: the buffer came from the driver and is given back once. What fails
            // here could only be told.
            let _ = unsafe { result::free_host(at) };
        }
    }
}

/// All copies, by ticket, and buffers that wait for the next one of their size.
#[derive(Debug, Default)]
pub(super) struct Copies {
    kept: BTreeMap<u64, (Buffer, u64, HostMemory)>,
    spare: BTreeMap<(u64, bool), Vec<Buffer>>,
    next: u64,
    /// Of the card's memory, for page tables of pinned memory.
    pinning_bytes: u64,
}

impl Copies {
    pub fn make_ready(&mut self, bytes: u64, kept_in: HostMemory) -> Done {
        let spare = self.spare.entry((bytes, kept_in == HostMemory::Pinned));
        let spare = spare.or_default();
        if spare.is_empty() {
            let before = free_bytes()?;
            spare.push(Buffer::new(bytes, kept_in)?);
            self.pinning_bytes += before.saturating_sub(free_bytes()?);
        }
        Ok(())
    }

    pub fn pinning_bytes(&self) -> u64 {
        self.pinning_bytes
    }

    pub fn save(&mut self, at: u64, bytes: u64, kept_in: HostMemory) -> Done<u64> {
        self.make_ready(bytes, kept_in)?;
        let spare = self.spare.get_mut(&(bytes, kept_in == HostMemory::Pinned));
        let mut buffer = spare.and_then(Vec::pop).expect("one was made ready");
        // SAFETY: the range is mapped and nothing writes it; who asks has seen to it. The
        // buffer is kept until the host has waited.
        let copied = unsafe { result::memcpy_dtoh_async(buffer.bytes(), at, ptr::null_mut()) };
        self.next += 1;
        self.kept.insert(self.next, (buffer, bytes, kept_in));
        copied.map_err(told("cuMemcpyDtoHAsync", 0))?;
        wait()?;
        Ok(self.next)
    }

    pub fn load(&mut self, ticket: u64, at: u64) -> Done {
        let kept = self.kept.get_mut(&ticket).ok_or_else(unknown)?;
        // SAFETY: the range is mapped and nothing uses it; who asks has seen to it. The
        // buffer is kept until the host has waited.
        let copied = unsafe { result::memcpy_htod_async(at, kept.0.bytes(), ptr::null_mut()) };
        copied.map_err(told("cuMemcpyHtoDAsync", 0))?;
        wait()
    }

    pub fn forget(&mut self, ticket: u64) -> Done {
        let (buffer, bytes, kept_in) = self.kept.remove(&ticket).ok_or_else(unknown)?;
        let pinned = kept_in == HostMemory::Pinned;
        self.spare.entry((bytes, pinned)).or_default().push(buffer);
        Ok(())
    }

    pub fn clear(&mut self) {
        while let Some((_, (buffer, ..))) = self.kept.pop_first() {
            buffer.free();
        }
        while let Some((_, buffers)) = self.spare.pop_first() {
            buffers.into_iter().for_each(Buffer::free);
        }
        self.pinning_bytes = 0;
    }
}

/// The calls that wait by themselves sleep for half a millisecond at some sizes (64 KiB
/// between pinned memory and an H200), and from pageable memory they come back before the
/// last piece has arrived.
fn wait() -> Done {
    result::ctx::synchronize().map_err(told("cuCtxSynchronize", 0))
}

fn free_bytes() -> Done<u64> {
    let (free, _) = result::mem_get_info().map_err(told("cuMemGetInfo", 0))?;
    Ok(free as u64)
}

fn unknown() -> CardError {
    CardError::Driver {
        call: "a copy back from the host",
        what: "nothing is kept under that ticket".into(),
    }
}
