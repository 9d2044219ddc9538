//! A real card behind the driver's API, loaded when it is first used.
//!
//! Everything that was taken is in the books of [`Gpu`] and goes back when it is cleared
//! or dropped, whatever happened before. Results of checks lie in one buffer of a whole
//! page, so that nothing of a policy shares pages with it.

mod host_side;
mod memory;
mod start;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{c_int, c_void};
use std::ptr;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use super::card::{Card, CardError, HostMemory, Identity, PoolSizes, Span};
use crate::trace::StreamId;
use host_side::Copies;

type Done<T = ()> = Result<T, CardError>;

/// Verdicts that one buffer holds; its bytes are one page.
const VERDICTS: usize = (2 << 20) / size_of::<u64>();
/// Threads of a block of threads.
const THREADS: u32 = 256;
/// Blocks of threads at most: enough to fill a card several times.
const MOST_BLOCKS: u64 = 4096;

/// A reservation and the pages behind it, by address.
#[derive(Debug, Default)]
struct Reservation {
    bytes: u64,
    pages: BTreeMap<u64, Page>,
}

/// A mapping of one handle.
#[derive(Debug, Clone, Copy)]
struct Page {
    handle: sys::CUmemGenericAllocationHandle,
    bytes: u64,
    /// The handle is owned by a mapping elsewhere.
    alias: bool,
}

/// A card, held until it is dropped.
#[derive(Debug)]
pub struct Gpu {
    device: sys::CUdevice,
    name: String,
    total_bytes: u64,
    driver_version: i32,
    granularity_bytes: u64,
    /// Whether nobody else seems to use the card.
    alone: bool,
    module: sys::CUmodule,
    fill: sys::CUfunction,
    check: sys::CUfunction,
    lag: sys::CUfunction,
    streams: Vec<sys::CUstream>,
    /// Events of the trace.
    events: HashMap<u32, sys::CUevent>,
    /// For waits on a stream's present position.
    position: sys::CUevent,
    /// The verdicts of checks on the card.
    results: u64,
    asked: usize,
    /// Verdicts fetched because the buffer was full.
    fetched: Vec<u64>,
    mapped: BTreeMap<u64, u64>,
    reservations: BTreeMap<u64, Reservation>,
    copies: Copies,
    pool: sys::CUmemoryPool,
    pooled: BTreeSet<u64>,
}

/// What the driver answered, as an error of the card.
fn told(call: &'static str, bytes: u64) -> impl Fn(DriverError) -> CardError {
    move |error| match error.0 {
        sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => CardError::OutOfMemory { bytes },
        _ => CardError::Driver {
            call,
            what: format!("{error:?}"),
        },
    }
}

impl Gpu {
    /// The stream of a lane; made when first asked for.
    fn stream(&mut self, lane: StreamId) -> Done<sys::CUstream> {
        while self.streams.len() <= usize::from(lane) {
            let kind = result::stream::StreamKind::NonBlocking;
            let made = result::stream::create(kind);
            self.streams.push(made.map_err(told("cuStreamCreate", 0))?);
        }
        Ok(self.streams[usize::from(lane)])
    }

    fn launch(
        &mut self,
        kernel: sys::CUfunction,
        lane: StreamId,
        words: u64,
        parameters: &mut [*mut c_void],
    ) -> Done {
        let stream = self.stream(lane)?;
        let blocks = words.div_ceil(u64::from(THREADS)).clamp(1, MOST_BLOCKS) as u32;
        // SAFETY: the kernel belongs to the loaded module, and the parameters are those of
        // its declaration, in order; the driver copies them before it returns. The memory
        // that they name is mapped: the books of this card and of the executor agree.
        let done = unsafe {
            result::launch_kernel(
                kernel,
                (blocks, 1, 1),
                (THREADS, 1, 1),
                0,
                stream,
                parameters,
            )
        };
        done.map_err(told("cuLaunchKernel", 0))
    }

