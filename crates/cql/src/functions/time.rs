//! Functions of time: `now`, `current_*`, `to_*`, `min_timeuuid`, `max_timeuuid`, and their older
//! names without underscores.
//!
//! `now()` is unique and grows from call to call within the process: all threads get their ticks
//! from one counter that never falls behind the clock. `current_timestamp`, `current_date` and
//! `current_time` use the clock of the statement, which is one instant for all of its rows.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use espalier_runtime::{random, time};
use espalier_types::{
    CqlType,
    calendar::NANOS_PER_DAY,
    timeuuid::{self, UNIX_EPOCH_TICKS},
};

use super::{ResolvedFunction, temporal};
use crate::Error;

/// The last ticks that `now()` returned in this process, in 100 ns since 1582.
static LAST_TICKS: AtomicU64 = AtomicU64::new(0);

/// Returns a timeuuid that no other call in this process returns, and that is greater than those of
/// earlier calls.
pub fn unique_timeuuid() -> Bytes {
    let clock = time::now_micros().saturating_mul(10).saturating_add(UNIX_EPOCH_TICKS);
    let clock = u64::try_from(clock).unwrap_or(0);
    let previous = LAST_TICKS
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(clock.max(last + 1)))
        .unwrap_or_else(|last| last);
    let ticks = clock.max(previous + 1);
    Bytes::copy_from_slice(&timeuuid::from_ticks(ticks, random::clock_sequence_and_node()))
}

/// Returns all functions of that name.
pub fn overloads(name: &str) -> Vec<ResolvedFunction> {
    use CqlType as T;
    match name {
        "now" | "current_timeuuid" | "currenttimeuuid" => {
            let now = |_: &[Bytes], _: &crate::term::Evaluation<'_>| Ok(Some(unique_timeuuid()));
            vec![ResolvedFunction::strict(name, Vec::new(), T::Timeuuid, now).impure()]
        }
        "current_timestamp" | "currenttimestamp" => vec![present(name, T::Timestamp)],
        "current_date" | "currentdate" => vec![present(name, T::Date)],
        "current_time" | "currenttime" => vec![present(name, T::Time)],
        "to_date" | "todate" => {
            [T::Timeuuid, T::Timestamp].map(|source| conversion(name, source, T::Date)).into()
        }
        "to_timestamp" | "totimestamp" => {
            [T::Timeuuid, T::Date].map(|source| conversion(name, source, T::Timestamp)).into()
        }
        "to_unix_timestamp" | "tounixtimestamp" => [T::Timeuuid, T::Timestamp, T::Date]
            .map(|source| conversion(name, source, T::Bigint))
            .into(),
        "min_timeuuid" | "mintimeuuid" => vec![bound(name, timeuuid::min_for_millis)],
        "max_timeuuid" | "maxtimeuuid" => vec![bound(name, timeuuid::max_for_millis)],
        _ => Vec::new(),
    }
}

fn present(name: &str, result: CqlType) -> ResolvedFunction {
    let target = result.clone();
    ResolvedFunction::strict(name, Vec::new(), result, move |_, evaluation| {
        let nanos = evaluation.now_us.saturating_mul(1000);
        Ok(Some(match target {
            CqlType::Time => Bytes::copy_from_slice(&nanos.rem_euclid(NANOS_PER_DAY).to_be_bytes()),
            _ => temporal::from_millis(&target, evaluation.now_us.div_euclid(1000)),
        }))
    })
    .impure()
}

fn conversion(name: &str, source: CqlType, target: CqlType) -> ResolvedFunction {
    let to = target.clone();
    ResolvedFunction::of_values(name, vec![source.clone()], target, move |values, _| {
        let Some(value) = values.first() else { return Ok(None) };
        match temporal::to_millis(&source, value) {
            Some(millis) => Ok(Some(temporal::from_millis(&to, millis))),
            None => Err(Error::invalid(format!("malformed value of type {}", source.cql_name()))),
        }
    })
}

fn bound(name: &str, of_millis: fn(i64) -> [u8; 16]) -> ResolvedFunction {
    let types = vec![CqlType::Timestamp];
    ResolvedFunction::of_values(name, types, CqlType::Timeuuid, move |values, _| {
        let millis = values.first().and_then(|v| temporal::to_millis(&CqlType::Timestamp, v));
        Ok(millis.map(|millis| Bytes::copy_from_slice(&of_millis(millis))))
    })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn now_is_unique_in_the_process_and_grows() {
        let of_thread = || (0..20_000).map(|_| unique_timeuuid()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(of_thread)).collect();
        let mut all: Vec<Bytes> = Vec::new();
        for thread in threads {
            let ids = thread.join().unwrap();
            assert!(
                ids.windows(2).all(|pair| CqlType::Timeuuid.compare(&pair[0], &pair[1]).is_lt())
            );
            all.extend(ids);
        }
        let ticks: std::collections::HashSet<_> =
            all.iter().map(|id| timeuuid::ticks(id)).collect();
        assert_eq!(ticks.len(), all.len());
    }

    #[test]
    fn the_present_is_that_of_the_statement() {
        let evaluation =
            crate::term::Evaluation { values: &[], now_us: 1_600_000_000_123_456, references: &[] };
        let value = |name: &str| overloads(name)[0].call(&[], &evaluation).unwrap().unwrap();
        assert_eq!(value("current_timestamp"), 1_600_000_000_123i64.to_be_bytes().as_slice());
        assert_eq!(value("current_date"), ((1u32 << 31) + 18518).to_be_bytes().as_slice());
        assert_eq!(value("current_time"), 44_800_123_456_000i64.to_be_bytes().as_slice());
    }
}
