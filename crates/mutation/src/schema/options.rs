//! Table options, by the names that Cassandra gives them.

use std::collections::BTreeMap;

/// The options of a table. Defaults are Cassandra 5.0's.
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
            compaction: map(&[
                ("class", "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy"),
                ("max_threshold", "32"),
                ("min_threshold", "4"),
            ]),
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

/// What the `compression` option says, read.
#[derive(Clone, Debug, PartialEq)]
pub struct CompressionOptions {
    /// Simple class name: `LZ4Compressor`, ...
    pub class: String,
    /// Bytes, a power of two.
    pub chunk_length: u32,
    /// 0: always store compressed.
    pub min_compress_ratio: f64,
    /// Options of the compressor itself (`compression_level`, ...).
    pub parameters: BTreeMap<String, String>,
}

impl TableOptions {
    /// The compression to write with; `None` for uncompressed tables. The error says which option is wrong.
    pub fn compression_options(&self) -> Result<Option<CompressionOptions>, String> {
        let option = |name: &str| self.compression.get(name).map(String::as_str);
        if option("enabled").is_some_and(|enabled| enabled.eq_ignore_ascii_case("false")) {
            return Ok(None);
        }
        let class = match option("class").or(option("sstable_compression")) {
            None | Some("") => return Ok(None),
            Some(class) => class.rsplit('.').next().unwrap_or(class).to_string(),
        };
        let kibibytes = match option("chunk_length_in_kb").or(option("chunk_length_kb")) {
            None => 16,
            Some(text) => text
                .trim_end_matches("KiB")
                .parse::<u32>()
                .map_err(|_| format!("chunk_length_in_kb must be a number, not '{text}'"))?,
        };
        if !kibibytes.is_power_of_two() || kibibytes > 1 << 20 {
            return Err(format!("chunk_length_in_kb must be a power of 2, not {kibibytes}"));
        }
        let min_compress_ratio = match option("min_compress_ratio") {
            None => 0.0,
            Some(text) => text
                .parse::<f64>()
                .ok()
                .filter(|ratio| ratio.is_finite() && (*ratio == 0.0 || *ratio >= 1.0))
                .ok_or_else(|| {
                    format!("min_compress_ratio must be 0 or at least 1, not '{text}'")
                })?,
        };
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
        Ok(Some(CompressionOptions {
            class,
            chunk_length: kibibytes * 1024,
            min_compress_ratio,
            parameters,
        }))
    }
}
