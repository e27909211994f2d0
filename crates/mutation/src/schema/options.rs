//! Defines table options under Cassandra's names.

use std::collections::BTreeMap;

/// The options of a table.
///
/// The defaults are Cassandra 5.0's, except for the compaction strategy, which is that of
/// Cassandra's `cassandra_latest.yaml`.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct TableOptions {
    pub additional_write_policy: String,
    pub allow_auto_snapshot: bool,
    pub bloom_filter_fp_chance: f64,
    pub caching: BTreeMap<String, String>,
    pub cdc: bool,
    pub comment: String,
    pub compaction: BTreeMap<String, String>,
    pub compression: BTreeMap<String, String>,
    pub memtable: String,
    pub crc_check_chance: f64,
    pub default_time_to_live: u32,
    pub extensions: BTreeMap<String, Vec<u8>>,
    pub gc_grace_seconds: u32,
    pub incremental_backups: bool,
    pub max_index_interval: u32,
    pub memtable_flush_period_in_ms: u32,
    pub min_index_interval: u32,
    pub read_repair: String,
    pub speculative_retry: String,
}

impl Default for TableOptions {
    fn default() -> Self {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
        };
        Self {
            additional_write_policy: "99p".into(),
            allow_auto_snapshot: true,
            bloom_filter_fp_chance: 0.01,
            caching: map(&[("keys", "ALL"), ("rows_per_partition", "NONE")]),
            cdc: false,
            comment: String::new(),
            compaction: map(&[(
                "class",
                "org.apache.cassandra.db.compaction.UnifiedCompactionStrategy",
            )]),
            compression: map(&[
                ("chunk_length_in_kb", "16"),
                ("class", "org.apache.cassandra.io.compress.LZ4Compressor"),
            ]),
            memtable: "default".into(),
            crc_check_chance: 1.0,
            default_time_to_live: 0,
            extensions: BTreeMap::new(),
            gc_grace_seconds: 864_000,
            incremental_backups: true,
            max_index_interval: 2048,
            memtable_flush_period_in_ms: 0,
            min_index_interval: 128,
            read_repair: "BLOCKING".into(),
            speculative_retry: "99p".into(),
        }
    }
}

/// The parsed `compression` option.
#[derive(Clone, Debug, PartialEq)]
pub struct CompressionOptions {
    /// The simple class name (`LZ4Compressor`, ...).
    pub class: String,
    /// The length of a chunk in bytes, a power of two.
    pub chunk_length: u32,
    /// The ratio of uncompressed to compressed length below which a chunk is stored uncompressed; 0
    /// always compresses.
    pub min_compress_ratio: f64,
    /// Options of the compressor (`compression_level`, ...).
    pub parameters: BTreeMap<String, String>,
}

/// The algorithms with which a node can write.
const COMPRESSORS: [&str; 5] =
    ["LZ4Compressor", "SnappyCompressor", "DeflateCompressor", "ZstdCompressor", "NoopCompressor"];

/// The length of a chunk in KiB, if the options give none.
const DEFAULT_CHUNK_KIBIBYTES: u32 = 16;

/// The largest chunk, in KiB. A reader holds a chunk as a whole, and a few bytes of a file can
/// encode a chunk, so there is a limit (16 MiB, arbitrary).
const MAX_CHUNK_KIBIBYTES: u32 = 16 * 1024;

/// The extension that gives the version of the SSTables to write for a table.
pub const SSTABLE_FORMAT: &str = "sstable_format";

impl TableOptions {
    /// Returns the version letters of the SSTables to write for this table, if it is not the node's
    /// `sstable_format`.
    ///
    /// The setting is an extension, which Cassandra keeps but does not read, so that a schema can
    /// move to Cassandra and back.
    pub fn sstable_format(&self) -> Option<&str> {
        self.extensions.get(SSTABLE_FORMAT).and_then(|name| std::str::from_utf8(name).ok())
    }

