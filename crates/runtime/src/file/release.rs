//! Closes removed files on a thread, and frees the blocks of large ones a few at a time.
//!
//! The kernel frees a removed file's blocks when its last descriptor is closed, all of them before
//! `close` returns. If the file system is mounted with `discard`, it also reports each block to the
//! device. Meanwhile the disk serves no reads: for 22 ms per GiB on the machine measured, and for
//! 150 ms if a compaction removes several files at once. A small file takes 0.1 to 1 ms of the
//! core, and a compaction closes all files of its inputs in one step. So a task that closes a
//! removed file sends a descriptor of the file to a thread, the releaser. The releaser shortens one
//! file at a time, step by step, and then closes the file.

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

/// From this length on, in bytes, the thread also frees a file that was open nowhere when it was
/// removed.
pub(super) const LARGE_BYTES: u64 = 4 << 20;
/// Bytes freed in one step (arbitrary): 0.2 ms of the disk at 22 ms per GiB.
const STEP_BYTES: u64 = 8 << 20;
/// Maximum number of files that wait for the thread (arbitrary). There is a limit because each of
/// them has an open descriptor. Further files are closed at once.
const MAX_WAITING: usize = 512;
/// The pause between two steps (arbitrary).
const PAUSE: Duration = Duration::from_millis(10);

/// For each device, the bytes of files that were sent to the thread with their only open descriptor
/// and are not free yet.
static WAITING_BYTES: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

/// Changes the count of bytes that wait on a device.
fn change_waiting(device: u64, change: impl FnOnce(u64) -> u64) {
    let mut waiting = WAITING_BYTES.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes = waiting.entry(device).or_default();
    *bytes = change(*bytes);
}

/// A file without a name, to be freed.
struct Removed {
    descriptor: OwnedFd,
    device: u64,
    /// The bytes of this file in [`WAITING_BYTES`].
    waiting_bytes: u64,
}

impl Removed {
    /// Takes a file whose release will free `waiting_bytes`.
    fn new(descriptor: OwnedFd, waiting_bytes: u64) -> Self {
        let file = std::fs::File::from(descriptor);
        // If the file cannot be queried, it counts for a device that no caller queries.
        let device = file.metadata().map_or(u64::MAX, |found| found.dev());
        change_waiting(device, |bytes| bytes + waiting_bytes);
        Self { descriptor: file.into(), device, waiting_bytes }
    }

    fn record_freed(&mut self, bytes: u64) {
        let bytes = bytes.min(self.waiting_bytes);
        self.waiting_bytes -= bytes;
        change_waiting(self.device, |waiting| waiting.saturating_sub(bytes));
    }
}

impl Drop for Removed {
    fn drop(&mut self) {
        self.record_freed(u64::MAX);
    }
}

/// Returns the bytes of removed files of a device that will be free soon.
pub(super) fn waiting_bytes(device: u64) -> u64 {
    let waiting = WAITING_BYTES.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.get(&device).copied().unwrap_or_default()
}

/// Frees the removed file of `descriptor`, whose length is `length` bytes, if it is open nowhere
/// else; otherwise only closes it. If the queue of the thread is full or there is no thread, the
/// caller closes the file itself.
pub(super) fn release(descriptor: OwnedFd, length: u64) {
    static RELEASER: OnceLock<Option<SyncSender<Removed>>> = OnceLock::new();
    let releaser = RELEASER.get_or_init(|| {
        ignore_broken_leases();
        let (sender, receiver) = mpsc::sync_channel::<Removed>(MAX_WAITING);
        let work = move || {
            become_helper_thread();
            let mut freed_bytes = 0;
            for removed in receiver {
                freed_bytes += removed.waiting_bytes.min(STEP_BYTES);
                shorten(removed);
                if freed_bytes >= STEP_BYTES {
                    freed_bytes = 0;
                    thread::sleep(PAUSE);
                }
            }
        };
        let started = thread::Builder::new().spawn(work);
        started.is_ok().then_some(sender)
    });
    #[cfg(test)]
    tests::record_descriptors(&descriptor);
    // If several descriptors are open, it is uncertain which of them frees the file.
    let waiting_bytes = if is_only_descriptor(&descriptor) { length } else { 0 };
    let removed = Removed::new(descriptor, waiting_bytes);
    // Without the thread, or if its queue is full, the file is closed here.
    if let Some(releaser) = releaser {
        let _ = releaser.try_send(removed);
    }
}

