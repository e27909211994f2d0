//! Counts failed log-ins by address, and slows down an address that guesses passwords.
//!
//! All IPv6 addresses of one network count as one address ([`client_network`]), because a host has
//! 2^64 of them. An address may fail [`BURST`] times at once, and then once in [`REFILL`]. At the
//! limit, the node refuses the address's log-ins without a check of the password. A running check
//! counts as a failure, so that parallel guesses gain nothing. If the limit is reached only with
//! the running checks, a further log-in waits for them, because all their passwords may be right.
//!
//! Memory: at most [`MAX_ADDRESSES`] entries. Entries without a recent failure are dropped first.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use espalier_runtime::net::client_network;
use espalier_runtime::time::{self, Instant};
use hashbrown::HashMap;

/// Maximum number of failures that an address may have at once. Arbitrary.
const BURST: u32 = 10;

/// Time after which an address may fail once more. Arbitrary: 1,800 guesses an hour.
const REFILL: Duration = Duration::from_secs(2);

/// Maximum number of remembered addresses. At the limit, the node drops the entries without a
/// recent failure or, if there are none, all entries, but never an entry with a running check.
/// Arbitrary.
const MAX_ADDRESSES: usize = 16 * 1024;

/// Interval at which a log-in that waits for other log-ins of its address tries again. At most one
/// log-in of each shard waits so. Arbitrary.
const PAUSE: Duration = Duration::from_millis(10);

/// The failures of all addresses of the node.
#[derive(Debug, Default)]
pub struct FailedLogins {
    /// The keys are networks of clients.
    by_address: Mutex<HashMap<IpAddr, Failures>>,
}

/// The number of failures of one address, the time at which this number last changed, and the
/// number of running checks.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    at: Instant,
    trying: u32,
}

/// A running check of a password. Its drop counts a failure, unless [`Attempt::succeed`] ends it.
/// Otherwise a client could close the connection before the answer and guess again.
#[derive(Debug)]
pub struct Attempt<'f> {
    failures: &'f FailedLogins,
    address: IpAddr,
}

/// The outcome of [`FailedLogins::begin`].
enum Begun<'f> {
    Attempt(Attempt<'f>),
    /// The address reaches its limit if all its running checks fail.
    Wait,
    Refused,
}

impl Failures {
    /// Returns the failures at `now`: the count falls by one for each [`REFILL`] since its last
    /// change.
    fn at(self, now: Instant) -> Self {
        let passed = now.since(self.at);
        let refilled = (passed.as_nanos() / REFILL.as_nanos()).min(u128::from(u32::MAX)) as u32;
        if refilled == 0 {
            return self;
        }
        Self { count: self.count.saturating_sub(refilled), at: self.at + REFILL * refilled, ..self }
    }
}

impl FailedLogins {
    /// Returns whether `address` may try to log in at the moment.
    pub fn may_try(&self, address: IpAddr, now: Instant) -> bool {
        let by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        by_address
            .get(&client_network(address))
            .is_none_or(|failures| failures.at(now).count < BURST)
    }

    /// Waits until the node may check the password of a log-in. Returns `None` if the address has
    /// failed too often.
    pub async fn attempt(&self, address: IpAddr) -> Option<Attempt<'_>> {
        loop {
            match self.begin(address, Instant::now()) {
                Begun::Attempt(attempt) => return Some(attempt),
                Begun::Wait => time::sleep(PAUSE).await,
                Begun::Refused => return None,
            }
        }
    }

    fn begin(&self, address: IpAddr, now: Instant) -> Begun<'_> {
        let address = client_network(address);
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if by_address.len() >= MAX_ADDRESSES && !by_address.contains_key(&address) {
            by_address.retain(|_, failures| failures.trying > 0 || failures.at(now).count > 0);
            if by_address.len() >= MAX_ADDRESSES {
                by_address.retain(|_, failures| failures.trying > 0);
            }
        }
        let new = Failures { count: 0, at: now, trying: 0 };
        let failures = by_address.entry(address).or_insert(new);
        *failures = failures.at(now);
        if failures.count >= BURST {
            return Begun::Refused;
        }
        if failures.count + failures.trying >= BURST {
            return Begun::Wait;
        }
        failures.trying += 1;
        Begun::Attempt(Attempt { failures: self, address })
    }

    fn end(&self, address: IpAddr, has_failed: bool) {
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(failures) = by_address.get_mut(&address) else { return };
        failures.trying = failures.trying.saturating_sub(1);
        if has_failed {
            failures.count = failures.count.saturating_add(1);
        }
        if failures.count == 0 && failures.trying == 0 {
            by_address.remove(&address);
        }
    }
}