    /// Returns the compression to write with; `None` for uncompressed tables. Options that a node
    /// cannot write with came from another node; LZ4 replaces them, because a table that cannot be
    /// flushed would fill the commit log.
    pub fn compression_to_write(&self) -> Option<CompressionOptions> {
        self.compression_options().unwrap_or_else(|_| {
            Some(CompressionOptions {
                class: COMPRESSORS[0].to_string(),
                chunk_length: DEFAULT_CHUNK_KIBIBYTES * 1024,
                min_compress_ratio: 0.0,
                parameters: BTreeMap::new(),
            })
        })
    }

    /// Returns the parsed `compression` option; `None` for uncompressed tables.
    ///
    /// # Errors
    ///
    /// Returns a text that says which option is wrong.
    pub fn compression_options(&self) -> Result<Option<CompressionOptions>, String> {
        let option = |name: &str| self.compression.get(name).map(String::as_str);
        if option("enabled").is_some_and(|enabled| enabled.eq_ignore_ascii_case("false")) {
            return Ok(None);
        }
        let class = match option("class").or(option("sstable_compression")) {
            None | Some("") => return Ok(None),
            Some(class) => class,
        };
        // As in Cassandra, the numbers are parsed before the class is looked up, and their ranges
        // are checked last.
        let length = option("chunk_length_in_kb").or(option("chunk_length_kb"));
        let kibibytes = length.map(parse_chunk_kibibytes).transpose()?;
        let ratio = option("min_compress_ratio").map_or(Ok(0.0), parse_ratio)?;
        let simple_class = class.rsplit('.').next().unwrap_or(class);
        if !COMPRESSORS.contains(&simple_class) {
            let package =
                if class.contains('.') { "" } else { "org.apache.cassandra.io.compress." };
            return Err(format!(
                "Could not create Compression for type {package}{class}; there are {}",
                COMPRESSORS.join(", ")
            ));
        }
        let known = [
            "class",
            "sstable_compression",
            "enabled",
            "chunk_length_in_kb",
            "chunk_length_kb",
            "min_compress_ratio",
            "crc_check_chance",
        ];
        let parameters = self
            .compression
            .iter()
            .filter(|(name, _)| !known.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        check_parameters(simple_class, &parameters)?;
        let kibibytes = kibibytes.map_or(Ok(DEFAULT_CHUNK_KIBIBYTES), check_chunk_kibibytes)?;
        check_ratio(ratio)?;
        Ok(Some(CompressionOptions {
            class: simple_class.to_string(),
            chunk_length: kibibytes * 1024,
            min_compress_ratio: ratio,
            parameters,
        }))
    }
}

fn parse_chunk_kibibytes(text: &str) -> Result<i32, String> {
    let number = text.trim_end_matches("KiB").parse::<i32>();
    number.map_err(|_| "Invalid value for chunk_length_in_kb".to_owned())
}

fn check_chunk_kibibytes(kibibytes: i32) -> Result<u32, String> {
    match u32::try_from(kibibytes) {
        Err(_) | Ok(0) => Err("Invalid negative or null chunk_length_in_kb".into()),
        Ok(kibibytes) if !kibibytes.is_power_of_two() => {
            Err("chunk_length_in_kb must be a power of 2".into())
        }
        Ok(kibibytes) if kibibytes > MAX_CHUNK_KIBIBYTES => Err(format!(
            "chunk_length_in_kb must be at most {MAX_CHUNK_KIBIBYTES}, not {kibibytes}"
        )),
        Ok(kibibytes) => Ok(kibibytes),
    }
}

fn parse_ratio(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if ratio.is_finite() => Ok(ratio),
        _ => Err(format!("Invalid value for min_compress_ratio: '{text}'")),
    }
}

fn check_ratio(ratio: f64) -> Result<(), String> {
    if ratio < 0.0 {
        return Err("Invalid negative min_compress_ratio".into());
    }
    if ratio > 0.0 && ratio < 1.0 {
        return Err("min_compress_ratio can either be 0 or greater than or equal to 1".into());
    }
    Ok(())
}

