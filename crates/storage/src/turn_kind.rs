//! The kinds of statements that wait for a turn, and the setting that limits the wait of each kind.

/// The kind of a statement that takes a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnKind {
    /// A conditional statement or batch, or a transaction.
    Conditional,
    /// A read at SERIAL.
    SerialRead,
    /// A change of counters.
    Counter,
    /// Another write that reads first, such as one of a list element.
    Write,
}

impl TurnKind {
    /// Returns the setting that limits the wait.
    pub(crate) fn setting(self) -> &'static str {
        match self {
            Self::Conditional | Self::SerialRead => "cas_contention_timeout",
            Self::Counter => "counter_write_request_timeout",
            Self::Write => "write_request_timeout",
        }
    }

    /// Returns Cassandra's text for the end of the wait, without a full stop.
    pub fn timeout_text(self) -> &'static str {
        match self {
            Self::Conditional => {
                "CAS operation timed out: received 0 of 1 required responses after 0 contention \
                 retries"
            }
            Self::SerialRead | Self::Counter | Self::Write => {
                "Operation timed out - received only 0 responses"
            }
        }
    }
}
