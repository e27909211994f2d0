//! Admission limits the number of connections and the bytes of requests in flight.
//!
//! Connections are counted for the whole node, because they open and close rarely. Each shard
//! counts the bytes in flight for itself, against its share of the limits, so that a request
//! touches no memory that another core writes. A request larger than a limit must be able to run
//! too. If it arrived at once, it is admitted when nothing else is in flight; if it arrives in
//! parts, it counts as half of the limit.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use espalier_runtime::net::client_network;
use espalier_runtime::time::Instant;
use hashbrown::HashMap;

/// Limits of the connections whose clients have not logged in: for the whole node, and for one
/// network (see [`client_network`]). Arbitrary: each such connection holds some KiB, with TLS some
/// tens of KiB, for at most 20 s.
const MAX_BEFORE_LOGIN: usize = 16 * 1024;
const MAX_BEFORE_LOGIN_PER_NETWORK: usize = 4 * 1024;

/// Limits of `native_transport_max_concurrent_connections[_per_ip]`; `None` is no limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionLimits {
    /// Limit of the connections of the node.
    pub total: Option<usize>,
    /// Limit of the connections from one address.
    pub per_address: Option<usize>,
}

/// Counts the node's connections and distributes them to the shards; all shards share one counter.
#[derive(Debug)]
pub struct ConnectionCounter {
    limits: ConnectionLimits,
    open: Mutex<OpenConnections>,
}

#[derive(Debug)]
struct OpenConnections {
    by_shard: Vec<usize>,
    by_address: HashMap<IpAddr, usize>,
    before_login: usize,
    /// Number of connections whose clients have not logged in, by network.
    by_network: HashMap<IpAddr, usize>,
}

/// A connection that is counted for a shard; dropping it ends the count.
#[derive(Debug)]
pub struct ConnectionSlot {
    counter: Arc<ConnectionCounter>,
    address: IpAddr,
    shard: usize,
    awaits_login: Cell<bool>,
}

impl ConnectionCounter {
    /// Creates a counter for `shards` shards without a connection.
    pub fn new(limits: ConnectionLimits, shards: usize) -> Arc<Self> {
        let by_shard = vec![0; shards.max(1)];
        let (by_address, by_network) = (HashMap::new(), HashMap::new());
        let open = OpenConnections { by_shard, by_address, before_login: 0, by_network };
        Arc::new(Self { limits, open: Mutex::new(open) })
    }

    /// Admits a connection to `shard`, or to the shard with the fewest connections if `shard` is
    /// `None`. `awaits_login` is true if the client has to log in.
    ///
    /// # Errors
    ///
    /// Returns the name of the limit that forbids the connection.
    pub fn enter(
        self: &Arc<Self>,
        address: IpAddr,
        shard: Option<usize>,
        awaits_login: bool,
    ) -> Result<ConnectionSlot, &'static str> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = &mut *open;
        if self.limits.total.is_some_and(|limit| open.by_shard.iter().sum::<usize>() >= limit) {
            return Err("native_transport_max_concurrent_connections");
        }
        let of_address = open.by_address.get(&address).copied().unwrap_or_default();
        if self.limits.per_address.is_some_and(|limit| of_address >= limit) {
            return Err("native_transport_max_concurrent_connections_per_ip");
        }
        let network = client_network(address);
        let of_network = open.by_network.get(&network).copied().unwrap_or_default();
        let is_full =
            open.before_login >= MAX_BEFORE_LOGIN || of_network >= MAX_BEFORE_LOGIN_PER_NETWORK;
        if awaits_login && is_full {
            return Err("connections that have not logged in");
        }
        let fewest = || open.by_shard.iter().enumerate().min_by_key(|(_, count)| **count);
        let shard = shard.or_else(|| fewest().map(|(shard, _)| shard)).unwrap_or(0);
        if let Some(of_shard) = open.by_shard.get_mut(shard) {
            *of_shard += 1;
        }
        *open.by_address.entry(address).or_default() += 1;
        if awaits_login {
            *open.by_network.entry(network).or_default() += 1;
            open.before_login += 1;
        }
        let (counter, awaits_login) = (Arc::clone(self), Cell::new(awaits_login));
        Ok(ConnectionSlot { counter, address, shard, awaits_login })
    }

    /// Returns the number of open connections.
    #[cfg(test)]
    pub fn open(&self) -> usize {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).by_shard.iter().sum()
    }
}

