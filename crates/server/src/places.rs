//! [`Places`] limits the connections of clients that the node does not know yet: those of the admin
//! API, and those of peers during their handshake. If all places are taken, the node closes a
//! connection that waits for its client and serves the new one, so that idle connections lock no
//! client out.
//!
//! The node closes one of the connections that wait for their client. It prefers, in this order, a
//! connection
//!
//! 1. that has not sent an accepted request,
//! 2. of the network with the most connections that wait,
//! 3. that has waited for the longest time.
//!
//! A connection whose request the node carries out keeps its place. If the node carries out a
//! request of each connection, the new connection waits.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;

use espalier_runtime::net::client_network;
use espalier_runtime::sync::{Permit, Semaphore};
use espalier_runtime::time::Instant;
use espalier_runtime::{JoinHandle, spawn_local};

/// The places of all connections.
pub struct Places {
    free: Semaphore,
    taken: RefCell<Vec<Taken>>,
}

/// A connection with its task.
struct Taken {
    connection: Rc<Waiting>,
    task: JoinHandle<()>,
}

/// The state of a connection that decides whether it may keep its place.
pub struct Waiting {
    network: IpAddr,
    /// True once the node has accepted a request of the connection.
    is_accepted: Cell<bool>,
    /// The time since which the node waits for the client; `None` while it carries out a request.
    since: Cell<Option<Instant>>,
}

impl Waiting {
    fn new(address: IpAddr) -> Rc<Self> {
        let (network, since) = (client_network(address), Cell::new(Some(Instant::now())));
        Rc::new(Self { network, is_accepted: Cell::new(false), since })
    }

    /// Carries out an accepted request. The connection keeps its place meanwhile.
    pub async fn carry_out<T>(&self, work: impl Future<Output = T>) -> T {
        self.is_accepted.set(true);
        self.since.set(None);
        let outcome = work.await;
        self.since.set(Some(Instant::now()));
        outcome
    }
}

impl Places {
    /// Creates `count` free places.
    pub fn new(count: usize) -> Self {
        Self { free: Semaphore::new(count), taken: RefCell::default() }
    }

    /// Begins to serve a connection from `address`, once there is a place. `serve` creates the
    /// future that serves the connection.
    pub async fn begin<F: Future<Output = ()> + 'static>(
        &self,
        address: IpAddr,
        serve: impl FnOnce(Rc<Waiting>) -> F,
    ) {
        let permit = self.take().await;
        let connection = Waiting::new(address);
        let serving = serve(Rc::clone(&connection));
        let task = spawn_local(async move {
            serving.await;
            drop(permit);
        });
        self.taken.borrow_mut().push(Taken { connection, task });
    }

    async fn take(&self) -> Permit {
        self.taken.borrow_mut().retain(|taken| !taken.task.is_finished());
        if self.free.available() == 0
            && let Some(task) = self.leaving()
        {
            task.cancel().await;
        }
        self.free.acquire(1).await
    }

    /// Removes the connection to close from the list.
    fn leaving(&self) -> Option<JoinHandle<()>> {
        let mut taken = self.taken.borrow_mut();
        let connections: Vec<&Waiting> = taken.iter().map(|taken| &*taken.connection).collect();
        let place = first_to_leave(&connections)?;
        Some(taken.swap_remove(place).task)
    }
}

/// Returns the index in `connections` of the connection to close.
fn first_to_leave(connections: &[&Waiting]) -> Option<usize> {
    let waits = |connection: &Waiting| connection.since.get().is_some();
    let of_network = |network: IpAddr| {
        let others = connections.iter().filter(|other| other.network == network);
        others.filter(|other| waits(other)).count()
    };
    let waiting = connections.iter().enumerate().filter(|(_, connection)| waits(connection));
    let order = |connection: &Waiting| {
        let most = usize::MAX - of_network(connection.network);
        (connection.is_accepted.get(), most, connection.since.get())
    };
    waiting.min_by_key(|(_, connection)| order(connection)).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use espalier_runtime::sync::Event;
    use espalier_runtime::{block_on, time, yield_now};

    use super::*;

    fn waiting(address: &str, is_accepted: bool, age_s: Option<u64>) -> Rc<Waiting> {
        let connection = Waiting::new(address.parse().unwrap());
        connection.is_accepted.set(is_accepted);
        let began = Instant::now() + Duration::from_secs(1000);
        connection.since.set(age_s.map(|age_s| began - Duration::from_secs(age_s)));
        connection
    }

    #[test]
    fn strangers_leave_first_then_the_largest_network_then_the_oldest() {
        let leaves = |connections: &[Rc<Waiting>]| {
            first_to_leave(&connections.iter().map(|one| &**one).collect::<Vec<_>>())
        };
        let operator = || waiting("10.0.0.1", true, Some(50));
        assert_eq!(leaves(&[]), None);
        assert_eq!(leaves(&[waiting("10.0.0.1", true, None)]), None);
        assert_eq!(leaves(&[operator(), waiting("10.0.0.1", false, Some(1))]), Some(1));
        let many = |host: &str, age_s| waiting(&format!("2001:db8::{host}"), false, Some(age_s));
        let flood = [waiting("10.0.0.1", false, Some(9)), many("1", 1), many("2", 3), many("3", 2)];
        assert_eq!(leaves(&flood), Some(2));
        assert_eq!(leaves(&[operator(), waiting("10.0.0.2", true, Some(60))]), Some(1));
    }

    /// Records the name of a connection whose task ends or is stopped.
    struct Leaves(Rc<RefCell<Vec<&'static str>>>, &'static str);

    impl Drop for Leaves {
        fn drop(&mut self) {
            self.0.borrow_mut().push(self.1);
        }
    }

    /// Lets the tasks of connections begin or end. A short sleep may end before a task has run, if
    /// the thread was off its core meanwhile.
    async fn let_tasks_run() {
        for _ in 0..100 {
            yield_now().await;
        }
    }

    #[test]
    fn a_new_connection_takes_the_place_of_an_idle_one_and_of_no_other() {
        block_on(async {
            let (places, over) = (Places::new(2), Event::new());
            let left: Rc<RefCell<Vec<_>>> = Rc::default();
            let serve = |name, is_busy| {
                let (over, left) = (over.clone(), Rc::clone(&left));
                move |connection: Rc<Waiting>| async move {
                    let _leaves = Leaves(left, name);
                    if is_busy {
                        connection.carry_out(over.wait()).await;
                    } else {
                        over.wait().await;
                    }
                }
            };
            let from = |last: u8| IpAddr::from([10, 0, 0, last]);
            for (host, name, is_busy) in [(1, "busy", true), (2, "idle", false), (3, "new", true)] {
                places.begin(from(host), serve(name, is_busy)).await;
                let_tasks_run().await;
            }
            assert_eq!(*left.borrow(), ["idle"]);
            let last = places.begin(from(4), serve("last", true));
            let waited = time::timeout(Duration::from_millis(20), last).await;
            assert!(waited.is_err(), "all places are in use");
            over.set();
            places.begin(from(4), serve("last", true)).await;
            let_tasks_run().await;
            left.borrow_mut().sort_unstable();
            assert_eq!(*left.borrow(), ["busy", "idle", "last", "new"]);
        });
    }
}
