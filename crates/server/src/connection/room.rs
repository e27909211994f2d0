//! Decides when a request may read rows, how large its answer may become, and when the client gets
//! OVERLOADED.
//!
//! - A client that does not read its answers gets no more rows: its requests wait here without a
//!   time limit. Each of them takes [`super::WAITING_TASK_BYTES`], so the reader of the connection
//!   limits their number.
//! - A connection has [`MAX_ROW_READERS`] permits to read answers. A read takes one of them for
//!   each [`BYTES_OF_READER`] of the expected answer, so that only few large answers are read at
//!   the same time.
//! - A request reserves memory before it reads (see [`crate::answers`]). When memory is full, the
//!   request waits. After [`PATIENCE`] the node refuses it. A request whose answer may be small can
//!   read without a reservation, but only a few such requests read at the same time.
//! - A read of the node's own tables reserves nothing, because drivers need it to connect. It has
//!   permits of its own, of which a connection has few and a shard has more. LIST ROLES, LIST USERS
//!   and LIST PERMISSIONS take such a permit of the connection, but none of the shard, because they
//!   must not delay drivers that connect. Other statements about roles take no permit.

use std::pin::{Pin, pin};
use std::time::Duration;

use espalier_cql as cql;
use espalier_runtime::sync::Permit;
use espalier_runtime::time;
use futures_util::future::{Either, select};

use super::{Connection, MAX_ROW_READERS};
use crate::answers::{PAGE_BYTES, Reservation, SMALL_ANSWER};
use crate::protocol::LARGE_CONTENT;
use crate::protocol::response::{ErrorDetail, ErrorResponse};

/// Expected bytes of an answer for each permit that its read takes. So all answers that a
/// connection reads at the same time have about the bytes of a page together.
const BYTES_OF_READER: usize = PAGE_BYTES / MAX_ROW_READERS;

/// Minimum number of the connection's permits that a read takes while the shard has no permit free,
/// so that at most four reads of a connection wait for a permit of the shard. Arbitrary.
const PLACES_IN_QUEUE: usize = MAX_ROW_READERS / 4;

/// Bytes that an aggregate over all rows reserves for the rows that it reads in one step
/// (arbitrary).
const AGGREGATE_BYTES: usize = 1 << 20;

/// Time for which a request waits for memory before the client gets OVERLOADED: the default of
/// Cassandra's `read_request_timeout`.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the error of a request whose client has gone. No client reads it.
fn closed() -> ErrorResponse {
    ErrorResponse::new(ErrorDetail::Server, "The connection is closed")
}

/// The memory that an answer may take.
pub(crate) struct Room {
    /// The reserved bytes. Without a reservation, the connection keeps the answer only if it is
    /// small.
    reservation: Option<Reservation>,
    _places: [Permit; 2],
    _probe: Option<Permit>,
}

impl Room {
    /// Returns the bytes at which the read must end.
    pub fn bytes(&self) -> usize {
        self.reservation.as_ref().map_or(SMALL_ANSWER, Reservation::bytes)
    }
}

impl Connection {
    /// Waits until a request of this client may read rows. `least` is the number of bytes that the
    /// answer needs according to an earlier attempt, or 0.
    ///
    /// # Errors
    ///
    /// Fails with OVERLOADED if other answers hold the memory for [`PATIENCE`]. Fails if the
    /// connection is closed.
    pub async fn room_for_rows(
        &self,
        least: usize,
        is_one_row: bool,
    ) -> Result<Room, ErrorResponse> {
        let expected = match self.expected_answer.get() {
            _ if is_one_row => AGGREGATE_BYTES,
            0 => PAGE_BYTES,
            expected => expected,
        };
        let bytes = expected.max(least).min(self.server.max_unsent_bytes);
        // A read takes at most half of the connection's permits, so that a slow read does not stop
        // all others. While the shard has no permit free, a read takes at least a quarter, so that
        // a connection has few reads in the queue and other connections wait only a short time.
        let is_crowded = self.server.row_readers.available() == 0;
        let fewest = if is_crowded { PLACES_IN_QUEUE } else { 1 };
        let readers = (bytes / BYTES_OF_READER).clamp(fewest, MAX_ROW_READERS / 2);
        let of_connection = self.row_readers.acquire(readers).await;
        let answers = &self.server.answers;
        loop {
            self.taken_answers().await?;
            let of_shard = self.server.row_readers.acquire(1).await;
            if self.is_behind() {
                continue;
            }
            // While there is memory, a page may become larger than recent answers suggest.
            let most = if is_one_row { bytes } else { bytes.max(PAGE_BYTES) };
            let reserve = |bytes| answers.try_reserve(&self.answer_account, bytes);
            if let Some(reservation) = reserve(most).or_else(|| reserve(bytes)) {
                let (reservation, places) = (Some(reservation), [of_connection, of_shard]);
                return Ok(Room { reservation, _places: places, _probe: None });
            }
            // A request that waits for memory must not hold a permit of the shard.
            drop(of_shard);
            let may_probe =
                least <= SMALL_ANSWER && (!self.probe_failed.get() || answers.may_probe_again());
            let (reservation, probe) = self.wait_for_memory(bytes, may_probe).await?;
            let of_shard = self.server.row_readers.acquire(1).await;
            // Meanwhile, the connection may have got other answers to send.
            if !self.is_behind() {
                let places = [of_connection, of_shard];
                return Ok(Room { reservation, _places: places, _probe: probe });
            }
        }
    }