impl ConnectionSlot {
    /// Returns the shard that serves the connection.
    pub fn shard(&self) -> usize {
        self.shard
    }

    /// Ends the count of the connection among those that have not logged in.
    pub fn logged_in(&self) {
        if !self.awaits_login.replace(false) {
            return;
        }
        let mut open = self.counter.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.before_login -= 1;
        take_one(&mut open.by_network, client_network(self.address));
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.logged_in();
        let mut open = self.counter.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_shard) = open.by_shard.get_mut(self.shard) {
            *of_shard -= 1;
        }
        take_one(&mut open.by_address, self.address);
    }
}

/// Subtracts one from a count, and removes the count at zero.
fn take_one(counts: &mut HashMap<IpAddr, usize>, of: IpAddr) {
    if let Some(count) = counts.get_mut(&of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&of);
        }
    }
}

/// One shard's account of requests in flight, in bytes of their bodies.
#[derive(Debug)]
pub(crate) struct RequestAdmission {
    limit: usize,
    limit_per_address: usize,
    in_flight: Rc<Cell<usize>>,
    addresses: AddressAccounts,
}

/// The account of one address on one shard: the bytes that are counted for it.
pub(crate) type AddressAccount = Rc<Cell<usize>>;

/// Bytes that one shard counts for each address.
#[derive(Debug, Default)]
pub(crate) struct AddressAccounts {
    by_address: RefCell<HashMap<IpAddr, AddressAccount>>,
}

impl AddressAccounts {
    /// Returns the account of `address`. A full map first drops the accounts that nothing else
    /// refers to, so that it does not grow with every address ever seen.
    pub fn of(&self, address: IpAddr) -> AddressAccount {
        let mut by_address = self.by_address.borrow_mut();
        if by_address.len() == by_address.capacity() {
            by_address.retain(|_, account| Rc::strong_count(account) > 1);
        }
        Rc::clone(by_address.entry(address).or_default())
    }
}

/// Returns whether `bytes` more are within a limit. One item may exceed the limit if nothing else
/// is counted.
pub(crate) fn fits(used: usize, bytes: usize, limit: usize) -> bool {
    used == 0 || used.saturating_add(bytes) <= limit
}

/// The bytes of a request in flight; dropping it ends the count.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// Time at which the reader took the request out of the receive buffer, if the request is
    /// timed.
    pub taken_at: Option<Instant>,
    bytes: usize,
    /// Bytes that count for the address. For a large request they differ from `bytes`, see
    /// [`RequestAdmission::grow`].
    address_bytes: usize,
    total: Rc<Cell<usize>>,
    of_address: AddressAccount,
}

impl RequestAdmission {
    /// Creates an account with a shard's share of `native_transport_max_request_data_in_flight` and
    /// `.._per_ip`, in bytes.
    pub fn new(limit: usize, limit_per_address: usize) -> Self {
        Self {
            limit,
            limit_per_address,
            in_flight: Rc::default(),
            addresses: AddressAccounts::default(),
        }
    }

    /// Returns the account of a new connection from `address`.
    pub fn account(&self, address: IpAddr) -> AddressAccount {
        self.addresses.of(address)
    }

