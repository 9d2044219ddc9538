//! Opening a card: the driver, the context, the kernels, and a test of the kernels.

use std::ffi::{CString, c_void};
use std::thread::sleep;
use std::time::Duration;

use cudarc::driver::result;
use cudarc::driver::sys;

use super::{Gpu, VERDICTS, memory, ordinal, told};
use crate::cuda::card::{Card, CardError, Span};
use crate::cuda::pattern::byte;
use crate::units::{GIB, format_bytes};

/// The kernels; the driver wants a text that ends with a zero.
const KERNELS: &str = concat!(include_str!("kernels.ptx"), "\0");
/// More than this in use before anything was taken: somebody else is there.
const CONTEXT_BYTES: u64 = 2 * GIB;
/// Between two looks at the free memory of an idle card.
const A_WHILE: Duration = Duration::from_millis(50);

impl Gpu {
    /// Opens the card with that number.
    ///
    /// # Errors
    /// [`CardError::NoCard`], in one sentence, where there is no driver or no such card;
    /// else what the driver says, or that the kernels do not compute what they should.
    pub fn open(gpu: u32) -> Result<Self, CardError> {
        let no_card = |why: String| CardError::NoCard(why);
        // SAFETY: loads the driver's library to see whether it is there, as the first call
        // of the API would; cudarc panics there where it is not.
        if !unsafe { sys::is_culib_present() } {
            return Err(no_card(
                "there is no CUDA driver on this machine (libcuda was not found)".into(),
            ));
        }
        let started = result::init().and_then(|()| result::device::get_count());
        let count = started.map_err(|error| {
            no_card(format!(
                "the CUDA driver finds no device on this machine ({error:?})"
            ))
        })?;
        if ordinal(gpu) >= count {
            return Err(no_card(format!(
                "there is no CUDA device {gpu} on this machine; it has {count}"
            )));
        }
        let device = result::device::get(ordinal(gpu)).map_err(told("cuDeviceGet", 0))?;
        // SAFETY: the device was just found; the context is released when the card is dropped.
        let context = unsafe { result::primary_ctx::retain(device) };
        let context = context.map_err(told("cuDevicePrimaryCtxRetain", 0))?;
        // SAFETY: the context is live.
        unsafe { result::ctx::set_current(context) }.map_err(told("cuCtxSetCurrent", 0))?;
        let mut card = Gpu::over(device)?;
        card.test_kernels()?;
        card.alone = card.seems_alone()?;
        Ok(card)
    }

    fn over(device: sys::CUdevice) -> Result<Self, CardError> {
        let name = result::device::get_name(device).map_err(told("cuDeviceGetName", 0))?;
        // SAFETY: the device is valid.
        let total = unsafe { result::device::total_mem(device) };
        let mut driver_version = 0;
        // SAFETY: the driver writes one integer.
        unsafe { sys::cuDriverGetVersion(&raw mut driver_version) }
            .result()
            .map_err(told("cuDriverGetVersion", 0))?;
        // SAFETY: the text is PTX and ends with a zero; the driver copies it.
        let module = unsafe { result::module::load_data(KERNELS.as_ptr().cast::<c_void>()) };
        let module = module.map_err(told("cuModuleLoadData", 0))?;
        let kernel = |name: &str| {
            let name = CString::new(name).expect("a name without zeros");
            // SAFETY: the module is live.
            let found = unsafe { result::module::get_function(module, name) };
            found.map_err(told("cuModuleGetFunction", 0))
        };
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
        let mut card = Gpu {
            device,
            name,
            total_bytes: total.map_err(told("cuDeviceTotalMem", 0))? as u64,
            driver_version,
            granularity_bytes: memory::granularity(device)?,
            alone: false,
            module,
            fill: kernel("vramlab_fill")?,
            check: kernel("vramlab_check")?,
            lag: kernel("vramlab_lag")?,
            streams: Vec::new(),
            events: Default::default(),
            position: result::event::create(flags).map_err(told("cuEventCreate", 0))?,
            results: 0,
            asked: 0,
            fetched: Vec::new(),
            mapped: Default::default(),
            reservations: Default::default(),
            copies: Default::default(),
            pool: std::ptr::null_mut(),
            pooled: Default::default(),
        };
        card.make_results()?;
        Ok(card)
    }

