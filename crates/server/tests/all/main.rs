//! Tests of the server through its public interface, linked as one program: `protocol` tests the
//! codec alone, `sessions` tests a node over real sockets.

#![allow(clippy::unwrap_used)] // a test that cannot go on fails where it stands

mod protocol;
mod sessions;