    /// Waits until a request of this client may read the node's own tables, or list roles. A LIST
    /// (`is_list`) gets no permit of the shard.
    ///
    /// # Errors
    ///
    /// Fails if the connection is closed.
    pub async fn places_for_own_tables(
        &self,
        is_list: bool,
    ) -> Result<(Permit, Option<Permit>), ErrorResponse> {
        let of_connection = self.own_table_readers.acquire(1).await;
        loop {
            self.taken_answers().await?;
            if is_list {
                return Ok((of_connection, None));
            }
            let of_shard = self.server.own_table_readers.acquire(1).await;
            // Meanwhile, the connection may have got other answers to send.
            if !self.is_behind() {
                return Ok((of_connection, Some(of_shard)));
            }
        }
    }

    /// Waits for one of the connection's permits for planned queries.
    pub async fn place_for_query(&self) -> Permit {
        self.planned_queries.acquire(1).await
    }

    /// Waits until the client has read enough of its answers ([`Connection::is_behind`]).
    ///
    /// # Errors
    ///
    /// Fails if the connection is closed.
    pub async fn taken_answers(&self) -> Result<(), ErrorResponse> {
        while self.is_behind() {
            self.sent.notified().await;
        }
        if self.closed.is_set() { Err(closed()) } else { Ok(()) }
    }

    /// Executes a read, and drops it once the connection is closed, because the read would keep
    /// memory and permits that other clients wait for.
    ///
    /// # Errors
    ///
    /// Fails if the connection is closed before the read ends.
    pub async fn while_open<T>(
        &self,
        read: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, ErrorResponse> {
        match select(read, pin!(self.closed.wait())).await {
            Either::Left((result, _)) => Ok(result),
            Either::Right(_) => Err(closed()),
        }
    }

    /// Waits for a reservation, or for a permit to read a small answer without one.
    async fn wait_for_memory(
        &self,
        bytes: usize,
        may_probe: bool,
    ) -> Result<(Option<Reservation>, Option<Permit>), ErrorResponse> {
        let answers = &self.server.answers;
        let waiting = async {
            let reservation = pin!(answers.reserve(&self.answer_account, bytes));
            if !may_probe {
                return (Some(reservation.await), None);
            }
            match select(reservation, pin!(answers.probe())).await {
                Either::Left((reservation, _)) => (Some(reservation), None),
                Either::Right((probe, _)) => (None, Some(probe)),
            }
        };
        time::timeout(PATIENCE, waiting).await.map_err(|_| {
            self.server.metrics.requests_shed.increment();
            let message = "Clients have too many unread rows \
                (native_transport_max_request_data_in_flight, .._per_ip): try again later";
            ErrorResponse::new(ErrorDetail::Overloaded, message)
        })
    }

    /// Resizes the reservation of an answer to the answer's size, and keeps it until the answer is
    /// sent.
    ///
    /// # Errors
    ///
    /// Returns the bytes that the answer needs if they are too many to keep. The caller must read
    /// the answer again.
    pub fn keep_answer(
        &self,
        room: Room,
        result: &cql::Result<cql::QueryResult>,
    ) -> Result<(), usize> {
        let allowed = room.bytes();
        let needed = match result {
            Ok(cql::QueryResult::Rows(rows)) => rows.content.len(),
            Err(error) if error.detail == cql::ErrorDetail::AnswerTooLarge => {
                if allowed >= self.server.max_unsent_bytes {
                    return Ok(());
                }
                allowed.saturating_mul(4).max(PAGE_BYTES)
            }
            _ => return Ok(()),
        };
        let half = self.expected_answer.get() / 2;
        // After a page that ended at its reservation, the next one asks for a larger reservation.
        let is_cut =
            matches!(result, Ok(cql::QueryResult::Rows(rows)) if rows.paging_state.is_some());
        let wanted = if is_cut && needed >= allowed { allowed.saturating_mul(4) } else { 0 };
        let expected = needed.max(half).max(wanted.min(PAGE_BYTES));
        self.expected_answer.set(expected.max(SMALL_ANSWER));
        // A page includes the row that exceeds its limit, so up to twice the limit is allowed.
        let is_large = needed > 2 * SMALL_ANSWER;
        let is_too_large = result.is_err() || (room.reservation.is_none() && is_large);
        self.probe_failed.set(is_too_large);
        if is_too_large {
            return Err(needed);
        }
        if let Some(mut reservation) = room.reservation {
            // The connection keeps large content as it is, and copies other content.
            let held = match result {
                Ok(cql::QueryResult::Rows(rows)) if needed >= LARGE_CONTENT => {
                    rows.content.capacity()
                }
                _ => needed,
            };
            reservation.resize(held);
            self.hold(reservation);
        }
        Ok(())
    }

    /// Reserves memory for the row of a request that is answered without a wait. Returns `false` if
    /// there is no memory, so that the request has to wait.
    pub fn hold_row(&self, bytes: usize) -> bool {
        if bytes <= SMALL_ANSWER {
            return true;
        }
        let reservation = self.server.answers.try_reserve(&self.answer_account, bytes);
        reservation.is_some_and(|reservation| {
            self.hold(reservation);
            true
        })
    }

    fn hold(&self, reservation: Reservation) {
        match &mut *self.held.borrow_mut() {
            Some(held) => held.merge(reservation),
            held @ None => *held = Some(reservation),
        }
    }
}
