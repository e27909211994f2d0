//! Sessions over real sockets: a node of one or two shards on one side, the reference implementation's client on the other.

mod admin_api;
mod bounds;
mod changed_columns;
mod client;
mod events;
mod handshake;
mod latencies;
mod node;
mod requests;
