//! Tests the handshake of a connection between nodes.

use std::net::SocketAddr;

use bytes::Bytes;
use espalier_internode::{
    DecodeError,
    handshake::{Accept, ConnectionKind, Framing, Initiate},
};

use crate::vectors::{hex, to_hex};

fn initiate() -> Initiate {
    Initiate {
        min_version: 12,
        max_version: 13,
        kind: ConnectionKind::Urgent,
        framing: Framing::Crc,
        from: SocketAddr::from(([127, 0, 0, 2], 7000)),
    }
}

/// The first bytes that a node of Cassandra 5.0.9 at 127.0.0.1:7000 sends on a connection.
const RECORDED_INITIATE: &str = "ca552dfa0d0c0c11067f0000021b5818be306b";

#[test]
fn the_bytes_are_cassandras() {
    let recorded = hex(RECORDED_INITIATE);
    let (message, length) = Initiate::decode(&recorded).unwrap().unwrap();
    assert_eq!(length, recorded.len());
    let mut encoded = Vec::new();
    message.encode(&mut encoded);
    assert_eq!(to_hex(&encoded), RECORDED_INITIATE);
}

#[test]
fn all_forms_round_trip() {
    let kinds = [
        ConnectionKind::Urgent,
        ConnectionKind::Small,
        ConnectionKind::Large,
        ConnectionKind::Streaming,
    ];
    for kind in kinds {
        for framing in [Framing::Unprotected, Framing::Lz4, Framing::Crc] {
            for from in ["10.1.2.3:7000", "[2001:db8::1]:65535"] {
                let sent = Initiate { kind, framing, from: from.parse().unwrap(), ..initiate() };
                let mut bytes = Vec::new();
                sent.encode(&mut bytes);
                let length = bytes.len();
                bytes.push(7);
                let decoded = Initiate::decode(&Bytes::from(bytes)).unwrap();
                assert_eq!(decoded, Some((sent, length)));
            }
        }
    }
    let sent = Accept { max_version: 13, use_version: 12 };
    let mut bytes = Vec::new();
    sent.encode(&mut bytes);
    assert_eq!(Accept::decode(&Bytes::from(bytes)), Ok(Some((sent, 12))));
}

#[test]
fn each_cut_waits_and_each_flipped_bit_is_refused() {
    let mut bytes = Vec::new();
    initiate().encode(&mut bytes);
    for length in 0..bytes.len() {
        let cut = Bytes::copy_from_slice(&bytes[..length]);
        assert_eq!(Initiate::decode(&cut), Ok(None), "{length}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        // The decoder may wait for more bytes, because the flipped bit may announce a longer
        // address.
        let decoded = Initiate::decode(&Bytes::from(flipped));
        assert!(!matches!(decoded, Ok(Some(_))), "{bit}: {decoded:?}");
    }
    let other = Bytes::from_static(b"GET / HTTP/1.1\r\n");
    assert!(matches!(Initiate::decode(&other), Err(DecodeError::Malformed(_))));
}
