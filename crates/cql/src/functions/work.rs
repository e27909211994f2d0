//! Limits the work on long numbers and large values in one poll of a task.
//!
//! A call of a function does not yield, and a row or a statement can have thousands of calls. One
//! call on numbers of many digits takes up to 24 ms. So the functions count their work, and refuse
//! more than [`MAX_WORK`] until the task yields. Statements may yield between rows. If the work of
//! the poll is above [`YIELD`] after a row, they do, even if the work took little time.
//!
//! The unit of work is about a nanosecond. The work depends on the lengths of the operands, and a
//! little on the last power of ten, but not on the time that a call takes. So all machines refuse
//! the same statements.
//!
//! A byte that a function or a literal reads or writes counts as one unit. So [`MAX_WORK`] also
//! bounds the memory of the values that one row or statement computes.

use std::cell::Cell;

use espalier_runtime::preempt;
use espalier_types::varint::BigInt;

use super::decimal::ArithmeticError;
use crate::Error;

/// Limit of the work in one poll of a task. Arbitrary: about 0.2 s.
const MAX_WORK: u64 = 200_000_000;

/// Less work than this is not counted, so that short numbers cost no more than a comparison.
const FREE: u64 = 200;

/// Work after which the next `maybe_yield` yields. Arbitrary: about a millisecond.
const YIELD: u64 = 1_000_000;

thread_local! {
    /// The poll for which work was counted last, and its work.
    static DONE: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Counts work before it is done.
///
/// # Errors
/// [`ArithmeticError::Work`] if the poll has done too much work.
pub fn charge(work: u64) -> Result<(), ArithmeticError> {
    if work < FREE {
        return Ok(());
    }
    let Some(poll) = preempt::current_poll() else { return Ok(()) };
    let (last, before) = DONE.get();
    let done = if last == poll { before.saturating_add(work) } else { work };
    DONE.set((poll, done));
    if done > YIELD {
        preempt::use_up_budget();
    }
    if done > MAX_WORK { Err(ArithmeticError::Work) } else { Ok(()) }
}

/// Counts bytes that a function or a literal reads or writes, before it does so.
///
/// # Errors
/// The poll has done too much work.
#[inline]
pub fn charge_bytes(bytes: usize) -> crate::Result<()> {
    charge(bytes as u64).map_err(|_| too_many_bytes())
}

#[cold]
fn too_many_bytes() -> Error {
    Error::invalid(
        "The row or statement computes too much with large values; name fewer of them at a time",
    )
}

/// Counts the multiplication or division of two numbers.
///
/// # Errors
/// As [`charge`].
pub fn charge_product(left: &BigInt, right: &BigInt) -> Result<(), ArithmeticError> {
    charge(words(left).saturating_mul(words(right)))
}

/// Counts the conversion of numbers to decimal digits. `squares` is the sum of the squares of their
/// lengths in bytes.
///
/// # Errors
/// As [`charge`].
pub fn charge_printing(squares: usize) -> Result<(), ArithmeticError> {
    charge(squares as u64 / 100)
}

/// Returns the number of 64-bit words of a number.
pub fn words(number: &BigInt) -> u64 {
    number.bits() / 64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use espalier_runtime::{block_on, maybe_yield, yield_now};

    #[test]
    fn work_counts_until_the_task_yields() {
        block_on(async {
            for _ in 0..3 {
                assert_eq!(charge(MAX_WORK / 2), Ok(()));
                assert_eq!(charge(MAX_WORK / 2), Ok(()));
                assert_eq!(charge(FREE), Err(ArithmeticError::Work));
                yield_now().await;
            }
        });
        assert_eq!(charge(u64::MAX), Ok(()), "outside of an event loop nothing waits");
    }

    #[test]
    fn a_task_yields_after_much_work_that_took_no_time() {
        block_on(async {
            for _ in 0..1000 {
                assert_eq!(charge(MAX_WORK / 2), Ok(()));
                maybe_yield().await;
            }
        });
    }
}
