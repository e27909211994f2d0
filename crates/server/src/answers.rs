//! This module counts the memory of answers with rows. A request reserves memory before it reads
//! the rows, and the connection holds the reservation until the answer is sent.
//!
//! 1. A request reserves the expected size of its answer ([`AnswerMemory::reserve`]): the size of
//!    the connection's recent answers, or a page. Requests wait in the order of their arrival.
//! 2. The read stops at the reservation. A page ends there; for an answer without paging the
//!    request discards the rows and reads them again with a larger reservation.
//! 3. The request changes the reservation to the size of the answer ([`Reservation::resize`]). The
//!    connection drops the reservation when the socket has taken the bytes.
//!
//! Clients that do not read their answers keep their reservations. So that the shard can still
//! serve all other clients, a small answer needs no reservation: [`AnswerMemory::probe`] permits a
//! few requests at the same time to read up to [`SMALL_ANSWER`].
//!
//! Each shard has its own account, and its share of the limits of the node and of the client's
//! address. An answer larger than a limit gets its reservation when nothing else counts under that
//! limit. A read may exceed its reservation by one row, whose size is known only once it is read.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use espalier_runtime::sync::oneshot::{self, oneshot};
use espalier_runtime::sync::{Permit, Semaphore};
use espalier_runtime::time::Instant;

use crate::admission::{AddressAccount, AddressAccounts, fits};

/// The first reservation of a connection, in bytes: the size at which the read path ends a page.
pub(crate) const PAGE_BYTES: usize = 4 << 20;

/// Maximum size in bytes of an answer that needs no reservation (arbitrary). Such answers of a
/// thousand clients take 64 MiB.
pub(crate) const SMALL_ANSWER: usize = 64 << 10;

/// Maximum number of concurrent reads without a reservation (arbitrary). It is low, because such a
/// read may meet one row that is larger than [`SMALL_ANSWER`].
const MAX_PROBES: usize = 8;

/// Minimum time between two probes of connections whose last answer was too large (arbitrary). It
/// limits discarded reads to a few percent of the shard's time.
const PROBE_PAUSE: Duration = Duration::from_millis(500);

/// One shard's account of the answers that are being read or wait to be sent.
pub(crate) struct AnswerMemory {
    limit: usize,
    limit_per_address: usize,
    used: Cell<usize>,
    addresses: AddressAccounts,
    waiting: RefCell<VecDeque<Waiter>>,
    probes: Semaphore,
    /// Time of the last probe of a connection whose last answer was too large.
    probed_again_at: Cell<Option<Instant>>,
}

struct Waiter {
    account: AddressAccount,
    bytes: usize,
    grant: oneshot::Sender<Reservation>,
}

/// Bytes that are reserved for an answer; dropping it releases them.
pub(crate) struct Reservation {
    memory: Rc<AnswerMemory>,
    account: AddressAccount,
    bytes: usize,
}

impl AnswerMemory {
    /// Creates the account of a shard. Both limits are in bytes.
    pub fn new(limit: usize, limit_per_address: usize) -> Rc<Self> {
        Rc::new(Self {
            limit,
            limit_per_address: limit_per_address.min(limit),
            used: Cell::new(0),
            addresses: AddressAccounts::default(),
            waiting: RefCell::default(),
            probes: Semaphore::new(MAX_PROBES),
            probed_again_at: Cell::new(None),
        })
    }

    /// Returns the account of a new connection from `address`.
    pub fn account(&self, address: IpAddr) -> AddressAccount {
        self.addresses.of(address)
    }

    /// Returns the reserved bytes.
    pub fn used(&self) -> usize {
        self.used.get()
    }

    /// Reserves `bytes` if they fit and no request waits for that memory.
    pub fn try_reserve(
        self: &Rc<Self>,
        account: &AddressAccount,
        bytes: usize,
    ) -> Option<Reservation> {
        // A request that waits because of its address's limit does not block other addresses.
        let is_free = self.waiting.borrow().iter().all(|waiter| {
            let is_other = !Rc::ptr_eq(&waiter.account, account);
            is_other && !self.fits_address(&waiter.account, waiter.bytes)
        });
        (is_free && self.fits(bytes) && self.fits_address(account, bytes))
            .then(|| self.take(Rc::clone(account), bytes))
    }

    /// Waits until `bytes` fit and reserves them. A caller that drops the future before it resolves
    /// must call [`Self::grant`].
    pub async fn reserve(self: &Rc<Self>, account: &AddressAccount, bytes: usize) -> Reservation {
        loop {
            if let Some(reservation) = self.try_reserve(account, bytes) {
                return reservation;
            }
            let (grant, granted) = oneshot();
            let account = Rc::clone(account);
            self.waiting.borrow_mut().push_back(Waiter { account, bytes, grant });
            self.grant();
            if let Ok(reservation) = granted.await {
                return reservation;
            }
        }
    }

    /// Waits for a permit to read a small answer without a reservation.
    pub async fn probe(&self) -> Permit {
        self.probes.acquire(1).await
    }

    /// Returns whether a connection whose last answer was too large may probe. Returns true at most
    /// once in each [`PROBE_PAUSE`].
    pub fn may_probe_again(&self) -> bool {
        let now = Instant::now();
        let last = self.probed_again_at.get();
        let may = last.is_none_or(|last| now.since(last) >= PROBE_PAUSE);
        if may {
            self.probed_again_at.set(Some(now));
        }
        may
    }

