//! This module estimates the number of different partition keys with HyperLogLog++ (p = 13, sp =
//! 25). The output has the stream form of clearspring's stream-lib, which Cassandra reads when it
//! plans a compaction. Format: docs/formats/statistics.md.
//!
//! The estimate is sparse while that form is shorter, then dense. Memory: at most 32 KiB sparse, 8
//! KiB dense.

const PRECISION: u32 = 13;
const SPARSE_PRECISION: u32 = 25;
const REGISTERS: usize = 1 << PRECISION;
/// Maximum number of sparse entries; above it, the dense registers are shorter.
const SPARSE_LIMIT: usize = REGISTERS * 3 / 4;
/// Version 2 of the stream, negated so that it cannot be the length of an older form.
const STREAM_VERSION: i32 = -2;
const REGISTERS_PER_WORD: usize = 6;
const REGISTER_BITS: usize = 5;

/// An estimator that collects hashes of keys.
#[derive(Clone, Debug)]
pub struct CardinalityEstimator {
    /// Encoded hashes. The entries from index `sorted` on are unsorted.
    sparse: Vec<u32>,
    sorted: usize,
    dense: Option<Box<[u8]>>,
}

impl Default for CardinalityEstimator {
    fn default() -> Self {
        Self::new()
    }
}

impl CardinalityEstimator {
    /// Creates an estimator without keys.
    pub fn new() -> Self {
        Self { sparse: Vec::new(), sorted: 0, dense: None }
    }

    /// Adds a serialised partition key.
    pub fn add_key(&mut self, key: &[u8]) {
        self.add_hash(murmur2(key));
    }

    fn add_hash(&mut self, hash: u64) {
        if let Some(registers) = &mut self.dense {
            let index = (hash >> (64 - PRECISION)) as usize;
            raise(registers, index, run_length(hash));
            return;
        }
        self.sparse.push(encode_sparse(hash));
        if self.sparse.len() >= self.sorted + 1024 {
            self.sort();
        }
        if self.sparse.len() > SPARSE_LIMIT && self.sorted == self.sparse.len() {
            let mut registers = vec![0; REGISTERS].into_boxed_slice();
            for &entry in &self.sparse {
                let (index, length) = decode_sparse(entry);
                raise(&mut registers, index, length);
            }
            self.dense = Some(registers);
            self.sparse = Vec::new();
        }
    }

    /// Sorts by index. If several entries have the same index, the one with the longest run stays.
    fn sort(&mut self) {
        self.sparse.sort_unstable_by_key(|&entry| (sparse_index(entry), entry & 1, entry));
        self.sparse.dedup_by_key(|entry| sparse_index(*entry));
        self.sorted = self.sparse.len();
    }

    /// Returns the stream: version, p, sp, kind, content.
    pub fn to_bytes(mut self) -> Vec<u8> {
        let mut out = STREAM_VERSION.to_be_bytes().to_vec();
        put_varint(PRECISION, &mut out);
        put_varint(SPARSE_PRECISION, &mut out);
        match &self.dense {
            Some(registers) => {
                put_varint(0, &mut out);
                let words = REGISTERS / REGISTERS_PER_WORD + 1;
                put_varint(words as u32 * 4, &mut out);
                for word in registers.chunks(REGISTERS_PER_WORD) {
                    let packed =
                        word.iter().enumerate().fold(0u32, |packed, (index, &register)| {
                            packed | u32::from(register) << (REGISTER_BITS * index)
                        });
                    out.extend_from_slice(&packed.to_be_bytes());
                }
            }
            None => {
                self.sort();
                put_varint(1, &mut out);
                put_varint(self.sparse.len() as u32, &mut out);
                let mut previous = 0u32;
                for &entry in &self.sparse {
                    put_varint(entry.wrapping_sub(previous), &mut out);
                    previous = entry;
                }
            }
        }
        out
    }
}

fn raise(registers: &mut [u8], index: usize, length: u8) {
    if let Some(register) = registers.get_mut(index) {
        *register = (*register).max(length.min(31));
    }
}

/// Returns one more than the number of zeros after the index bits. A sentinel bit ends the run.
fn run_length(hash: u64) -> u8 {
    (hash << PRECISION | 1 << (PRECISION - 1)).leading_zeros() as u8 + 1
}

/// Encodes the 25 index bits of a hash. If the 12 bits that are not part of a dense index are zero,
/// the run length is encoded too, and bit 0 marks it.
fn encode_sparse(hash: u64) -> u32 {
    let index = (hash >> (64 - SPARSE_PRECISION)) as u32;
    match index & ((1 << (SPARSE_PRECISION - PRECISION)) - 1) {
        0 => (index << 6 | u32::from(run_length(hash)) ^ 63) << 1 | 1,
        _ => index << 1,
    }
}

fn sparse_index(entry: u32) -> u32 {
    if entry & 1 == 1 { entry >> 7 } else { entry >> 1 }
}

/// Returns the dense index and the run length of an entry.
fn decode_sparse(entry: u32) -> (usize, u8) {
    let index = sparse_index(entry);
    let below = index << (32 - (SPARSE_PRECISION - PRECISION));
    let length =
        if entry & 1 == 1 { (entry >> 1 & 63 ^ 63) as u8 } else { below.leading_zeros() as u8 + 1 };
    ((index >> (SPARSE_PRECISION - PRECISION)) as usize, length)
}

fn put_varint(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Computes Murmur2 of 64 bits with seed 0. The bytes of the tail are sign-extended as in Java.
fn murmur2(key: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0xC6A4_A793_5BD1_E995;
    const SHIFT: u32 = 47;
    let mut hash = MULTIPLIER.wrapping_mul(key.len() as u64);
    let (words, tail) = key.as_chunks::<8>();
    for word in words {
        let mut mixed = u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        mixed ^= mixed >> SHIFT;
        hash = (hash ^ mixed.wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    }
    if !tail.is_empty() {
        for (index, &byte) in tail.iter().enumerate().rev() {
            hash ^= (i64::from(byte as i8) as u64) << (8 * index);
        }
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> SHIFT;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ hash >> SHIFT
}
