//! No bytes make the decoders of envelopes and of requests panic.

use cassandra_protocol::frame::Serialize;
use espalier_server::protocol::{DEFAULT_MAX_FRAME_SIZE, Decoder, Request};
use proptest::prelude::*;

use super::arbitrary;
use super::driver::{MODES, decode_all};

proptest! {
    #![proptest_config(espalier_testing::properties(2000))]

    #[test]
    fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), chunk in 1usize..50) {
        decode_all(&mut Decoder::new(DEFAULT_MAX_FRAME_SIZE), &bytes, chunk);
        for mode in MODES {
            for envelope in decode_all(&mut mode.decoder(), &bytes, chunk).into_iter().flatten() {
                let _ = Request::decode(&envelope);
            }
        }
    }

    /// If only bytes of a body are damaged or missing, the decoder still returns the envelope. The
    /// decoder of requests may accept or refuse the body.
    #[test]
    fn damaged_bodies(
        mode in prop::sample::select(vec![MODES[0], MODES[3]]),
        (opcode, body) in arbitrary::request(espalier_server::protocol::ProtocolVersion::V5),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        flags in 0u8..32,
    ) {
        let mut body = body.serialize_to_vec(mode.oracle_version());
        for (at, byte) in damage {
            if !body.is_empty() {
                let at = at.index(body.len());
                body[at] = byte;
            }
        }
        if flags & 16 != 0 {
            body.truncate(cut.index(body.len() + 1));
        }
        let mut request = mode.request(1, opcode, body);
        request.flags = cassandra_protocol::frame::Flags::from_bits_truncate(flags & 0x0e);
        let decoded = decode_all(&mut mode.decoder(), &mode.client_bytes(&[request]), 1000);
        prop_assert_eq!(decoded.len(), 1);
        let _ = Request::decode(decoded[0].as_ref().unwrap());
    }
}