    /// Admits a request of `bytes`.
    ///
    /// # Errors
    ///
    /// Returns the name of the setting that forbids the request.
    pub fn admit(&self, account: &AddressAccount, bytes: usize) -> Result<InFlight, &'static str> {
        let (total, of_address) = (self.in_flight.get(), account.get());
        if !fits(total, bytes, self.limit) {
            return Err("native_transport_max_request_data_in_flight");
        }
        if !fits(of_address, bytes, self.limit_per_address) {
            return Err("native_transport_max_request_data_in_flight_per_ip");
        }
        self.in_flight.set(total + bytes);
        account.set(of_address + bytes);
        let (total, of_address) = (Rc::clone(&self.in_flight), Rc::clone(account));
        Ok(InFlight { taken_at: None, bytes, address_bytes: bytes, total, of_address })
    }

    /// Begins to count a request that has not arrived completely. It has no bytes yet; see
    /// [`Self::grow`].
    pub fn begin(&self, account: &AddressAccount) -> InFlight {
        let (total, of_address) = (Rc::clone(&self.in_flight), Rc::clone(account));
        InFlight { taken_at: None, bytes: 0, address_bytes: 0, total, of_address }
    }

    /// Sets the count of a request that has arrived in part to `bytes`.
    ///
    /// A quarter of each limit stays free, so that a client that never sends the rest of a request
    /// does not block the small requests of others. A request counts as at most half of a limit, so
    /// that a request above the limit can arrive while small requests run. A request whose count
    /// does not grow is never refused.
    ///
    /// # Errors
    ///
    /// Returns the name of the setting that forbids the bytes. The count of the request then stays
    /// as it was.
    pub fn grow(&self, request: &mut InFlight, bytes: usize) -> Result<(), &'static str> {
        let (limit, per_address) = (self.limit, self.limit_per_address);
        self.recount(request, bytes, limit - limit / 4, per_address - per_address / 4)
    }

    /// Sets the count of a request that arrived in parts, and is now complete, to `bytes`. Unlike
    /// [`Self::grow`], it allows the full limits, because the request is about to run and end.
    ///
    /// # Errors
    ///
    /// As [`Self::grow`].
    pub fn finish(&self, request: &mut InFlight, bytes: usize) -> Result<(), &'static str> {
        self.recount(request, bytes, self.limit, self.limit_per_address)
    }

    fn recount(
        &self,
        request: &mut InFlight,
        bytes: usize,
        limit: usize,
        limit_per_address: usize,
    ) -> Result<(), &'static str> {
        let of_shard = bytes.min(self.limit / 2);
        let of_address = bytes.min(self.limit_per_address / 2);
        let total = self.in_flight.get() - request.bytes + of_shard;
        if of_shard > request.bytes && total > limit {
            return Err("native_transport_max_request_data_in_flight");
        }
        let address_total = request.of_address.get() - request.address_bytes + of_address;
        if of_address > request.address_bytes && address_total > limit_per_address {
            return Err("native_transport_max_request_data_in_flight_per_ip");
        }
        self.in_flight.set(total);
        request.of_address.set(address_total);
        (request.bytes, request.address_bytes) = (of_shard, of_address);
        Ok(())
    }

    /// Returns the bytes in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.get()
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.total.set(self.total.get() - self.bytes);
        self.of_address.set(self.of_address.get() - self.address_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    #[test]
    fn connections_are_counted_by_node_and_address() {
        let limits = ConnectionLimits { total: Some(3), per_address: Some(2) };
        let counter = ConnectionCounter::new(limits, 2);
        let first = counter.enter(address(1), None, false).unwrap();
        let _second = counter.enter(address(1), None, false).unwrap();
        assert!(counter.enter(address(1), None, false).unwrap_err().ends_with("_per_ip"));
        let _third = counter.enter(address(2), None, false).unwrap();
        assert!(counter.enter(address(3), None, false).unwrap_err().ends_with("_connections"));
        drop(first);
        assert_eq!(counter.open(), 2);
        counter.enter(address(1), None, false).unwrap();
        assert_eq!(counter.open(), 2);
    }

    #[test]
    fn connections_before_the_login_have_a_limit_of_their_own() {
        let counter = ConnectionCounter::new(ConnectionLimits::default(), 2);
        let enter = |last| counter.enter(address(last), None, true);
        let waiting: Vec<_> =
            (0..MAX_BEFORE_LOGIN_PER_NETWORK).map(|_| enter(1).unwrap()).collect();
        assert!(enter(1).unwrap_err().contains("not logged in"));
        counter.enter(address(1), None, false).unwrap();
        enter(2).unwrap();
        waiting[0].logged_in();
        waiting[0].logged_in();
        let last = enter(1).unwrap();
        assert!(enter(1).is_err());
        drop(last);
        enter(1).unwrap();
        drop(waiting);
        assert_eq!(counter.open(), 0);
        assert!(counter.open.lock().unwrap().by_network.is_empty());
    }

    #[test]
    fn addresses_of_one_network_share_the_limit_before_the_login() {
        let counter = ConnectionCounter::new(ConnectionLimits::default(), 1);
        let enter = |address: String| counter.enter(address.parse().unwrap(), None, true);
        let host = |number: usize| format!("2001:db8:0:1::{number:x}");
        let _waiting: Vec<_> =
            (0..MAX_BEFORE_LOGIN_PER_NETWORK).map(|last| enter(host(last)).unwrap()).collect();
        assert!(enter("2001:db8:0:1:ffff::".into()).unwrap_err().contains("not logged in"));
        enter("2001:db8:0:2::1".into()).unwrap();
        enter("::ffff:10.0.0.1".into()).unwrap();
    }

    #[test]
    fn connections_go_where_there_are_few_unless_they_choose() {
        let counter = ConnectionCounter::new(ConnectionLimits::default(), 3);
        let chosen: Vec<_> =
            (0..4).map(|_| counter.enter(address(1), Some(1), false).unwrap()).collect();
        let placed: Vec<_> =
            (0..4).map(|_| counter.enter(address(1), None, false).unwrap()).collect();
        let shards: Vec<_> = placed.iter().map(ConnectionSlot::shard).collect();
        assert_eq!(shards, [0, 2, 0, 2]);
        drop(chosen);
        assert_eq!(counter.enter(address(1), None, false).unwrap().shard(), 1);
    }

    #[test]
    fn bytes_are_counted_by_shard_and_address() {
        let admission = RequestAdmission::new(100, 60);
        let (one, two) = (admission.account(address(1)), admission.account(address(2)));
        let first = admission.admit(&one, 50).unwrap();
        assert!(admission.admit(&one, 11).unwrap_err().ends_with("_per_ip"));
        let _second = admission.admit(&two, 50).unwrap();
        assert!(admission.admit(&two, 1).unwrap_err().ends_with("_in_flight"));
        assert_eq!(admission.in_flight(), 100);
        drop(first);
        admission.admit(&one, 50).unwrap();
        assert_eq!(admission.in_flight(), 50);
    }

    #[test]
    fn a_request_above_the_limit_runs_alone() {
        let admission = RequestAdmission::new(100, 60);
        let account = admission.account(address(1));
        let alone = admission.admit(&account, 5000).unwrap();
        assert!(admission.admit(&account, 1).is_err());
        drop(alone);
        admission.admit(&account, 1).unwrap();
    }

    #[test]
    fn unfinished_requests_leave_room_for_small_ones() {
        let admission = RequestAdmission::new(1000, 400);
        let (one, two) = (admission.account(address(1)), admission.account(address(2)));
        let mut first = admission.begin(&one);
        admission.grow(&mut first, 100).unwrap();
        let mut second = admission.begin(&one);
        // The request exceeds the limit of the address, so it counts as half of that limit.
        admission.grow(&mut second, 5000).unwrap();
        assert!(admission.grow(&mut first, 101).unwrap_err().ends_with("_per_ip"));
        assert_eq!(admission.in_flight(), 600);
        let small = admission.admit(&one, 100).unwrap();
        let mut other = admission.begin(&two);
        assert!(admission.grow(&mut other, 51).unwrap_err().ends_with("_in_flight"));
        admission.grow(&mut other, 50).unwrap();
        drop((first, second, small, other));
        assert_eq!((admission.in_flight(), one.get()), (0, 0));
    }

    #[test]
    fn a_request_that_has_arrived_may_use_the_whole_limit() {
        let admission = RequestAdmission::new(1000, 1000);
        let account = admission.account(address(1));
        let mut large = admission.begin(&account);
        admission.grow(&mut large, 300).unwrap();
        let small = admission.admit(&account, 500).unwrap();
        admission.grow(&mut large, 300).unwrap();
        assert!(admission.grow(&mut large, 301).is_err());
        admission.finish(&mut large, 310).unwrap();
        assert!(admission.finish(&mut large, 501).is_ok(), "it counts as half of the limit");
        drop(small);
        let _more = admission.admit(&account, 500).unwrap();
        admission.grow(&mut large, 400).unwrap();
        assert_eq!(admission.in_flight(), 900);
        assert!(admission.finish(&mut large, 500).is_ok());
        drop(large);
        assert_eq!(admission.in_flight(), 500);
    }

    #[test]
    fn accounts_of_addresses_that_left_are_forgotten() {
        let admission = RequestAdmission::new(100, 60);
        for last in 0..=255 {
            for third in 0..40 {
                admission.account(Ipv4Addr::new(10, 0, third, last).into());
            }
        }
        assert!(admission.addresses.by_address.borrow().len() < 64);
    }
}