impl Attempt<'_> {
    /// Ends the check without a failure.
    pub fn succeed(self) {
        self.failures.end(self.address, false);
        std::mem::forget(self);
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.failures.end(self.address, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn begin(failures: &FailedLogins, address: IpAddr, now: Instant) -> Option<Attempt<'_>> {
        match failures.begin(address, now) {
            Begun::Attempt(attempt) => Some(attempt),
            Begun::Wait | Begun::Refused => None,
        }
    }

    #[test]
    fn an_address_that_fails_often_has_to_wait_and_others_do_not() {
        let failures = FailedLogins::default();
        let (one, two) = (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into());
        let now = Instant::now();
        for _ in 0..BURST {
            assert!(failures.may_try(one, now));
            drop(begin(&failures, one, now).unwrap());
        }
        assert!(!failures.may_try(one, now));
        assert!(matches!(failures.begin(one, now), Begun::Refused));
        assert!(failures.may_try(two, now));
        assert!(!failures.may_try(one, now + REFILL / 2));
        assert!(failures.may_try(one, now + REFILL));
        drop(begin(&failures, one, now + REFILL).unwrap());
        assert!(!failures.may_try(one, now + REFILL));
    }

    #[test]
    fn addresses_of_one_network_fail_together() {
        let failures = FailedLogins::default();
        let now = Instant::now();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        for host in 0..BURST {
            let host = address(&format!("2001:db8:0:1::{host:x}"));
            drop(begin(&failures, host, now).unwrap());
        }
        assert!(!failures.may_try(address("2001:db8:0:1:abcd::7"), now));
        assert!(begin(&failures, address("2001:db8:0:1:abcd::7"), now).is_none());
        assert!(failures.may_try(address("2001:db8:0:2::1"), now));
        for _ in 0..BURST {
            drop(begin(&failures, address("::ffff:10.0.0.1"), now).unwrap());
        }
        assert!(!failures.may_try(address("10.0.0.1"), now));
        assert!(failures.may_try(address("::ffff:10.0.0.2"), now));
    }

    #[test]
    fn guesses_at_the_same_time_are_no_more_and_right_passwords_only_wait() {
        let failures = FailedLogins::default();
        let (address, now) = (Ipv4Addr::LOCALHOST.into(), Instant::now());
        let mut trying: Vec<_> =
            (0..BURST).map(|_| begin(&failures, address, now).unwrap()).collect();
        assert!(matches!(failures.begin(address, now), Begun::Wait));
        trying.pop().unwrap().succeed();
        let right = begin(&failures, address, now).unwrap();
        assert!(matches!(failures.begin(address, now), Begun::Wait));
        drop(trying);
        right.succeed();
        drop(begin(&failures, address, now).unwrap());
        assert!(matches!(failures.begin(address, now), Begun::Refused));
    }

    #[test]
    fn the_memory_for_addresses_is_bounded() {
        let failures = FailedLogins::default();
        let now = Instant::now();
        for number in 0..(MAX_ADDRESSES as u32 + 100) {
            drop(begin(&failures, Ipv4Addr::from(number).into(), now).unwrap());
        }
        assert!(failures.by_address.lock().unwrap().len() <= MAX_ADDRESSES);
    }
}