    /// Waits, and takes the verdicts from the card; the buffer is empty afterwards.
    fn fetch(&mut self) -> Done {
        self.sync()?;
        if self.asked == 0 {
            return Ok(());
        }
        let mut verdicts = vec![0u64; self.asked];
        let bytes = self.asked * size_of::<u64>();
        // SAFETY: the buffer of results is live and holds at least as many verdicts as
        // were asked for; nothing runs that writes it.
        let copied = unsafe { result::memcpy_dtoh_sync(&mut verdicts, self.results) };
        copied.map_err(told("cuMemcpyDtoH", 0))?;
        // SAFETY: as above.
        let cleared = unsafe { result::memset_d8_sync(self.results, 0, bytes) };
        cleared.map_err(told("cuMemsetD8", 0))?;
        self.fetched.append(&mut verdicts);
        self.asked = 0;
        // The clearing must be over before a kernel of another stream adds to it.
        self.sync()
    }

    fn destroy_events(&mut self) {
        for (_, event) in self.events.drain() {
            // SAFETY: the event was made here and is destroyed once.
            let _ = unsafe { result::event::destroy(event) };
        }
    }
}

impl Card for Gpu {
    fn identity(&self) -> Identity {
        Identity {
            name: self.name.clone(),
            about: self.about(),
            total_bytes: self.total_bytes,
            page_bytes: self.granularity_bytes,
        }
    }

    fn free_bytes(&mut self) -> Done<Option<u64>> {
        let (free, _) = result::mem_get_info().map_err(told("cuMemGetInfo", 0))?;
        Ok(self.alone.then_some(free as u64))
    }

    fn map(&mut self, bytes: u64) -> Done<u64> {
        self.map_memory(bytes)
    }

    fn unmap(&mut self, base: u64) -> Done {
        self.unmap_memory(base)
    }

    fn reserve(&mut self, bytes: u64) -> Done<u64> {
        self.reserve_addresses(bytes)
    }

    fn unreserve(&mut self, base: u64) -> Done {
        self.free_addresses(base)
    }

    fn back(&mut self, at: u64, bytes: u64, page_bytes: u64) -> Done {
        self.back_pages(at, bytes, page_bytes)
    }

    fn unback(&mut self, at: u64, bytes: u64) -> Done {
        self.unback_pages(at, bytes)
    }

    fn alias(&mut self, at: u64, from: u64, bytes: u64) -> Done {
        self.alias_pages(at, from, bytes)
    }

    fn open(&mut self, at: u64, bytes: u64) -> Done {
        self.open_pages(at, bytes)
    }

    fn make_ready(&mut self, bytes: u64, kept_in: HostMemory) -> Done {
        self.copies.make_ready(bytes, kept_in)
    }

    fn pinning_bytes(&self) -> u64 {
        self.copies.pinning_bytes()
    }

    fn save(&mut self, at: u64, bytes: u64, kept_in: HostMemory) -> Done<u64> {
        self.copies.save(at, bytes, kept_in)
    }

    fn load(&mut self, ticket: u64, at: u64) -> Done {
        self.copies.load(ticket, at)
    }

    fn forget(&mut self, ticket: u64) -> Done {
        self.copies.forget(ticket)
    }

    fn open_pool(&mut self, most_bytes: u64, keep_bytes: u64) -> Done {
        self.make_pool(most_bytes, keep_bytes)
    }

    fn take(&mut self, bytes: u64, lane: StreamId) -> Done<u64> {
        self.pool_take(bytes, lane)
    }

    fn give(&mut self, address: u64, lane: StreamId) -> Done {
        self.pool_give(address, lane)
    }

    fn trim_pool(&mut self) -> Done {
        // SAFETY: the pool is live, or null, which the driver refuses with an error.
        let trimmed = unsafe { result::mem_pool::trim_to(self.pool, 0) };
        trimmed.map_err(told("cuMemPoolTrimTo", 0))
    }