/// Ignores the signal of a broken lease. The kernel sends it if another process opens the file by
/// its descriptor's path during the lease, and the signal would end this process.
fn ignore_broken_leases() {
    // SAFETY: a system call with two integers. Nothing else in this process uses this signal.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
}

fn shorten(mut removed: Removed) {
    let descriptor = &removed.descriptor;
    // The thread closes each descriptor before it takes the next one, so the last of several
    // descriptors of a file finds no other.
    if !is_only_descriptor(descriptor) {
        return;
    }
    // A file that was opened to read cannot be shortened.
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let Ok(file) = OpenOptions::new().write(true).open(path) else { return };
    let Ok(found) = file.metadata() else { return };
    // Another process may have given the file a second name before the first one was removed.
    if found.nlink() > 0 {
        return;
    }
    let mut length = found.len();
    while length > STEP_BYTES {
        length -= STEP_BYTES;
        if file.set_len(length).is_err() {
            return;
        }
        removed.record_freed(STEP_BYTES);
        thread::sleep(PAUSE);
    }
}

/// Returns whether no other process or thread has the file open: the kernel's condition for a write
/// lease. Returns false on a file system without leases, where it cannot be known.
fn is_only_descriptor(descriptor: &OwnedFd) -> bool {
    let lease = |kind: libc::c_int| {
        // SAFETY: a system call with an open descriptor and an integer.
        unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETLEASE, kind) }
    };
    // The lease is returned at once, because only the answer was needed.
    lease(libc::F_WRLCK) == 0 && lease(libc::F_UNLCK) == 0
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        fs::File,
        io::Write,
        os::unix::fs::FileExt,
        path::{Path, PathBuf},
    };

    use super::*;
    use crate::{block_on, file::FileSystem};

    thread_local! {
        static DESCRIPTORS: Cell<usize> = const { Cell::new(0) };
    }

    /// Records the number of descriptors that this process has of a file that is being released.
    pub(super) fn record_descriptors(descriptor: &OwnedFd) {
        let identity = |path: &Path| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.dev(), found.ino()))
        };
        let released = PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let is_same = |path: &Path| identity(path) == identity(&released);
        DESCRIPTORS.set(open.filter(|entry| is_same(&entry.path())).count());
    }

    #[test]
    fn a_task_closes_a_removed_file_before_the_thread_does() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("small");
        block_on(async {
            let file = FileSystem::real().create_new(&path).await.unwrap();
            file.append(b"content".to_vec()).await.unwrap();
            std::fs::remove_file(&path).unwrap();
            drop(file);
        });
        assert_eq!(DESCRIPTORS.get(), 1);
    }

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
    fn a_removed_file_with_another_descriptor_keeps_its_content() {
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
    fn the_last_user_of_a_removed_file_truncates_it() {
        let (_directory, path) = large_file();
        let descriptor = OwnedFd::from(File::open(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        // A second descriptor of the same open file does not count as a user; it reports the length
        // here.
        let look = File::from(descriptor.try_clone().unwrap());
        let length_before = look.metadata().unwrap().len();
        let device = look.metadata().unwrap().dev();
        let removed = Removed::new(descriptor, length_before);
        // Other tests may free files too, but not on that device.
        assert!(waiting_bytes(device) >= length_before);
        assert_eq!(waiting_bytes(device + 1), 0);
        shorten(removed);
        let length = look.metadata().unwrap().len();
        // Without leases the file keeps its length.
        assert_eq!(length, if has_leases() { 5 } else { 3 * STEP_BYTES + 5 });
    }
}
