//! Appends the parts of a message that are not rows.

use std::net::{IpAddr, SocketAddr};

use bytes::BufMut;
use espalier_mutation::Token;
use espalier_types::vint;

/// The error of a string that is too long for its be16 length.
pub(crate) const LONG_STRING: &str = "a string of more than 65535 bytes";

pub(crate) fn put_boolean(value: bool, out: &mut Vec<u8>) {
    out.push(value.into());
}

/// Appends bytes after their vint length.
pub(crate) fn put_vint_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    vint::write_unsigned(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends bytes after their be16 length.
pub(crate) fn put_short_bytes(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let length = u16::try_from(bytes.len()).map_err(|_| LONG_STRING)?;
    out.put_u16(length);
    out.extend_from_slice(bytes);
    Ok(())
}

/// Appends a token after its be32 length.
pub(crate) fn put_token(token: Token, out: &mut Vec<u8>) {
    out.put_u32(8);
    out.put_i64(token.0);
}

/// Appends an address with its port.
pub(crate) fn put_address(address: SocketAddr, out: &mut Vec<u8>) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(18);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.put_u16(address.port());
}

/// Appends a string in Java's modified UTF-8, after its be16 length in bytes.
pub(crate) fn put_utf(text: &str, out: &mut Vec<u8>) -> Result<(), String> {
    let start = out.len();
    out.put_u16(0);
    for unit in text.encode_utf16() {
        match unit {
            1..=0x7F => out.push(unit as u8),
            0..=0x7FF => {
                out.extend_from_slice(&[0xC0 | (unit >> 6) as u8, 0x80 | (unit & 0x3F) as u8]);
            }
            _ => out.extend_from_slice(&[
                0xE0 | (unit >> 12) as u8,
                0x80 | (unit >> 6 & 0x3F) as u8,
                0x80 | (unit & 0x3F) as u8,
            ]),
        }
    }
    let length = u16::try_from(out.len() - start - 2).map_err(|_| LONG_STRING)?;
    out[start..start + 2].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
