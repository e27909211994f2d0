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
use std::collections::BTreeMap;
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
    waiting: RefCell<WaitingRequests>,
    probes: Semaphore,
    /// Time of the last probe of a connection whose last answer was too large.
    probed_again_at: Cell<Option<Instant>>,
}

/// The requests that wait for memory. Each has a number, in the order of arrival.
#[derive(Default)]
struct WaitingRequests {
    next_number: u64,
    /// The requests by address and number.
    waiters: BTreeMap<(Address, u64), Waiter>,
    /// The requests that wait only for memory of the shard, by number: of each address the first
    /// request, if it is within the limit of the address.
    ready: BTreeMap<u64, Address>,
}

/// An address, identified by its account.
type Address = *const Cell<usize>;

struct Waiter {
    account: AddressAccount,
    bytes: usize,
    grant: oneshot::Sender<Reservation>,
}

/// The place of a waiting request; dropping it removes the request.
struct Place<'a> {
    memory: &'a Rc<AnswerMemory>,
    account: &'a AddressAccount,
    number: u64,
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
        let is_free = !self.waiting.borrow().blocks(account);
        (is_free && self.fits(bytes) && self.fits_address(account, bytes))
            .then(|| self.take(Rc::clone(account), bytes))
    }

    /// Waits until `bytes` fit and reserves them.
    pub async fn reserve(self: &Rc<Self>, account: &AddressAccount, bytes: usize) -> Reservation {
        loop {
            if let Some(reservation) = self.try_reserve(account, bytes) {
                return reservation;
            }
            let (grant, granted) = oneshot();
            let waiter = Waiter { account: Rc::clone(account), bytes, grant };
            let number = self.waiting.borrow_mut().push(waiter);
            let _place = Place { memory: self, account, number };
            self.update_ready(account);
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
        self.recount(&account, 0, bytes);
        Reservation { memory: Rc::clone(self), account, bytes }
    }

    /// Changes the bytes of a reservation from `counted` to `bytes`.
    fn recount(&self, account: &AddressAccount, counted: usize, bytes: usize) {
        self.used.set(self.used.get() - counted + bytes);
        account.set(account.get() - counted + bytes);
        self.update_ready(account);
    }

    /// Updates whether the first request of an address is ready. Each change of that request or of
    /// the address's bytes must be followed by this call.
    fn update_ready(&self, account: &AddressAccount) {
        let mut waiting = self.waiting.borrow_mut();
        let Some((number, bytes)) = waiting.first_of(account) else { return };
        if self.fits_address(account, bytes) {
            waiting.ready.insert(number, Rc::as_ptr(account));
        } else {
            waiting.ready.remove(&number);
        }
    }

    /// Removes and returns the next waiter whose bytes fit. A waiter that exceeds the shard's limit
    /// blocks all waiters behind it; a waiter that exceeds its address's limit blocks only those of
    /// its address.
    fn next_grant(&self) -> Option<Waiter> {
        let mut waiting = self.waiting.borrow_mut();
        let (&number, &address) = waiting.ready.first_key_value()?;
        let bytes = waiting.waiters.get(&(address, number))?.bytes;
        if self.fits(bytes) { waiting.remove(address, number) } else { None }
    }

    /// Grants free memory to waiting requests.
    fn grant(self: &Rc<Self>) {
        while let Some(Waiter { account, bytes, grant }) = self.next_grant() {
            // If the waiter has left, `send` drops the reservation, and the drop grants again.
            let _ = grant.send(self.take(account, bytes));
        }
    }
}

