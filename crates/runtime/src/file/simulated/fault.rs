//! Faults that a test injects into the simulated disk.

use super::super::error::Operation;
use std::path::Path;

/// The effect of a fault on an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The operation fails with "No space left on device" and changes nothing, except that a failed
    /// sync does what `InputOutput` says.
    NoSpace,
    /// The operation fails with "Input/output error". A failed sync makes a random part of the
    /// changes durable, and no later sync makes the rest durable (as on Linux).
    InputOutput,
    /// A write: the first half reaches the file, then "No space left on device".
    Torn,
    /// A read: one bit of the returned bytes is wrong; the file itself does not change.
    FlipBit,
}

/// A rule that makes operations fail.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The operation that fails.
    pub operation: Operation,
    /// A part of the path of the files that the fault concerns; empty for all files.
    pub path_contains: String,
    /// The number of matching operations that pass first.
    pub skip: u64,
    /// The number of matching operations that fail after the skipped ones.
    pub count: u64,
    /// The form of the failure.
    pub effect: Effect,
}

impl Fault {
    /// Creates a fault that makes the `nth` (from 0) such operation from now on fail once, whatever
    /// its path.
    pub fn nth(operation: Operation, nth: u64, effect: Effect) -> Self {
        Fault { operation, path_contains: String::new(), skip: nth, count: 1, effect }
    }

    /// Creates a fault that makes every such operation fail from now on.
    pub fn always(operation: Operation, effect: Effect) -> Self {
        Fault { operation, path_contains: String::new(), skip: 0, count: u64::MAX, effect }
    }

    /// Restricts the fault to paths that contain `part`.
    pub fn on_path(mut self, part: impl Into<String>) -> Self {
        self.path_contains = part.into();
        self
    }
}

/// Returns the effect of the first fault that strikes this operation, and counts it.
pub(super) fn strike(faults: &mut [Fault], operation: Operation, path: &Path) -> Option<Effect> {
    let path = path.to_string_lossy();
    for fault in faults {
        if fault.operation != operation || !path.contains(&fault.path_contains) {
            continue;
        }
        if fault.skip > 0 {
            fault.skip -= 1;
        } else if fault.count > 0 {
            fault.count -= 1;
            return Some(fault.effect);
        }
    }
    None
}
