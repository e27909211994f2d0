//! The codec against an independent implementation of the client's side (`cassandra-protocol`), and against broken bytes.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so

mod arbitrary;
mod driver;
mod hostile_bytes;
mod large_envelopes;
mod malformed;
mod oracle_requests;
mod oracle_responses;
mod requests;
mod responses;
mod version_3;
mod version_negotiation;