impl WaitingRequests {
    /// Adds a request and returns its number.
    fn push(&mut self, waiter: Waiter) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.waiters.insert((Rc::as_ptr(&waiter.account), number), waiter);
        number
    }

    fn remove(&mut self, address: Address, number: u64) -> Option<Waiter> {
        self.ready.remove(&number);
        self.waiters.remove(&(address, number))
    }

    /// Returns the number and the bytes of the first request of an address.
    fn first_of(&self, account: &AddressAccount) -> Option<(u64, usize)> {
        let address = Rc::as_ptr(account);
        let mut requests = self.waiters.range((address, 0)..=(address, u64::MAX));
        requests.next().map(|(&(_, number), waiter)| (number, waiter.bytes))
    }

    /// Returns whether a new request of an address has to wait for another one.
    fn blocks(&self, account: &AddressAccount) -> bool {
        !self.ready.is_empty() || self.first_of(account).is_some()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let address = Rc::as_ptr(self.account);
        let removed = self.memory.waiting.borrow_mut().remove(address, self.number);
        // A request that got no memory may have blocked others.
        if removed.is_some() {
            self.memory.update_ready(self.account);
            self.memory.grant();
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
        self.memory.recount(&self.account, counted, bytes);
        // Growth can unblock a request too: if the first request of this address now exceeds the
        // address's limit, it blocks no other address.
        self.memory.grant();
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
    use espalier_testing::Stopwatch;
    use futures_util::FutureExt;
    use futures_util::future::LocalBoxFuture;
    use proptest::prelude::*;
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
        let one = account(&memory, 1);
        let held = memory.try_reserve(&one, 50).unwrap();
        let mut large = Box::pin(memory.reserve(&one, 100));
        let mut small = Box::pin(memory.reserve(&one, 50));
        assert!((&mut large).now_or_never().is_none());
        assert!((&mut small).now_or_never().is_none());
        drop(large);
        let small = small.now_or_never().unwrap();
        drop((held, small));
        assert_eq!(memory.used(), 0);
        assert!(memory.try_reserve(&one, 100).is_some());
    }

    #[test]
    fn a_request_behind_its_address_blocks_no_other_address() {
        let memory = AnswerMemory::new(100, 60);
        let (one, two) = (account(&memory, 1), account(&memory, 2));
        let _held = memory.try_reserve(&one, 50).unwrap();
        let mut waiting = [50, 1].map(|bytes| Box::pin(memory.reserve(&one, bytes)));
        for request in &mut waiting {
            assert!(request.now_or_never().is_none());
        }
        assert!(memory.try_reserve(&two, 50).is_some());
        assert!(memory.try_reserve(&one, 1).is_none());
    }

    #[test]
    fn many_requests_wait_and_leave_without_a_scan() {
        let memory = AnswerMemory::new(100, 60);
        let (one, two) = (account(&memory, 1), account(&memory, 2));
        let _held = memory.try_reserve(&one, 60).unwrap();
        let stopwatch = Stopwatch::start();
        let mut waiting: Vec<_> = (0..50_000).map(|_| Box::pin(memory.reserve(&one, 60))).collect();
        for request in &mut waiting {
            assert!(request.now_or_never().is_none());
            assert!(memory.try_reserve(&two, 40).is_some());
        }
        drop(waiting);
        // A scan for each request would take some billion steps.
        assert!(stopwatch.elapsed() < Duration::from_secs(10), "{:?}", stopwatch.elapsed());
    }

    /// The address and the bytes of each request, by the order of arrival.
    type Requests = BTreeMap<usize, (usize, usize)>;

    /// A model of the account with limits of 100 and 60 bytes. It looks for the next grant among
    /// all waiting requests.
    #[derive(Default)]
    struct Model {
        waiting: Requests,
        held: Requests,
    }

    impl Model {
        fn used(&self, is_counted: impl Fn(usize) -> bool) -> usize {
            let counted = self.held.values().filter(|(address, _)| is_counted(*address));
            counted.map(|(_, bytes)| bytes).sum()
        }

        fn next_grant(&self) -> Option<usize> {
            let mut full = Vec::new();
            for (id, (address, bytes)) in &self.waiting {
                if full.contains(address) {
                    continue;
                }
                if fits(self.used(|other| other == *address), *bytes, 60) {
                    return fits(self.used(|_| true), *bytes, 100).then_some(*id);
                }
                full.push(*address);
            }
            None
        }

        fn grant(&mut self) {
            while let Some(id) = self.next_grant() {
                let request = self.waiting.remove(&id).unwrap();
                self.held.insert(id, request);
            }
        }
    }

    /// Returns a key of a map; `None` if the map is empty.
    fn key_at<T>(map: &BTreeMap<usize, T>, at: usize) -> Option<usize> {
        map.keys().nth(at % map.len().max(1)).copied()
    }

    proptest! {
        #![proptest_config(espalier_testing::properties(2000))]

        #[test]
        fn requests_get_memory_in_the_order_of_a_model(
            steps in prop::collection::vec((0..6u8, 0..3usize, 1..80usize), 1..80)
        ) {
            let memory = AnswerMemory::new(100, 60);
            let accounts = [1, 2, 3].map(|last| account(&memory, last));
            let mut model = Model::default();
            let mut waiting: BTreeMap<usize, LocalBoxFuture<'_, Reservation>> = BTreeMap::new();
            let mut held: BTreeMap<usize, Reservation> = BTreeMap::new();
            for (id, (kind, address, bytes)) in steps.into_iter().enumerate() {
                match (kind, key_at(&waiting, bytes), key_at(&held, bytes)) {
                    (0..=2, _, _) => {
                        waiting.insert(id, memory.reserve(&accounts[address], bytes).boxed_local());
                        model.waiting.insert(id, (address, bytes));
                    }
                    (3, Some(id), _) => {
                        waiting.remove(&id);
                        model.waiting.remove(&id);
                    }
                    (4, _, Some(id)) => {
                        held.remove(&id);
                        model.held.remove(&id);
                    }
                    (5, _, Some(id)) => {
                        held.get_mut(&id).unwrap().resize(bytes);
                        model.held.get_mut(&id).unwrap().1 = bytes;
                    }
                    _ => {}
                }
                model.grant();
                waiting.retain(|id, request| {
                    let granted = request.now_or_never();
                    let is_waiting = granted.is_none();
                    held.extend(granted.map(|reservation| (*id, reservation)));
                    is_waiting
                });
                prop_assert!(held.keys().eq(model.held.keys()));
                prop_assert_eq!(memory.used(), model.used(|_| true));
            }
            drop((waiting, held));
            prop_assert_eq!(memory.used(), 0);
            prop_assert!(memory.waiting.borrow().waiters.is_empty());
            prop_assert!(memory.waiting.borrow().ready.is_empty());
        }
    }
}
