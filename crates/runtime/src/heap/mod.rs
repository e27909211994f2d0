//! Memory for an allocator whose huge pages a thread brings before anybody needs them.
//!
//! Small objects in huge pages are read faster: looking up a row goes to random places. But a huge page comes at its first touch, zeroed, which
//! takes 100 µs where the machine has it at hand and milliseconds where the host of a virtual machine must find it first, and the kernel does
//! not let go of the core meanwhile: a stall for whoever happens to touch it. So here no page is huge unless the thread made by
//! [`fill_ahead`] has touched it before (decision 0025 says where that does not hold yet); whoever is faster than this thread gets small pages, which cost microseconds each.
//!
//! Memory bound: what the allocator takes, and ahead an eighth of the most that it ever took and 16 MiB; nothing ahead below 64 MiB.

mod area;

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::thread::{self, Thread};

use area::{Area, HUGE_PAGE, REGION};
use rustix::fs::{Mode, OFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::process::{Resource, getrlimit};

/// 60 GiB. An allocator gets what it needs beyond that by itself.
const MOST_REGIONS: usize = 1920;

static AREA: Area<MOST_REGIONS> = Area::new();
/// Where it begins; 0: there is none.
static START: AtomicUsize = AtomicUsize::new(0);
static THREAD: OnceLock<Thread> = OnceLock::new();
static HAS_NEWS: AtomicBool = AtomicBool::new(false);

/// Addresses for as much memory as the machine has, which take no memory yet. They are aligned to 32 MiB, and so is their number. `None` if there
/// are none, and whenever it is called again. It does not allocate.
pub fn reserve() -> Option<NonNull<[u8]>> {
    static IS_RESERVED: AtomicBool = AtomicBool::new(false);
    if IS_RESERVED.swap(true, Ordering::Relaxed) {
        return None;
    }
    if is_committed_when_mapped() || is_limited() {
        return None;
    }
    let machine_bytes = usize::try_from(crate::memory::machine_bytes()).ok()?;
    let regions = (machine_bytes / REGION).clamp(1, MOST_REGIONS);
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the system chooses addresses that nothing has.
    let mapped =
        unsafe { mmap_anonymous(null_mut(), (regions + 1) * REGION, access, flags) }.ok()?;
    let start = mapped.cast::<u8>().wrapping_add(mapped.cast::<u8>().align_offset(REGION));
    // SAFETY: it was just mapped, and has nothing in it. Else all of it would be huge where the system makes all memory so.
    let _ = unsafe { madvise(start.cast(), regions * REGION, Advice::LinuxNoHugepage) };
    AREA.set_count(regions);
    START.store(start.expose_provenance(), Ordering::Relaxed);
    NonNull::new(std::ptr::slice_from_raw_parts_mut(start, regions * REGION))
}

/// Whether the system counts addresses as memory (`vm.overcommit_memory` is 2). Then others would have none.
fn is_committed_when_mapped() -> bool {
    let mut mode = [0];
    let path = c"/proc/sys/vm/overcommit_memory";
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    file.is_ok_and(|file| rustix::io::read(file, &mut mode).is_ok()) && mode == *b"2"
}

/// Whether the process may have only so many addresses, or so much memory (`ulimit -v` and `-d`). What is reserved would count.
fn is_limited() -> bool {
    [Resource::As, Resource::Data].into_iter().any(|resource| getrlimit(resource).current.is_some())
}

/// Notes that what was taken so far is the allocator's own: it says nothing about how much the process needs.
pub fn note_allocators_own() {
    AREA.note_allocators_own();
}

/// Whether an address is in what was reserved.
pub fn has(address: *const u8) -> bool {
    let offset = address.addr().wrapping_sub(START.load(Ordering::Relaxed));
    AREA.count() * REGION > offset
}

/// Notes that bytes of what was reserved are about to be used. Any thread may call it; it does not allocate.
pub fn take(start: NonNull<u8>, bytes: usize) {
    if AREA.take(offsets(start, bytes)) {
        wake();
    }
}

/// Gives bytes of what was reserved back to the system: they are zeros when they are used again. Any thread may call it; it does not allocate.
///
/// # Safety
/// Nobody uses them. They are whole pages.
pub unsafe fn leave(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise.
    let _ = unsafe { madvise(start.as_ptr().cast::<c_void>(), bytes, Advice::LinuxDontNeed) };
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

/// Makes a thread that brings huge pages ahead of those who use them, for as long as the process lives. Without [`reserve`] it does nothing.
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
    // What was taken before.
    handle.thread().unpark();
    Ok(())
}

/// What was reserved.
struct Memory {
    start: usize,
}

impl Memory {
    fn page(&self, page: usize) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.start + page * HUGE_PAGE)
    }

    fn advise(&self, page: usize, advice: Advice) {
        // SAFETY: the page is in what was reserved, and neither advice changes what is in it.
        let _ = unsafe { madvise(self.page(page), HUGE_PAGE, advice) };
    }

    /// Brings a page, as one. Milliseconds. When it is given back to the system, what is touched there next are small pages.
    fn fill(&self, page: usize) {
        // A touch from elsewhere meanwhile brings it as well, as this one would.
        self.advise(page, Advice::LinuxHugepage);
        // SAFETY: the page is in what was reserved. Somebody may use it by now, without atomics; the processor puts this in front of what they
        // write or behind it, and what is there stays. (The kernel can do the same, but would hold the lock of all mappings meanwhile.)
        let first = unsafe { AtomicU8::from_ptr(self.page(page).cast()) };
        let _ = first.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
        // It stays huge until it is given back. What is touched then is not for a huge page to come at once, nor for the kernel's own thread to make
        // one of, whoever waits for it.
        self.advise(page, Advice::LinuxNoHugepage);
    }
}
