//! Tests of the codec against an independent implementation of the client's side
//! (`cassandra-protocol`), and against broken bytes.

mod arbitrary;
pub mod driver;
mod hostile_bytes;
mod large_envelopes;
mod malformed;
mod oracle_requests;
mod oracle_responses;
mod requests;
mod responses;
mod version_3;
mod version_negotiation;
