//! The two checksums of version 5 segments: a CRC24 of the header, a CRC32 of the payload.

const CRC24_POLYNOMIAL: u32 = 0x0197_4F0B;
const CRC24_INITIAL: u32 = 0x0087_5060;

/// CRC32 of the four bytes `fa 2d 55 ca` that Cassandra feeds before each payload, so that a run of
/// zeroes does not have a checksum of zero.
const CRC32_OF_SALT: u32 = 0x4477_7ED3;

const CRC24_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u32) << 16;
        let mut bit = 0;
        while bit < 8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= CRC24_POLYNOMIAL;
            }
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// Returns the CRC24 of a segment header without its checksum (3 bytes, or 5 if the connection
/// compresses).
pub(super) fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(CRC24_INITIAL, |crc, &byte| {
        let index = (crc >> 16) as u8 ^ byte;
        ((crc << 8) & 0x00FF_FFFF) ^ CRC24_TABLE[index as usize]
    })
}

/// Returns the CRC32 of a segment's payload as it is on the wire.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(CRC32_OF_SALT);
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agree_with_the_reference_implementation() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for length in [0, 1, 3, 5, 8, 255, 1000] {
            let slice = &bytes[..length];
            assert_eq!(crc24(slice), cassandra_protocol::crc::crc24(slice) as u32);
            assert_eq!(crc32(slice), cassandra_protocol::crc::crc32(slice));
        }
    }
}
