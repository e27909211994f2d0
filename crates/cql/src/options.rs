//! Everything that accompanies a statement: bound values, paging and timestamp, and the state of
//! its connection.

use std::rc::Rc;

use bytes::Bytes;
use espalier_storage::Warnings;

use crate::auth::Login;

/// The state that a connection keeps between statements.
#[derive(Clone, Debug, Default)]
pub struct ClientState {
    /// The current keyspace, set by `USE`.
    pub keyspace: Option<String>,
    /// The log-in; `None` if clients do not log in.
    pub login: Option<Rc<Login>>,
}

/// One bound value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A serialised value, as a slice of the request.
    Bytes(Bytes),
    /// Null.
    Null,
    /// Not set: the column keeps its value.
    Unset,
}

/// The bound values of a statement.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// In the order of the markers.
    Positional(&'a [Value]),
    /// By the markers' names.
    Named(&'a [(&'a str, Value)]),
}

impl Values<'_> {
    /// No values.
    pub const NONE: Values<'static> = Values::Positional(&[]);
}

/// Parameters of an execution. Source: native_protocol_v5.spec section 4.1.4.
#[derive(Clone, Copy, Debug)]
pub struct QueryOptions<'a> {
    /// Bound values.
    pub values: Values<'a>,
    /// Rows per page; `None` or not positive: all rows.
    pub page_size: Option<i32>,
    /// The start of the page, from the previous result.
    pub paging_state: Option<&'a [u8]>,
    /// Write timestamp in µs, unless the statement has its own.
    pub timestamp_us: Option<i64>,
    /// The clock in seconds since 1970, for tests (v5).
    pub now_s: Option<i32>,
    /// Keyspace of this statement, instead of the connection's (v5).
    pub keyspace: Option<&'a str>,
    /// Consistency level as sent. A read at a serial level waits for the turns on its rows, and
    /// then until its rows are durable. Checks and guardrails may refuse a level. The level has no
    /// other effect, because there is one copy.
    pub consistency: u16,
    /// Serial consistency level as sent. The node only checks it.
    pub serial_consistency: Option<u16>,
    /// Bytes of rows at which a page ends. The last row may exceed them by its stored bytes and 64
    /// KiB. A larger last row, and a larger result without paging, fail with
    /// [`crate::ErrorDetail::AnswerTooLarge`].
    pub answer_bytes: usize,
    /// Collects the warnings for the client; without it, they are dropped.
    pub warnings: Option<&'a Warnings>,
    /// True if the client is exempt from guardrails. The processor sets it.
    pub is_exempt: bool,
    /// True if the answer shows masks in place of the values of masked columns. The processor sets
    /// it, by the client's permissions.
    pub applies_masks: bool,
}

impl Default for QueryOptions<'_> {
    fn default() -> Self {
        Self {
            values: Values::NONE,
            page_size: None,
            paging_state: None,
            timestamp_us: None,
            now_s: None,
            keyspace: None,
            consistency: 1,
            serial_consistency: None,
            answer_bytes: usize::MAX,
            warnings: None,
            is_exempt: false,
            applies_masks: false,
        }
    }
}
