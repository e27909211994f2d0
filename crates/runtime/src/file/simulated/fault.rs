//! Faults on demand.

use super::super::error::Operation;
use std::path::Path;

/// What happens instead of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It fails with "No space left on device" and changes nothing.
    NoSpace,
    /// It fails with "Input/output error". A failed sync has made durable a random part of what it was to,
    /// and no later sync will make the rest durable (as on Linux).
    InputOutput,
    /// A write: the first half gets to the file, then "No space left on device".
    Torn,
    /// A read: one bit of what it gives is wrong; the file itself is not changed.
    FlipBit,
}

/// A rule about operations that fail.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Which operations.
    pub operation: Operation,
    /// Only where the path contains this; empty for all.
    pub path_contains: String,
    /// How many matching operations pass first.
    pub skip: u64,
    /// How many then fail.
    pub count: u64,
    /// How.
    pub effect: Effect,
}

impl Fault {
    /// The `nth` (from 0) such operation from now on fails once, whatever its path.
    pub fn nth(operation: Operation, nth: u64, effect: Effect) -> Self {
        Fault { operation, path_contains: String::new(), skip: nth, count: 1, effect }
    }

    /// Every such operation fails from now on.
    pub fn always(operation: Operation, effect: Effect) -> Self {
        Fault { operation, path_contains: String::new(), skip: 0, count: u64::MAX, effect }
    }

    /// Only where the path contains `part`.
    pub fn on_path(mut self, part: impl Into<String>) -> Self {
        self.path_contains = part.into();
        self
    }
}

/// The effect of the first fault that strikes this operation; counts it.
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