    fn make_results(&mut self) -> Result<(), CardError> {
        let bytes = VERDICTS * size_of::<u64>();
        // SAFETY: plain memory of the card, freed when it is closed.
        let results = unsafe { result::malloc_sync(bytes) };
        self.results = results.map_err(told("cuMemAlloc", bytes as u64))?;
        // SAFETY: the buffer was just made, of that size.
        let cleared = unsafe { result::memset_d8_sync(self.results, 0, bytes) };
        cleared.map_err(told("cuMemsetD8", 0))?;
        self.sync()
    }

    /// The kernels must compute what the host computes, at every alignment and length,
    /// and must count a wrong byte.
    fn test_kernels(&mut self) -> Result<(), CardError> {
        const ROOM: usize = 8192;
        let seed = 0x0123_4567_89ab_cdef;
        let base = self.map(ROOM as u64)?;
        let wrong = |what: String| CardError::Driver {
            call: "the test of the kernels",
            what,
        };
        for (shift, from, to) in (0..4).flat_map(|shift| {
            [(0, 0), (0, 1), (0, 7), (3, 18), (5, 6), (1, 4096)].map(|(a, b)| (shift, a, b))
        }) {
            let span = Span {
                base: base + shift,
                from,
                to,
                seed,
            };
            let before = [0xa5u8; ROOM];
            // SAFETY: the memory was mapped with that size.
            let sent = unsafe { result::memcpy_htod_sync(base, &before) };
            sent.map_err(told("cuMemcpyHtoD", 0))?;
            self.sync()?;
            self.fill(0, span)?;
            self.check(0, span)?;
            let verdicts = self.verdicts()?;
            let mut found = [0u8; ROOM];
            // SAFETY: as above.
            let fetched = unsafe { result::memcpy_dtoh_sync(&mut found, base) };
            fetched.map_err(told("cuMemcpyDtoH", 0))?;
            let want = |at: usize| match (at as u64).checked_sub(shift) {
                Some(offset) if (from..to).contains(&offset) => byte(seed, offset),
                _ => 0xa5,
            };
            if verdicts != [0] || (0..ROOM).any(|at| found[at] != want(at)) {
                return Err(wrong(format!("filling {span:?} went wrong: {verdicts:?}")));
            }
            let other = Span {
                seed: !seed,
                ..span
            };
            self.check(0, other)?;
            let differ = (from..to).filter(|at| byte(seed, *at) != byte(!seed, *at));
            let differ = differ.count() as u64;
            let counted = self.verdicts()?;
            if counted != [differ] {
                return Err(wrong(format!(
                    "{counted:?} wrong bytes counted, not {differ}"
                )));
            }
        }
        self.unmap(base)
    }

    /// Whether nobody else seems to use the card: little is in use, and that does not change.
    fn seems_alone(&mut self) -> Result<bool, CardError> {
        let free = || result::mem_get_info().map_err(told("cuMemGetInfo", 0));
        let (before, total) = free()?;
        sleep(A_WHILE);
        let (after, _) = free()?;
        Ok(before == after && (total - before) as u64 <= CONTEXT_BYTES)
    }

    /// One line for people: model, memory, driver.
    pub(super) fn about(&self) -> String {
        let (major, minor) = (self.driver_version / 1000, self.driver_version % 1000 / 10);
        let memory = format_bytes(self.total_bytes);
        let driver = kernel_driver().map_or(String::new(), |driver| format!("driver {driver}, "));
        format!("{}, {memory}, {driver}CUDA {major}.{minor}", self.name)
    }

    /// Gives everything back that was taken when the card was opened.
    pub(super) fn close(&mut self) {
        // SAFETY: each was made when the card was opened or by it, and nothing uses them
        // any more: the card was cleared, which waits. What fails here could only be told.
        unsafe {
            let _ = result::memory_free(self.results);
            for stream in self.streams.drain(..) {
                let _ = result::stream::destroy(stream);
            }
            let _ = result::event::destroy(self.position);
            let _ = result::module::unload(self.module);
            let _ = result::primary_ctx::release(self.device);
        }
    }
}

/// The version of the kernel's driver, which the API does not tell: 580.159.04.
fn kernel_driver() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let version = |word: &&str| {
        word.contains('.')
            && word
                .chars()
                .all(|letter| letter.is_ascii_digit() || letter == '.')
    };
    text.split_whitespace().find(version).map(str::to_owned)
}
