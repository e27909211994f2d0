//! The blocks of large removed files are freed a few at a time.
//!
//! The kernel frees a removed file's blocks when its last descriptor is closed, all of them before `close` returns, and where the file system is
//! mounted with `discard` it tells the device of each. Meanwhile nothing else is read: 22 ms for a GiB here, and several files
//! that go at once, as after a compaction, stop all reads for 150 ms. So whoever closes such a file last hands it to a thread,
//! which shortens it step by step, file after file, before it closes it.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    sync::{
        Mutex, OnceLock, PoisonError,
        mpsc::{self, SyncSender},
    },
    thread,
    time::Duration,
};

use crate::cpu::become_helper_thread;

/// From this length on, a removed file is freed in this way.
pub(super) const LARGE_BYTES: u64 = 4 << 20;
/// Freed at once: one or two milliseconds of the device.
const STEP_BYTES: u64 = 8 << 20;
/// Files that wait at most, for each has a descriptor. Others are closed where they are.
const MOST_WAITING: usize = 512;
/// Between two steps.
const PAUSE: Duration = Duration::from_millis(10);

/// By device, bytes of files that were handed over by who alone had them open, and are not free yet.
static WAITING_BYTES: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

/// Changes the bytes that wait on a device.
fn change_waiting(device: u64, change: impl FnOnce(u64) -> u64) {
    let mut waiting = WAITING_BYTES.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes = waiting.entry(device).or_default();
    *bytes = change(*bytes);
}

/// A file without a name.
struct Removed {
    descriptor: OwnedFd,
    device: u64,
    /// Of [`WAITING_BYTES`].
    waiting_bytes: u64,
}

impl Removed {
    /// Of which so many bytes will be free.
    fn new(descriptor: OwnedFd, waiting_bytes: u64) -> Self {
        let file = std::fs::File::from(descriptor);
        // A file that cannot be looked at is on no device that anybody asks for.
        let device = file.metadata().map_or(u64::MAX, |found| found.dev());
        change_waiting(device, |bytes| bytes + waiting_bytes);
        Self { descriptor: file.into(), device, waiting_bytes }
    }

    fn note_freed(&mut self, bytes: u64) {
        let bytes = bytes.min(self.waiting_bytes);
        self.waiting_bytes -= bytes;
        change_waiting(self.device, |waiting| waiting.saturating_sub(bytes));
    }
}

impl Drop for Removed {
    fn drop(&mut self) {
        self.note_freed(u64::MAX);
    }
}

/// Bytes of removed files of a device that will be free soon.
pub(super) fn waiting_bytes(device: u64) -> u64 {
    let waiting = WAITING_BYTES.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.get(&device).copied().unwrap_or_default()
}

/// Frees a removed file of this length, whose descriptor this is, if nobody else has it open; else it is only closed. Does not wait.
pub(super) fn release(descriptor: OwnedFd, length: u64) {
    static RELEASER: OnceLock<Option<SyncSender<Removed>>> = OnceLock::new();
    let releaser = RELEASER.get_or_init(|| {
        ignore_broken_leases();
        let (sender, receiver) = mpsc::sync_channel(MOST_WAITING);
        let work = move || {
            become_helper_thread();
            for removed in receiver {
                shorten(removed);
                thread::sleep(PAUSE);
            }
        };
        let started = thread::Builder::new().spawn(work);
        started.is_ok().then_some(sender)
    });
    // Of several who have it open, none frees it for sure.
    let waiting_bytes = if is_only_descriptor(&descriptor) { length } else { 0 };
    let removed = Removed::new(descriptor, waiting_bytes);
    // Without the thread, and where it has much to do, it is closed here.
    if let Some(releaser) = releaser {
        let _ = releaser.try_send(removed);
    }
}

/// Who opens a file by its descriptor's path in the moment of the lease would have the signal sent that says so, and that ends a process.
fn ignore_broken_leases() {
    // SAFETY: a system call with two integers. Nobody else here wants this signal.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
}

fn shorten(mut removed: Removed) {
    let descriptor = &removed.descriptor;
    // One after the other, so that of several who have the same file open the last one finds itself alone.
    if !is_only_descriptor(descriptor) {
        return;
    }
    // What was opened for reading cannot be shortened.
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let Ok(file) = OpenOptions::new().write(true).open(path) else { return };
    let Ok(found) = file.metadata() else { return };
    // Somebody may have given it a name again while it had one.
    if found.nlink() > 0 {
        return;
    }
    let mut length = found.len();
    while length > STEP_BYTES {
        length -= STEP_BYTES;
        if file.set_len(length).is_err() {
            return;
        }
        removed.note_freed(STEP_BYTES);
        thread::sleep(PAUSE);
    }
}

/// Whether no other process or thread has the file open: what the kernel asks of who wants a lease for writing. Of a file system
/// that has none, nobody knows.
fn is_only_descriptor(descriptor: &OwnedFd) -> bool {
    let lease = |kind: libc::c_int| {
        // SAFETY: a system call with an open descriptor and an integer.
        unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETLEASE, kind) }
    };
    // Given back at once: that it was given is all that was asked.
    lease(libc::F_WRLCK) == 0 && lease(libc::F_UNLCK) == 0
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write, os::unix::fs::FileExt};

    use super::*;

    fn large_file() -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("large");
        let mut file = File::create(&path).unwrap();
        file.write_all(&vec![7; 3 * STEP_BYTES as usize + 5]).unwrap();
        (directory, path)
    }

    fn has_leases() -> bool {
        let file = tempfile::tempfile().unwrap();
        // SAFETY: a system call with integers.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) == 0 }
    }

    #[test]
    fn a_file_that_somebody_else_has_open_keeps_its_content() {
        let (_directory, path) = large_file();
        let (first, second) = (File::open(&path).unwrap(), File::open(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(!is_only_descriptor(&first.try_clone().unwrap().into()));
        shorten(Removed::new(first.into(), 0));
        let mut byte = [0];
        second.read_exact_at(&mut byte, 3 * STEP_BYTES + 4).unwrap();
        assert_eq!((byte, second.metadata().unwrap().len()), ([7], 3 * STEP_BYTES + 5));
    }

    #[test]
    fn the_last_one_to_have_it_open_shortens_it() {
        let (_directory, path) = large_file();
        let descriptor = OwnedFd::from(File::open(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        // The same file description twice is no second user, and here is what tells how long it is.
        let look = File::from(descriptor.try_clone().unwrap());
        let length_before = look.metadata().unwrap().len();
        let device = look.metadata().unwrap().dev();
        let removed = Removed::new(descriptor, length_before);
        // Others may be at work, but on no such device.
        assert!(waiting_bytes(device) >= length_before);
        assert_eq!(waiting_bytes(device + 1), 0);
        shorten(removed);
        let length = look.metadata().unwrap().len();
        // Where there are no leases, it is as it was.
        assert_eq!(length, if has_leases() { 5 } else { 3 * STEP_BYTES + 5 });
    }
}
