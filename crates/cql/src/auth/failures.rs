//! Failed log-ins by address: an address that guesses passwords gets slower.
//!
//! An address may fail [`BURST`] times at once, and then once in [`REFILL`]. While it may not, the
//! node refuses its log-ins without looking at the password. Memory: at most [`MAX_ADDRESSES`]
//! entries; an entry without a failure for a while is dropped first.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use espalier_runtime::time::Instant;
use hashbrown::HashMap;

/// Failures that an address may have at once. Arbitrary.
const BURST: u32 = 10;

/// Time after which an address may fail once more. Arbitrary: 1,800 guesses an hour.
const REFILL: Duration = Duration::from_secs(2);

/// Limit of the addresses that are remembered. At the limit all entries are dropped.
const MAX_ADDRESSES: usize = 16 * 1024;

/// The failures of all addresses of the node.
#[derive(Debug, Default)]
pub struct FailedLogins {
    by_address: Mutex<HashMap<IpAddr, Failures>>,
}

/// Failures of one address, and the time of the last change of the count.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    at: Instant,
}

impl Failures {
    /// Returns the count after the time since the last change.
    fn at(self, now: Instant) -> Self {
        let passed = now.since(self.at);
        let refilled = (passed.as_nanos() / REFILL.as_nanos()).min(u128::from(u32::MAX)) as u32;
        if refilled == 0 {
            return self;
        }
        Self { count: self.count.saturating_sub(refilled), at: self.at + REFILL * refilled }
    }
}

impl FailedLogins {
    /// Returns whether `address` may try to log in at the moment.
    pub fn may_try(&self, address: IpAddr, now: Instant) -> bool {
        let by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        by_address.get(&address).is_none_or(|failures| failures.at(now).count < BURST)
    }

    /// Counts a failure of `address`.
    pub fn record(&self, address: IpAddr, now: Instant) {
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if by_address.len() >= MAX_ADDRESSES && !by_address.contains_key(&address) {
            by_address.retain(|_, failures| failures.at(now).count > 0);
            if by_address.len() >= MAX_ADDRESSES {
                by_address.clear();
            }
        }
        let failures = by_address.entry(address).or_insert(Failures { count: 0, at: now });
        *failures = failures.at(now);
        failures.count = failures.count.saturating_add(1).min(2 * BURST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn an_address_that_fails_often_has_to_wait_and_others_do_not() {
        let failures = FailedLogins::default();
        let (one, two) = (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into());
        let now = Instant::now();
        for _ in 0..BURST {
            assert!(failures.may_try(one, now));
            failures.record(one, now);
        }
        assert!(!failures.may_try(one, now));
        assert!(failures.may_try(two, now));
        assert!(!failures.may_try(one, now + REFILL / 2));
        assert!(failures.may_try(one, now + REFILL));
        failures.record(one, now + REFILL);
        assert!(!failures.may_try(one, now + REFILL));
    }

    #[test]
    fn the_memory_for_addresses_is_bounded() {
        let failures = FailedLogins::default();
        let now = Instant::now();
        for number in 0..(MAX_ADDRESSES as u32 + 100) {
            failures.record(Ipv4Addr::from(number).into(), now);
        }
        assert!(failures.by_address.lock().unwrap().len() <= MAX_ADDRESSES);
    }
}
