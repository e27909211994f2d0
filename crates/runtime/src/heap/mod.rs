//! The process's allocator and the memory that it manages. A thread touches huge pages before they
//! are needed, and another one returns free memory to the system.
//!
//! Reads of small objects at random places, as in looking up a row, are faster in huge pages. But a
//! huge page arrives at its first touch, zeroed: that takes 100 µs if the machine has a free one,
//! and milliseconds if the host of a virtual machine must find it first. The kernel keeps the core
//! meanwhile, which stalls the thread that happens to touch the page. So here no page is huge
//! unless the thread of [`fill_ahead`] has touched it before (decision 0025 lists the exceptions).
//! A thread that takes memory faster than the pages are filled gets small pages, which cost
//! microseconds each.
//!
//! A second thread returns free memory every [`RETURN_INTERVAL`]. The allocator by itself returns
//! all of it in one step of an arbitrary thread, which may hold the core of a shard for 5 ms.
//!
//! Memory bound: the memory that the allocator takes, and huge pages that are filled ahead: at most
//! 16 MiB and an eighth of the most memory that the allocator ever took. While the allocator has
//! taken at most 64 MiB besides its own records, no page is filled ahead.

mod allocator;
mod area;

use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use allocator::prepare_for_threads;
pub use allocator::{Allocator, allocator, refused_parts, return_unused};
use area::{Area, HUGE_PAGE, REGION};
use rustix::fs::{Mode, OFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::process::{Resource, getrlimit};

/// 60 GiB. The allocator maps memory beyond that itself.
const MAX_REGIONS: usize = 1920;

/// The interval at which a thread returns free memory to the system. The allocator's default delay
/// is the same.
const RETURN_INTERVAL: Duration = Duration::from_secs(1);

/// The pause of that thread after each 2 MiB that it returns, so that a shard on the same core can
/// run (arbitrary).
const RETURN_PAUSE: Duration = Duration::from_millis(1);

static AREA: Area<MAX_REGIONS> = Area::new();
/// The address at which the area begins; 0 means that there is none.
static START: AtomicUsize = AtomicUsize::new(0);
static THREAD: OnceLock<Thread> = OnceLock::new();
static HAS_NEWS: AtomicBool = AtomicBool::new(false);

thread_local! {
    static RETURNED: Cell<usize> = const { Cell::new(0) };
    /// True if the thread pauses while it returns memory.
    static PAUSES: Cell<bool> = const { Cell::new(false) };
}

/// Reserves addresses for as much memory as the machine has, at most [`MAX_REGIONS`]; they take no
/// memory yet. The start and the length are multiples of 32 MiB. Returns `None` if the system gives
/// no addresses or counts them as memory, if a limit of the process applies to them, and at every
/// later call. Does not allocate.
fn reserve() -> Option<NonNull<[u8]>> {
    static IS_RESERVED: AtomicBool = AtomicBool::new(false);
    if IS_RESERVED.swap(true, Ordering::Relaxed) {
        return None;
    }
    if is_committed_when_mapped() || is_limited() {
        return None;
    }
    let machine_bytes = usize::try_from(crate::memory::machine_bytes()).ok()?;
    let regions = (machine_bytes / REGION).clamp(1, MAX_REGIONS);
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the system chooses addresses that nothing has.
    let mapped =
        unsafe { mmap_anonymous(null_mut(), (regions + 1) * REGION, access, flags) }.ok()?;
    let start = mapped.cast::<u8>().wrapping_add(mapped.cast::<u8>().align_offset(REGION));
    // SAFETY: the range was just mapped and has no content. Without this advice all of it would be
    // huge on systems that make all memory huge.
    let _ = unsafe { madvise(start.cast(), regions * REGION, Advice::LinuxNoHugepage) };
    AREA.set_count(regions);
    START.store(start.expose_provenance(), Ordering::Relaxed);
    NonNull::new(std::ptr::slice_from_raw_parts_mut(start, regions * REGION))
}

/// Returns whether the system counts reserved addresses as memory (`vm.overcommit_memory` is 2).
/// Reserving would then leave none for other processes.
fn is_committed_when_mapped() -> bool {
    let mut mode = [0];
    let path = c"/proc/sys/vm/overcommit_memory";
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    file.is_ok_and(|file| rustix::io::read(file, &mut mode).is_ok()) && mode == *b"2"
}

/// Returns whether the process has a limit of addresses or memory (`ulimit -v` and `-d`). The
/// reservation would count against it.
fn is_limited() -> bool {
    [Resource::As, Resource::Data].into_iter().any(|resource| getrlimit(resource).current.is_some())
}

/// Records that the memory taken so far is the allocator's own: it says nothing about the needs of
/// the process.
fn record_allocators_own() {
    AREA.record_allocators_own();
}

/// Returns whether an address is in the reserved area.
pub fn has(address: *const u8) -> bool {
    let offset = address.addr().wrapping_sub(START.load(Ordering::Relaxed));
    AREA.count() * REGION > offset
}

/// Records that bytes of the reserved area are about to be used. Any thread may call it; it does
/// not allocate.
fn take(start: NonNull<u8>, bytes: usize) {
    if AREA.take(offsets(start, bytes)) {
        wake();
    }
}

/// Returns the bytes of the reserved area that the calling thread has given back to the system.
pub fn returned_by_thread() -> usize {
    RETURNED.get()
}

/// Gives bytes of the reserved area back to the system: they are zeros when they are used again.
/// Any thread may call it; it does not allocate.
///
/// # Safety
/// No thread uses the bytes. They are whole pages.
unsafe fn leave(start: NonNull<u8>, bytes: usize) {
    // In steps, because other threads that map memory or change its advice wait until a step ends.
    for offset in (0..bytes).step_by(HUGE_PAGE) {
        let step = start.as_ptr().wrapping_add(offset).cast::<c_void>();
        let length = HUGE_PAGE.min(bytes - offset);
        // SAFETY: the caller's promise.
        let _ = unsafe { madvise(step, length, Advice::LinuxDontNeed) };
        let before = RETURNED.get();
        RETURNED.set(before + length);
        if PAUSES.get() && before / HUGE_PAGE != (before + length) / HUGE_PAGE {
            thread::sleep(RETURN_PAUSE);
        }
    }
    AREA.leave(offsets(start, bytes));
}

fn offsets(start: NonNull<u8>, bytes: usize) -> Range<usize> {
    let first = start.addr().get().saturating_sub(START.load(Ordering::Relaxed));
    first..first + bytes
}

fn wake() {
    if !HAS_NEWS.swap(true, Ordering::AcqRel)
        && let Some(thread) = THREAD.get()
    {
        thread.unpark();
    }
}

/// Starts two threads, for as long as the process lives: one touches huge pages before they are
/// used, the other returns free memory to the system. Does nothing if no area was reserved, or if
/// the threads exist already.
///
/// # Errors
/// Fails if a thread cannot be started.
pub fn fill_ahead() -> io::Result<()> {
    let start = START.load(Ordering::Relaxed);
    if start == 0 || THREAD.get().is_some() {
        return Ok(());
    }
    let memory = Memory { start };
    let work = move || loop {
        while HAS_NEWS.swap(false, Ordering::AcqRel) {
            AREA.tend(&mut |page| memory.fill(page));
        }
        thread::park();
    };
    let handle = thread::Builder::new().name("heap".to_owned()).spawn(work)?;
    let _ = THREAD.set(handle.thread().clone());
    // Starts with the pages that were taken before the thread existed.
    handle.thread().unpark();
    let work = || {
        PAUSES.set(true);
        loop {
            thread::sleep(RETURN_INTERVAL);
            return_unused();
        }
    };
    thread::Builder::new().name("heap return".to_owned()).spawn(work)?;
    prepare_for_threads();
    Ok(())
}

/// The reserved area.
struct Memory {
    start: usize,
}

impl Memory {
    fn page(&self, page: usize) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.start + page * HUGE_PAGE)
    }

    fn advise(&self, page: usize, advice: Advice) {
        // SAFETY: the page is in the reserved area, and neither advice changes its content.
        let _ = unsafe { madvise(self.page(page), HUGE_PAGE, advice) };
    }

    /// Makes the page present as one huge page, which can take milliseconds. After the page is
    /// given back to the system, a touch there brings small pages.
    fn fill(&self, page: usize) {
        // If another thread touches the page from here on, that touch makes the page huge instead
        // of the touch below.
        self.advise(page, Advice::LinuxHugepage);
        // SAFETY: the page is in the reserved area. Another thread may already use it, without
        // atomics; the processor orders this operation before or after its writes, and the content
        // stays. (The kernel can populate the page too, but would hold the lock of all mappings
        // meanwhile.)
        let first = unsafe { AtomicU8::from_ptr(self.page(page).cast()) };
        let _ = first.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
        // The page stays huge until it is given back. A later touch must not bring a huge page at
        // once, and the kernel's own thread must not make one, because either would stall the
        // threads that wait for it.
        self.advise(page, Advice::LinuxNoHugepage);
    }
}
