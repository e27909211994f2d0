//! Sessions over real sockets: a node of one or two shards, and the client of the reference
//! implementation.

mod admin_api;
mod admin_flood;
mod bounds;
mod changed_columns;
mod client;
mod events;
mod gone_clients;
mod handshake;
mod latencies;
mod node;
mod requests;
mod restores;
mod ring;
mod unfinished;
mod unread_answers;