/// Checks that the compressor knows its options and accepts their values.
///
/// The check happens when the options are set, because a table that cannot be flushed must not take
/// writes.
fn check_parameters(class: &str, parameters: &BTreeMap<String, String>) -> Result<(), String> {
    let in_range = |value: &str, least: i32, most: i32| {
        // A text longer than any number would enlarge the head of CompressionInfo.db.
        let number = if value.len() <= 8 { value.parse::<i32>().ok() } else { None };
        number.is_some_and(|number| (least..=most).contains(&number))
    };
    for (name, value) in parameters {
        let expected = match (class, name.as_str()) {
            ("ZstdCompressor", "compression_level") if in_range(value, -131_072, 22) => continue,
            ("ZstdCompressor", "compression_level") => "a number from -131072 to 22",
            ("LZ4Compressor", "lz4_compressor_type") if value == "fast" || value == "high" => {
                continue;
            }
            ("LZ4Compressor", "lz4_compressor_type") => "fast or high",
            ("LZ4Compressor", "lz4_high_compressor_level") if in_range(value, 1, 17) => continue,
            ("LZ4Compressor", "lz4_high_compressor_level") => "a number from 1 to 17",
            _ => return Err(format!("Unknown compression options {name}")),
        };
        return Err(format!("compression option {name} must be {expected}, not '{value}'"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> TableOptions {
        let compression = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        TableOptions { compression, ..TableOptions::default() }
    }

    fn read(pairs: &[(&str, &str)]) -> Result<Option<CompressionOptions>, String> {
        with(pairs).compression_options()
    }

    #[test]
    fn lz4_replaces_invalid_compression_options() {
        let default = TableOptions::default().compression_options().unwrap();
        assert_eq!(with(&[("class", "x.Y")]).compression_to_write(), default);
        let zstd = &[("class", "ZstdCompressor")];
        assert_eq!(with(zstd).compression_to_write(), read(zstd).unwrap());
        assert_eq!(with(&[("enabled", "false")]).compression_to_write(), None);
    }

    #[test]
    fn invalid_compression_options_are_refused() {
        for (pairs, part) in [
            (&[("class", "LZ4Compressor"), ("chunk_length_in_kb", "524288")][..], "at most"),
            (&[("class", "LZ4Compressor"), ("chunk_length_in_kb", "3")], "power of 2"),
            (&[("class", "LZ4Compressor"), ("compression_level", "1")], "Unknown"),
            (&[("class", "ZstdCompressor"), ("compression_level", "23")], "from -131072"),
            (&[("class", "ZstdCompressor"), ("compression_level", "0000000003")], "from -131072"),
            (&[("class", "LZ4Compressor"), ("lz4_compressor_type", "slow")], "fast or high"),
            (&[("class", "LZ4Compressor"), ("lz4_high_compressor_level", "18")], "from 1 to 17"),
            (&[("class", "SnappyCompressor"), ("level", "1")], "Unknown"),
            (&[("class", "x.Y"), ("level", "1")], "for type x.Y; there are LZ4Compressor"),
            (&[("class", "x.Y"), ("chunk_length_in_kb", "x")], "for chunk_length_in_kb"),
            (&[("class", "Y")], "for type org.apache.cassandra.io.compress.Y;"),
            (&[("class", "LZ4Compressor"), ("min_compress_ratio", "inf")], "Invalid value for"),
        ] {
            let reason = read(pairs).unwrap_err();
            assert!(reason.contains(part), "{pairs:?}: {reason}");
        }
    }

    #[test]
    fn valid_compression_options_are_accepted() {
        for pairs in [
            &[("class", "LZ4Compressor"), ("chunk_length_in_kb", "16384")][..],
            &[("class", "a.b.ZstdCompressor"), ("compression_level", "-7")],
            &[
                ("class", "LZ4Compressor"),
                ("lz4_compressor_type", "high"),
                ("lz4_high_compressor_level", "9"),
            ],
            &[("class", "DeflateCompressor"), ("crc_check_chance", "0.5")],
        ] {
            assert!(read(pairs).unwrap().is_some(), "{pairs:?}");
        }
    }
}
