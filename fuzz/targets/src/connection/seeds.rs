//! The seeds of the target: log-ins with passwords and with certificates, and mistakes of clients.

use super::{mode::*, step};
use crate::seeds::Seed;

/// Returns the seeds.
pub fn seeds() -> Vec<Seed> {
    use step::*;
    let whole = [OPTIONS, DELIVER, STARTUP, DELIVER, LOG_IN, DELIVER, QUERY, REGISTER, DELIVER];
    let early = [STARTUP, QUERY, REGISTER, DELIVER, LOG_IN, QUERY];
    let modes = [
        NEW_ADDRESS,
        TLS | NEW_ADDRESS,
        TLS | VERSION_1_2 | NEW_ADDRESS,
        CERTIFICATES | NEW_ADDRESS,
        CERTIFICATES | TLS | NEW_ADDRESS,
        CERTIFICATES | TLS | KNOWN,
        CERTIFICATES | TLS | KNOWN | VERSION_1_2,
        CERTIFICATES | TLS | UNKNOWN,
        CERTIFICATES | TLS | KNOWN | UNKNOWN,
    ];
    let mut inputs = Vec::new();
    for mode in modes {
        for version in [0, 1, 2] {
            inputs.push([&[mode, VERSION, version][..], &whole].concat());
        }
        inputs.push([&[mode], &early[..]].concat());
        inputs.push([&[mode, STARTUP, CHANGE_WIRE, 0, 40], &whole[..]].concat());
        inputs.push([&[mode, STARTUP, CHANGE_WIRE, 0, 41, LOG_IN], &whole[..]].concat());
    }
    let of_passwords: [&[u8]; 9] = [
        &[STARTUP, WRONG_PASSWORD, WRONG_PASSWORD, WRONG_PASSWORD, LOG_IN, QUERY],
        &[STARTUP, TOKEN, 0, 5, 0, b'a', 0, b'b', 0, LOG_IN, QUERY],
        &[STARTUP_WITH_COMPRESSION, 0, LOG_IN, QUERY],
        &[VERSION, 2, STARTUP_WITH_COMPRESSION, 0, LOG_IN, QUERY],
        &[STARTUP, FRAME, 0x0F, 0, 4, 0xFF, 0xFF, 0xFF, 0xFF, LOG_IN],
        &[STARTUP, FRAME, 0x0D, 0, 2, 0, 0, FRAME, 0x0A, 0, 2, 0, 0, FRAME, 0x09, 0, 0],
        &[BYTES, 0, 6, 22, 3, 1, 2, 0, 1, STARTUP],
        &[STARTUP, FLIP, 0, 4, DELIVER, LOG_IN, CUT, 0, 20, DELIVER],
        &[STARTUP, DELIVER, LOG_IN, FLIP, 0, 30, QUERY, DELIVER, STARTUP, LOG_IN],
    ];
    inputs.extend(of_passwords.map(|steps| [&[NEW_ADDRESS], steps].concat()));
    inputs.push([&[NEW_ADDRESS], &[OPTIONS; 20][..]].concat());
    inputs.into_iter().map(|input| ("connection", input)).collect()
}