    fn pool_sizes(&mut self) -> Done<PoolSizes> {
        use sys::CUmemPool_attribute as Attribute;
        Ok(PoolSizes {
            reserved_bytes: self.pool_attribute(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?,
            used_bytes: self.pool_attribute(Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?,
        })
    }

    fn record(&mut self, lane: StreamId, event: u32) -> Done {
        let stream = self.stream(lane)?;
        let known = self.events.get(&event).copied();
        let handle = match known {
            Some(handle) => handle,
            None => {
                let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
                result::event::create(flags).map_err(told("cuEventCreate", 0))?
            }
        };
        self.events.insert(event, handle);
        // SAFETY: event and stream were made here and are live.
        unsafe { result::event::record(handle, stream) }.map_err(told("cuEventRecord", 0))
    }

    fn wait_event(&mut self, lane: StreamId, event: u32) -> Done {
        let stream = self.stream(lane)?;
        let Some(handle) = self.events.get(&event) else {
            return Ok(());
        };
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: event and stream were made here and are live.
        unsafe { result::stream::wait_event(stream, *handle, flags) }
            .map_err(told("cuStreamWaitEvent", 0))
    }

    fn wait(&mut self, lane: StreamId, on: StreamId) -> Done {
        let (stream, behind) = (self.stream(lane)?, self.stream(on)?);
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: the event and both streams are live; a wait takes the position recorded
        // last, so that the event may be recorded anew at once.
        unsafe { result::event::record(self.position, behind) }
            .map_err(told("cuEventRecord", 0))?;
        // SAFETY: as above.
        unsafe { result::stream::wait_event(stream, self.position, flags) }
            .map_err(told("cuStreamWaitEvent", 0))
    }

    fn sync_lane(&mut self, lane: StreamId) -> Done {
        let stream = self.stream(lane)?;
        // SAFETY: the stream is live.
        unsafe { result::stream::synchronize(stream) }.map_err(told("cuStreamSynchronize", 0))
    }

    fn sync(&mut self) -> Done {
        result::ctx::synchronize().map_err(told("cuCtxSynchronize", 0))
    }

    fn copy(&mut self, lane: StreamId, to: u64, from: u64, bytes: u64) -> Done {
        let stream = self.stream(lane)?;
        // SAFETY: both ranges are mapped and do not overlap; who asks has seen to it.
        unsafe { result::memcpy_dtod_async(to, from, bytes as usize, stream) }
            .map_err(told("cuMemcpyDtoDAsync", 0))
    }

    fn fill(&mut self, lane: StreamId, span: Span) -> Done {
        let (mut base, mut from, mut to) = (span.base, span.from, span.to);
        let (mut low, mut high) = (span.seed as u32, (span.seed >> 32) as u32);
        let parameters = &mut [
            ptr::from_mut(&mut base).cast(),
            ptr::from_mut(&mut from).cast(),
            ptr::from_mut(&mut to).cast(),
            ptr::from_mut(&mut low).cast(),
            ptr::from_mut(&mut high).cast(),
        ];
        self.launch(self.fill, lane, span.bytes().div_ceil(4) + 1, parameters)
    }

    fn check(&mut self, lane: StreamId, span: Span) -> Done {
        if self.asked == VERDICTS {
            self.fetch()?;
        }
        let mut result = self.results + (self.asked * size_of::<u64>()) as u64;
        let (mut base, mut from, mut to) = (span.base, span.from, span.to);
        let (mut low, mut high) = (span.seed as u32, (span.seed >> 32) as u32);
        let parameters = &mut [
            ptr::from_mut(&mut base).cast(),
            ptr::from_mut(&mut from).cast(),
            ptr::from_mut(&mut to).cast(),
            ptr::from_mut(&mut low).cast(),
            ptr::from_mut(&mut high).cast(),
            ptr::from_mut(&mut result).cast(),
        ];
        self.launch(self.check, lane, span.bytes().div_ceil(4) + 1, parameters)?;
        self.asked += 1;
        Ok(())
    }

    fn lag(&mut self, lane: StreamId, for_ns: u64) -> Done {
        let mut for_ns = for_ns;
        let parameters = &mut [ptr::from_mut(&mut for_ns).cast()];
        self.launch(self.lag, lane, 1, parameters)
    }

    fn verdicts(&mut self) -> Done<Vec<u64>> {
        self.fetch()?;
        Ok(std::mem::take(&mut self.fetched))
    }

    fn clear(&mut self) {
        // The card may be in any state: what fails here, failed before and was told.
        let _ = self.fetch();
        self.fetched.clear();
        self.clear_memory();
        self.copies.clear();
        self.destroy_events();
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        self.clear();
        self.close();
    }
}

/// The driver takes a device's number as its own type of integer.
fn ordinal(gpu: u32) -> c_int {
    c_int::try_from(gpu).unwrap_or(c_int::MAX)
}
