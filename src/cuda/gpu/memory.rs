//! Memory of a real card: mapped whole, by pages, and from a pool of the driver.

use std::ffi::c_void;
use std::mem::zeroed;
use std::ptr;

use cudarc::driver::result;
use cudarc::driver::sys;

use super::{Done, Gpu, Page, Reservation, told};
use crate::cuda::card::{Card, CardError};
use crate::trace::StreamId;

fn place(device: sys::CUdevice) -> sys::CUmemLocation {
    sys::CUmemLocation {
        type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        id: device,
    }
}

/// What pages are: plain memory of one device, shared with nobody.
fn pages_of(device: sys::CUdevice) -> sys::CUmemAllocationProp {
    // SAFETY: a structure of numbers and pointers, of which all may be zero.
    let mut properties: sys::CUmemAllocationProp = unsafe { zeroed() };
    properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = place(device);
    properties
}

/// What pages come in multiples of, in bytes.
pub(super) fn granularity(device: sys::CUdevice) -> Done<u64> {
    let (properties, mut bytes) = (pages_of(device), 0usize);
    let least = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    // SAFETY: the driver reads the properties and writes one integer.
    unsafe { sys::cuMemGetAllocationGranularity(&raw mut bytes, &raw const properties, least) }
        .result()
        .map_err(told("cuMemGetAllocationGranularity", 0))?;
    Ok(bytes as u64)
}

fn unknown(call: &'static str, address: u64) -> CardError {
    CardError::Driver {
        call,
        what: format!("nothing was taken at {address:#x}"),
    }
}

impl Gpu {
    pub(super) fn map_memory(&mut self, bytes: u64) -> Done<u64> {
        // SAFETY: plain memory of the card; it is entered in the books below.
        let base = unsafe { result::malloc_sync(bytes as usize) };
        let base = base.map_err(told("cuMemAlloc", bytes))?;
        self.mapped.insert(base, bytes);
        Ok(base)
    }

    pub(super) fn unmap_memory(&mut self, base: u64) -> Done {
        let known = self.mapped.remove(&base);
        known.ok_or_else(|| unknown("cuMemFree", base))?;
        // SAFETY: the address is in the books, and leaves them here.
        unsafe { result::memory_free(base) }.map_err(told("cuMemFree", 0))
    }

    pub(super) fn reserve_addresses(&mut self, bytes: u64) -> Done<u64> {
        let mut base = 0;
        // SAFETY: the driver writes one address; no hint and no alignment of our own.
        let reserved = unsafe { sys::cuMemAddressReserve(&raw mut base, bytes as usize, 0, 0, 0) };
        reserved
            .result()
            .map_err(told("cuMemAddressReserve", bytes))?;
        let reservation = Reservation {
            bytes,
            ..Reservation::default()
        };
        self.reservations.insert(base, reservation);
        Ok(base)
    }

    pub(super) fn free_addresses(&mut self, base: u64) -> Done {
        let Some(gone) = self.reservations.get(&base) else {
            return Err(unknown("cuMemAddressFree", base));
        };
        let (bytes, end) = (gone.bytes, base + gone.bytes);
        self.unback_pages(base, end - base)?;
        self.reservations.remove(&base);
        // SAFETY: the range is in the books, without pages, and leaves them here.
        unsafe { sys::cuMemAddressFree(base, bytes as usize) }
            .result()
            .map_err(told("cuMemAddressFree", 0))
    }

    /// The reservation that holds an address.
    fn reservation(&mut self, at: u64) -> Done<&mut Reservation> {
        let below = self.reservations.range_mut(..=at).next_back();
        let held = below.filter(|(base, reservation)| at - **base < reservation.bytes);
        held.map(|(_, reservation)| reservation)
            .ok_or_else(|| unknown("cuMemMap", at))
    }

