//! The verbs of messages, with Cassandra's names and numbers.

use std::fmt;

/// The purpose of a message, by Cassandra's number. It may be any number, so that an error can name
/// an unknown verb.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Verb(pub u32);

macro_rules! verbs {
    ($($name:ident = $number:literal $(=> $response:literal)?),* $(,)?) => {
        #[allow(missing_docs, reason = "the names are Cassandra's")]
        impl Verb {
            $(pub const $name: Verb = Verb($number);)*

            /// All verbs that have a name here.
            pub const ALL: &'static [Verb] = &[$(Verb::$name),*];
        }

        impl Verb {
            /// Returns Cassandra's name; `None` for an unknown number.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// Returns the verb of the response, if the verb asks for one.
            pub fn response(self) -> Option<Verb> {
                match self.0 {
                    $($($number => Some(Verb($response)),)?)*
                    _ => None,
                }
            }
        }
    };
}

verbs! {
    MUTATION_RSP = 60,
    MUTATION_REQ = 0 => 60,
    HINT_RSP = 61,
    HINT_REQ = 1 => 61,
    READ_REPAIR_RSP = 62,
    READ_REPAIR_REQ = 2 => 62,
    BATCH_STORE_RSP = 65,
    BATCH_STORE_REQ = 5 => 65,
    BATCH_REMOVE_RSP = 66,
    BATCH_REMOVE_REQ = 6 => 66,
    PAXOS_PREPARE_RSP = 93,
    PAXOS_PREPARE_REQ = 33 => 93,
    PAXOS_PROPOSE_RSP = 94,
    PAXOS_PROPOSE_REQ = 34 => 94,
    PAXOS_COMMIT_RSP = 95,
    PAXOS_COMMIT_REQ = 35 => 95,
    TRUNCATE_RSP = 79,
    TRUNCATE_REQ = 19 => 79,
    COUNTER_MUTATION_RSP = 84,
    COUNTER_MUTATION_REQ = 24 => 84,
    READ_RSP = 63,
    READ_REQ = 3 => 63,
    RANGE_RSP = 69,
    RANGE_REQ = 9 => 69,
    GOSSIP_DIGEST_SYN = 14,
    GOSSIP_DIGEST_ACK = 15,
    GOSSIP_DIGEST_ACK2 = 16,
    GOSSIP_SHUTDOWN = 29,
    ECHO_RSP = 91,
    ECHO_REQ = 31 => 91,
    PING_RSP = 97,
    PING_REQ = 37 => 97,
    SCHEMA_PUSH_RSP = 98,
    SCHEMA_PUSH_REQ = 18 => 98,
    SCHEMA_PULL_RSP = 88,
    SCHEMA_PULL_REQ = 28 => 88,
    SCHEMA_VERSION_RSP = 80,
    SCHEMA_VERSION_REQ = 20 => 80,
    REPAIR_RSP = 100,
    VALIDATION_RSP = 102 => 100,
    VALIDATION_REQ = 101 => 100,
    SYNC_RSP = 104 => 100,
    SYNC_REQ = 103 => 100,
    PREPARE_MSG = 105 => 100,
    SNAPSHOT_MSG = 106 => 100,
    CLEANUP_MSG = 107 => 100,
    PREPARE_CONSISTENT_RSP = 109 => 100,
    PREPARE_CONSISTENT_REQ = 108 => 100,
    FINALIZE_PROPOSE_MSG = 110 => 100,
    FINALIZE_PROMISE_MSG = 111 => 100,
    FINALIZE_COMMIT_MSG = 112 => 100,
    FAILED_SESSION_MSG = 113 => 100,
    STATUS_RSP = 115 => 100,
    STATUS_REQ = 114 => 100,
    REPLICATION_DONE_RSP = 82,
    REPLICATION_DONE_REQ = 22 => 82,
    SNAPSHOT_RSP = 87,
    SNAPSHOT_REQ = 27 => 87,
    PAXOS2_COMMIT_REMOTE_REQ = 38 => 60,
    PAXOS2_COMMIT_REMOTE_RSP = 39,
    PAXOS2_PREPARE_RSP = 50,
    PAXOS2_PREPARE_REQ = 40 => 50,
    PAXOS2_PREPARE_REFRESH_RSP = 51,
    PAXOS2_PREPARE_REFRESH_REQ = 41 => 51,
    PAXOS2_PROPOSE_RSP = 52,
    PAXOS2_PROPOSE_REQ = 42 => 52,
    PAXOS2_COMMIT_AND_PREPARE_RSP = 53,
    PAXOS2_COMMIT_AND_PREPARE_REQ = 43 => 53,
    PAXOS2_REPAIR_RSP = 54,
    PAXOS2_REPAIR_REQ = 44 => 54,
    PAXOS2_CLEANUP_START_PREPARE_RSP = 55,
    PAXOS2_CLEANUP_START_PREPARE_REQ = 45 => 55,
    PAXOS2_CLEANUP_RSP = 56,
    PAXOS2_CLEANUP_REQ = 46 => 56,
    PAXOS2_CLEANUP_RSP2 = 57,
    PAXOS2_CLEANUP_FINISH_PREPARE_RSP = 58,
    PAXOS2_CLEANUP_FINISH_PREPARE_REQ = 47 => 58,
    PAXOS2_CLEANUP_COMPLETE_RSP = 59,
    PAXOS2_CLEANUP_COMPLETE_REQ = 48 => 59,
    FAILURE_RSP = 99,
}

impl Verb {
    /// Returns whether a message of this verb answers a request, and asks for no answer itself.
    pub fn is_response(self) -> bool {
        let is_named = self.name().is_some_and(|name| name.contains("_RSP"));
        is_named && self.response().is_none()
    }

    /// Returns whether a verb is one of conditional writes, of either version of Paxos.
    pub fn is_of_paxos(self) -> bool {
        self.name().is_some_and(|name| name.starts_with("PAXOS"))
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "verb {}", self.0),
        }
    }
}

impl fmt::Debug for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
