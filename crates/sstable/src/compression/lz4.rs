//! LZ4 blocks, by the C library, which Cassandra uses as well: on rows it is a third faster than what there is in safe Rust, and back
//! more than twice. It writes nothing beyond the memory that it is given, whatever a block says.

use lz4::block::{compress_bound, compress_to_buffer, decompress_to_buffer};

/// Lengths that the library can be told.
const MOST_BYTES: usize = i32::MAX as usize;
/// Bytes before a place that a block can refer to.
const REACH: usize = 65_535;
/// The largest length of literals that stands in a sequence's first byte; 255 is the largest in each of those behind it.
const SHORT_LITERALS: usize = 15;

/// The most that so many bytes become.
pub(super) fn maximum_length(plain: usize) -> usize {
    compress_bound(plain).unwrap_or(usize::MAX)
}

/// Gives how many bytes of `block` were written.
pub(super) fn compress(plain: &[u8], block: &mut [u8]) -> Result<usize, String> {
    let room = block.len().min(MOST_BYTES);
    compress_to_buffer(plain, None, false, &mut block[..room]).map_err(|error| error.to_string())
}

/// Gives how many bytes of `plain` were written.
pub(super) fn decompress(block: &[u8], plain: &mut [u8]) -> Result<usize, String> {
    let most = i32::try_from(plain.len()).map_err(|_| "is too long".to_owned())?;
    if block.len() > MOST_BYTES {
        return Err("is too long".into());
    }
    decompress_to_buffer(block, Some(most), plain).map_err(|error| error.to_string())
}

/// The same of a block that refers to a dictionary, which is what would have stood before it. So it is put there: as literals of
/// the block's first sequence.
pub(super) fn decompress_with_dictionary(
    block: &[u8],
    plain: &mut [u8],
    dictionary: &[u8],
) -> Result<usize, String> {
    let within_reach = &dictionary[dictionary.len().saturating_sub(REACH)..];
    let longer = with_literals_before(block, within_reach).ok_or("ends too early")?;
    let mut both = vec![0; within_reach.len() + plain.len()];
    let written = decompress(&longer, &mut both)?.saturating_sub(within_reach.len());
    plain[..written].copy_from_slice(&both[within_reach.len()..][..written]);
    Ok(written)
}

/// A block with more literals in front; `None` if it ends within its first length.
fn with_literals_before(block: &[u8], literals: &[u8]) -> Option<Vec<u8>> {
    let (&token, mut rest) = block.split_first()?;
    let mut length = usize::from(token >> 4);
    if length == SHORT_LITERALS {
        loop {
            let (&more, behind) = rest.split_first()?;
            rest = behind;
            length += usize::from(more);
            if more < 255 {
                break;
            }
        }
    }
    length += literals.len();
    let mut longer = Vec::with_capacity(1 + length / 255 + literals.len() + block.len());
    longer.push((length.min(SHORT_LITERALS) as u8) << 4 | token & 0xF);
    if let Some(mut more) = length.checked_sub(SHORT_LITERALS) {
        while more >= 255 {
            longer.push(255);
            more -= 255;
        }
        longer.push(more as u8);
    }
    longer.extend_from_slice(literals);
    longer.extend_from_slice(rest);
    Some(longer)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_dictionary_is_what_stands_before(
            dictionary in prop::collection::vec(0u8..4, 0..700),
            repeat in 1usize..200,
            from in 0usize..100_000,
            plain in prop::collection::vec(0u8..4, 1..700),
        ) {
            let dictionary = dictionary.repeat(repeat);
            // A part of it, and something else.
            let from = from.min(dictionary.len());
            let plain = [&dictionary[from..dictionary.len().min(from + 500)], &plain[..]].concat();
            let block = lz4_flex::block::compress_with_dict(&plain, &dictionary);
            let mut read = vec![7; plain.len()];
            let written = decompress_with_dictionary(&block, &mut read, &dictionary);
            prop_assert_eq!(written, Ok(plain.len()));
            prop_assert_eq!(read, plain);
        }

        #[test]
        fn garbage_is_an_error_or_some_bytes(
            block in prop::collection::vec(any::<u8>(), 0..300),
            dictionary in prop::collection::vec(any::<u8>(), 0..300),
            length in 0usize..5000,
        ) {
            let mut plain = vec![0; length];
            let alone = decompress(&block, &mut plain).unwrap_or(0);
            let with = decompress_with_dictionary(&block, &mut plain, &dictionary).unwrap_or(0);
            prop_assert!(alone <= length && with <= length);
        }
    }
}