    /// One handle a page, as a policy may take each of them away again.
    pub(super) fn back_pages(&mut self, at: u64, bytes: u64, page_bytes: u64) -> Done {
        let page_bytes = page_bytes.max(self.granularity_bytes);
        for page in (at..at + bytes).step_by(page_bytes as usize) {
            if let Err(error) = self.back_page(page, page_bytes.min(at + bytes - page)) {
                self.unback_pages(at, page - at)?;
                return Err(error);
            }
        }
        self.open_pages(at, bytes)
    }

    /// Lets mapped pages be read and written.
    pub(super) fn open_pages(&mut self, at: u64, bytes: u64) -> Done {
        let access = sys::CUmemAccessDesc {
            location: place(self.device),
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the range is mapped, or the driver says that it is not; it reads one
        // description.
        unsafe { sys::cuMemSetAccess(at, bytes as usize, &raw const access, 1) }
            .result()
            .map_err(told("cuMemSetAccess", bytes))
    }

    /// Physical memory of its own.
    fn create_pages(&self, bytes: u64) -> Done<sys::CUmemGenericAllocationHandle> {
        let (properties, mut handle) = (pages_of(self.device), 0);
        // SAFETY: the driver reads the properties and writes one handle.
        unsafe { sys::cuMemCreate(&raw mut handle, bytes as usize, &raw const properties, 0) }
            .result()
            .map_err(told("cuMemCreate", bytes))?;
        Ok(handle)
    }

    fn back_page(&mut self, at: u64, bytes: u64) -> Done {
        let handle = self.create_pages(bytes)?;
        let page = Page {
            handle,
            bytes,
            alias: false,
        };
        let mapped = self.map_page(at, page);
        if mapped.is_err() {
            // SAFETY: the handle is mapped nowhere and is forgotten here.
            let _ = unsafe { sys::cuMemRelease(handle) };
        }
        mapped
    }

    fn map_page(&mut self, at: u64, page: Page) -> Done {
        let reservation = self.reservation(at)?;
        // SAFETY: the handle is live; the range is reserved, and the driver refuses one
        // that has pages.
        unsafe { sys::cuMemMap(at, page.bytes as usize, 0, page.handle, 0) }
            .result()
            .map_err(told("cuMemMap", page.bytes))?;
        reservation.pages.insert(at, page);
        Ok(())
    }

    /// Maps the handles behind a range a second time.
    pub(super) fn alias_pages(&mut self, at: u64, from: u64, bytes: u64) -> Done {
        let origin = self.reservation(from)?;
        let pages = origin.pages.range(from..from + bytes);
        let pages: Vec<(u64, Page)> = pages.map(|(page, held)| (*page, *held)).collect();
        if pages.iter().map(|(_, page)| page.bytes).sum::<u64>() != bytes {
            return Err(unknown("cuMemMap", from));
        }
        for (address, page) in pages {
            let page = Page {
                alias: true,
                ..page
            };
            self.map_page(at + (address - from), page)?;
        }
        Ok(())
    }

    pub(super) fn unback_pages(&mut self, at: u64, bytes: u64) -> Done {
        let reservation = self.reservation(at)?;
        let pages = reservation.pages.range(at..at + bytes);
        let pages: Vec<_> = pages.map(|(page, held)| (*page, *held)).collect();
        for (page, _) in &pages {
            reservation.pages.remove(page);
        }
        let mut done = Ok(());
        for (at, bytes) in mappings(&pages) {
            // SAFETY: whole mappings, and the host has waited for their users.
            let unmapped = unsafe { sys::cuMemUnmap(at, bytes as usize) };
            done = done.and(unmapped.result().map_err(told("cuMemUnmap", 0)));
        }
        for (_, page) in pages.iter().filter(|(_, page)| !page.alias) {
            // SAFETY: the handle is released once; it left the books above. Where it is
            // still mapped elsewhere, its memory goes with the last mapping.
            let released = unsafe { sys::cuMemRelease(page.handle) };
            done = done.and(released.result().map_err(told("cuMemRelease", 0)));
        }
        done
    }

    pub(super) fn make_pool(&mut self, most_bytes: u64, keep_bytes: u64) -> Done {
        // SAFETY: a structure of numbers and pointers, of which all may be zero.
        let mut properties: sys::CUmemPoolProps = unsafe { zeroed() };
        properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = place(self.device);
        properties.maxSize = most_bytes as usize;
        self.destroy_pool();
        // SAFETY: the driver reads the properties; the pool is destroyed with the card.
        let pool = unsafe { result::mem_pool::create(&raw const properties) };
        self.pool = pool.map_err(told("cuMemPoolCreate", most_bytes))?;
        let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        let mut keep_bytes = keep_bytes;
        let value = ptr::from_mut(&mut keep_bytes).cast::<c_void>();
        // SAFETY: the pool is live, and the value of this attribute is one u64.
        unsafe { result::mem_pool::set_attribute(self.pool, threshold, value) }
            .map_err(told("cuMemPoolSetAttribute", 0))
    }

    pub(super) fn pool_attribute(&mut self, attribute: sys::CUmemPool_attribute) -> Done<u64> {
        let mut value = 0u64;
        let place = ptr::from_mut(&mut value).cast::<c_void>();
        // SAFETY: the pool is live, or null, which the driver refuses; the attributes that
        // are asked for are one u64 each.
        unsafe { result::mem_pool::get_attribute(self.pool, attribute, place) }
            .map_err(told("cuMemPoolGetAttribute", 0))?;
        Ok(value)
    }

    pub(super) fn pool_take(&mut self, bytes: u64, lane: StreamId) -> Done<u64> {
        let stream = self.stream(lane)?;
        // SAFETY: pool and stream are live; the address is entered in the books.
        let address = unsafe { result::mem_pool::alloc_async(self.pool, bytes as usize, stream) };
        let address = address.map_err(told("cuMemAllocFromPoolAsync", bytes))?;
        self.pooled.insert(address);
        Ok(address)
    }

    pub(super) fn pool_give(&mut self, address: u64, lane: StreamId) -> Done {
        let stream = self.stream(lane)?;
        if !self.pooled.remove(&address) {
            return Err(unknown("cuMemFreeAsync", address));
        }
        // SAFETY: the address is in the books, and leaves them here; the stream is live.
        unsafe { result::free_async(address, stream) }.map_err(told("cuMemFreeAsync", 0))
    }

    fn destroy_pool(&mut self) {
        if !self.pool.is_null() {
            // SAFETY: the pool is live and is forgotten here.
            let _ = unsafe { result::mem_pool::destroy(self.pool) };
            self.pool = ptr::null_mut();
        }
    }

    /// Gives back all memory that was taken. What fails is not told: the card may be in a
    /// state in which every call fails, and the context goes with all of it.
    pub(super) fn clear_memory(&mut self) {
        let _ = self.sync();
        while let Some(address) = self.pooled.pop_first() {
            // SAFETY: the address was in the books; the null stream orders behind nothing
            // that still runs, since the host has waited.
            let _ = unsafe { result::free_async(address, ptr::null_mut()) };
        }
        let _ = self.sync();
        self.destroy_pool();
        while let Some((base, _)) = self.mapped.pop_first() {
            // SAFETY: the address was in the books.
            let _ = unsafe { result::memory_free(base) };
        }
        let bases: Vec<u64> = self.reservations.keys().copied().collect();
        for base in bases {
            let _ = self.free_addresses(base);
        }
        self.reservations.clear();
    }
}

/// What is unmapped by a call each: own pages one by one, as allocators do that release
/// each handle behind it; second mappings by the run, as they go together.
fn mappings(pages: &[(u64, Page)]) -> Vec<(u64, u64)> {
    let mut calls: Vec<(u64, u64)> = Vec::new();
    let mut run_end = None;
    for (at, page) in pages {
        match calls.last_mut() {
            Some(last) if page.alias && run_end == Some(*at) => last.1 += page.bytes,
            _ => calls.push((*at, page.bytes)),
        }
        run_end = page.alias.then_some(at + page.bytes);
    }
    calls
}