    fn fits(&self, bytes: usize) -> bool {
        fits(self.used.get(), bytes, self.limit)
    }

    fn fits_address(&self, account: &AddressAccount, bytes: usize) -> bool {
        fits(account.get(), bytes, self.limit_per_address)
    }

    fn take(self: &Rc<Self>, account: AddressAccount, bytes: usize) -> Reservation {
        self.used.set(self.used.get() + bytes);
        account.set(account.get() + bytes);
        Reservation { memory: Rc::clone(self), account, bytes }
    }

    /// Removes and returns the next waiter whose bytes fit. A waiter that exceeds the shard's limit
    /// blocks all waiters behind it; a waiter that exceeds its address's limit blocks only those of
    /// its address.
    fn next_grant(&self) -> Option<Waiter> {
        let mut waiting = self.waiting.borrow_mut();
        waiting.retain(|waiter| !waiter.grant.is_abandoned());
        let mut full: Vec<*const Cell<usize>> = Vec::new();
        for (index, waiter) in waiting.iter().enumerate() {
            let address = Rc::as_ptr(&waiter.account);
            if full.contains(&address) {
                continue;
            }
            if !self.fits_address(&waiter.account, waiter.bytes) {
                full.push(address);
            } else if self.fits(waiter.bytes) {
                return waiting.remove(index);
            } else {
                return None;
            }
        }
        None
    }

    /// Grants free memory to waiting requests. A request that leaves the queue must call this,
    /// because it may have blocked others.
    pub fn grant(self: &Rc<Self>) {
        while let Some(Waiter { account, bytes, grant }) = self.next_grant() {
            // If the waiter has left, `send` drops the reservation, and the drop grants again.
            let _ = grant.send(self.take(account, bytes));
        }
    }
}

impl Reservation {
    /// Returns the bytes that the answer may take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the reservation to `bytes`, the size of the answer.
    pub fn resize(&mut self, bytes: usize) {
        let counted = std::mem::replace(&mut self.bytes, bytes);
        self.memory.used.set(self.memory.used.get() - counted + bytes);
        self.account.set(self.account.get() - counted + bytes);
        if bytes < counted {
            self.memory.grant();
        }
    }

    /// Takes over the bytes of another reservation of the same connection.
    pub fn merge(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.resize(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use espalier_runtime::{block_on, spawn_local, yield_now};
    use std::net::Ipv4Addr;

    fn account(memory: &AnswerMemory, last: u8) -> AddressAccount {
        memory.account(Ipv4Addr::new(10, 0, 0, last).into())
    }

    #[test]
    fn answers_are_counted_by_shard_and_address() {
        let memory = AnswerMemory::new(100, 60);
        let (one, two) = (account(&memory, 1), account(&memory, 2));
        let mut first = memory.try_reserve(&one, 50).unwrap();
        assert!(memory.try_reserve(&one, 11).is_none());
        let second = memory.try_reserve(&two, 50).unwrap();
        assert!(memory.try_reserve(&two, 1).is_none());
        first.resize(20);
        first.merge(memory.try_reserve(&one, 30).unwrap());
        assert_eq!((memory.used(), one.get(), first.bytes()), (100, 50, 50));
        drop((first, second));
        assert_eq!((memory.used(), one.get(), two.get()), (0, 0, 0));
    }

    #[test]
    fn an_answer_above_the_limits_has_its_turn_alone() {
        let memory = AnswerMemory::new(100, 60);
        let one = account(&memory, 1);
        let large = memory.try_reserve(&one, 5000).unwrap();
        assert!(memory.try_reserve(&account(&memory, 2), 1).is_none());
        drop(large);
        assert!(memory.try_reserve(&one, 60).is_some());
    }

    #[test]
    fn requests_wait_in_order_and_only_for_their_address() {
        let memory = AnswerMemory::new(100, 60);
        block_on(async move {
            let held = memory.try_reserve(&account(&memory, 1), 60).unwrap();
            let order = Rc::new(RefCell::new(Vec::new()));
            for (last, bytes) in [(1, 50), (1, 1), (2, 30)] {
                let (memory, order) = (Rc::clone(&memory), Rc::clone(&order));
                spawn_local(async move {
                    let reservation = memory.reserve(&account(&memory, last), bytes).await;
                    order.borrow_mut().push((last, bytes));
                    std::mem::forget(reservation);
                })
                .detach();
            }
            for _ in 0..3 {
                yield_now().await;
            }
            assert_eq!(*order.borrow(), [(2, 30)]);
            drop(held);
            for _ in 0..3 {
                yield_now().await;
            }
            assert_eq!(*order.borrow(), [(2, 30), (1, 50), (1, 1)]);
        });
    }

    #[test]
    fn a_request_that_gives_up_leaves_the_queue() {
        let memory = AnswerMemory::new(100, 100);
        block_on(async move {
            let one = account(&memory, 1);
            let held = memory.try_reserve(&one, 100).unwrap();
            let mut waiting = Box::pin(memory.reserve(&one, 100));
            let polled = std::future::poll_fn(|context| {
                std::task::Poll::Ready(waiting.as_mut().poll(context).is_ready())
            });
            assert!(!polled.await);
            drop(waiting);
            drop(held);
            assert_eq!(memory.used(), 0);
            assert!(memory.try_reserve(&one, 100).is_some());
        });
    }
}
