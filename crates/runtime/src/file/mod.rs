//! Files and directories on the real disk or on a simulated one. The constructor of [`FileSystem`]
//! chooses the disk.
//!
//! Both back ends guarantee:
//!
//! - A read returns the bytes that were written before it through the same file system.
//! - Data survives a crash after `sync_data` or `sync_all` of the file *and*, for a new, renamed or
//!   linked name, [`FileSystem::sync_dir`] of the directory. Anything else may be lost in a crash;
//!   the simulated disk loses it at random.
//!
//! The reads of a [`File`] return [`PageBuffer`]s: aligned, pooled, reference counted. A file that
//! [`FileSystem::open_read_direct`] opened bypasses the kernel's page cache. It reads at any offset
//! and length, but a read that is not aligned to 4 KiB costs extra.
//! [`FileSystem::create_new_direct`] bypasses the kernel's page cache for writes.

mod disk_share;
mod error;
mod handle;
mod io_bytes;
mod lock;
mod page_buffer;
mod pool;
mod real;
mod release;
pub mod simulated;
mod system;
mod trickle_sync;

pub use disk_share::wait_for_disk;
pub use error::{FileError, Operation};
pub use handle::File;
pub use io_bytes::IoBytes;
pub(crate) use io_bytes::{Filling, Sending, SendingVectored};
pub use lock::{DirectoryLock, LockError};
pub use page_buffer::{PageBuffer, PageBufferMut};
pub use pool::{live_page_buffer_bytes, set_pool_limit};
pub use system::{DirectoryEntry, FileSystem, Metadata};
pub use trickle_sync::{TRICKLE_SYNC_BYTES, TrickleSync};

/// Bytes of a page: the unit of direct reads and of the alignment of [`PageBuffer`]s.
pub const PAGE_BYTES: usize = 4096;

/// The result of an operation on files.
pub type Result<T> = std::result::Result<T, FileError>;
