//! Writes the notations of the specification to the end of a buffer.

use std::net::IpAddr;

/// Appends the notations of the native protocol.
pub(super) trait WireWrite {
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_i32(&mut self, value: i32);
    /// Appends a [string]. A text of more than 65535 bytes, which only an error message can have,
    /// is cut at a character.
    fn put_string(&mut self, value: &str);
    /// Appends [bytes], `None` for null.
    fn put_bytes(&mut self, value: Option<&[u8]>);
    /// Appends [short bytes]. More than 65535 bytes is a defect of the caller: ids and metadata ids
    /// are 16 bytes.
    fn put_short_bytes(&mut self, value: &[u8]);
    /// Appends a [string list] of at most 65535 items; further items are dropped.
    fn put_string_list<S: AsRef<str>>(&mut self, values: &[S]);
    /// Appends an [inetaddr]: a byte of length and the address, without a port.
    fn put_address(&mut self, address: IpAddr);
}

impl WireWrite for Vec<u8> {
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_i32(&mut self, value: i32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_string(&mut self, value: &str) {
        let mut length = value.len().min(u16::MAX as usize);
        while !value.is_char_boundary(length) {
            length -= 1;
        }
        let value = &value[..length];
        self.put_u16(value.len() as u16);
        self.extend_from_slice(value.as_bytes());
    }

    fn put_bytes(&mut self, value: Option<&[u8]>) {
        match value {
            Some(bytes) => {
                debug_assert!(bytes.len() <= i32::MAX as usize);
                self.put_u32(bytes.len() as u32);
                self.extend_from_slice(bytes);
            }
            None => self.put_i32(-1),
        }
    }

    fn put_short_bytes(&mut self, value: &[u8]) {
        debug_assert!(value.len() <= u16::MAX as usize);
        self.put_u16(value.len() as u16);
        self.extend_from_slice(value);
    }

    fn put_string_list<S: AsRef<str>>(&mut self, values: &[S]) {
        let count = values.len().min(u16::MAX as usize);
        self.put_u16(count as u16);
        for value in &values[..count] {
            self.put_string(value.as_ref());
        }
    }

    fn put_address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(v4) => {
                self.push(4);
                self.extend_from_slice(&v4.octets());
            }
            IpAddr::V6(v6) => {
                self.push(16);
                self.extend_from_slice(&v6.octets());
            }
        }
    }
}
