//! `WITH` of tables: checks each property and sets it in [`TableOptions`].

use std::collections::BTreeMap;

use espalier_mutation::schema::{SSTABLE_FORMAT, TableOptions};
use espalier_sstable::versions::Version;
use espalier_storage::CompactionStrategy;
use espalier_types::literal::print_double;

use super::{
    Context,
    option_values::{check_caching, check_read_repair, check_retry_policy},
    scylla_options,
};
use crate::{
    Error, Result,
    grammar::ast::{Property, PropertyValue},
};

/// Returns the property with this name, if there is one.
pub(super) fn find_property<'p>(
    properties: impl IntoIterator<Item = &'p Property<'p>>,
    name: &str,
) -> Option<&'p Property<'p>> {
    properties.into_iter().find(|property| property.name.as_str() == name)
}

/// Returns the class that the map of a property names.
pub(super) fn class_of<'p>(
    properties: impl IntoIterator<Item = &'p Property<'p>>,
    name: &str,
) -> Option<&'p str> {
    match &find_property(properties, name)?.value {
        PropertyValue::Map(entries) => {
            entries.iter().find(|(key, _)| key == "class").map(|(_, class)| &**class)
        }
        PropertyValue::Text(_) => None,
    }
}

/// Refuses an id among the properties of a statement that cannot choose the id of its table.
///
/// # Errors
/// The properties contain `id`.
pub fn check_no_id(properties: &[Property<'_>]) -> Result<()> {
    match find_property(properties, "id") {
        Some(_) => Err(Error::configuration("Cannot alter table id.")),
        None => Ok(()),
    }
}

/// Returns the options of a new table. By default, the bloom filters of a table with levelled
/// compaction have a false-positive chance of 0.1.
///
/// # Errors
/// As [`set_options`].
pub fn new_options(context: &Context<'_>, properties: &[&Property<'_>]) -> Result<TableOptions> {
    let mut options = TableOptions::default();
    let compaction = class_of(properties.iter().copied(), "compaction");
    if compaction.is_some_and(|class| class.ends_with("LeveledCompactionStrategy")) {
        options.bloom_filter_fp_chance = 0.1;
    }
    set_options(context, options, properties)
}

/// Returns `options` with these properties, and warns the client of ScyllaDB's properties, which
/// have no effect. Skips `id`, which the caller handles. The caller leaves out the properties that
/// the guardrails ignore. It asks the guardrails once, because an operator may change them.
///
/// # Errors
/// A property is unknown or has an invalid value, `max_index_interval` is below
/// `min_index_interval`, or the memtable configuration does not exist.
pub fn set_options(
    context: &Context<'_>,
    mut options: TableOptions,
    properties: &[&Property<'_>],
) -> Result<TableOptions> {
    scylla_options::warn(context, properties);
    // The property `extensions` replaces all extensions, so it is set before the properties that
    // the schema stores as extensions.
    let is_extensions = |property: &&&Property<'_>| property.name.as_str() == "extensions";
    let others = properties.iter().filter(|property| !is_extensions(property));
    for property in properties.iter().filter(is_extensions).chain(others) {
        set_option(&mut options, property.name.as_str(), &property.value)?;
    }
    // The intervals are checked after all properties are set, because either may come first.
    let (min_interval, max_interval) = (options.min_index_interval, options.max_index_interval);
    if min_interval == 0 {
        return Err(Error::configuration(
            "min_index_interval must be greater than or equal to 1 (got 0)",
        ));
    }
    if max_interval < min_interval {
        return Err(Error::configuration(format!(
            "max_index_interval must be greater than or equal to min_index_interval ({min_interval}) (got {max_interval})"
        )));
    }
    // The memtable configuration is checked only if the statement sets it, because a configuration
    // that was removed from the settings must not prevent changes of other options.
    if find_property(properties.iter().copied(), "memtable").is_some()
        && context.node.is_some_and(|node| node.memtables.get(&options.memtable).is_none())
    {
        return Err(Error::configuration(format!(
            "Memtable configuration \"{}\" not found.",
            options.memtable
        )));
    }
    options.compression_options().map_err(Error::configuration)?;
    Ok(options)
}

/// Refuses options that a table with counters cannot have.
///
/// # Errors
/// The table has counters and a `default_time_to_live`.
pub fn check_counter_options(has_counters: bool, options: &TableOptions) -> Result<()> {
    if has_counters && options.default_time_to_live != 0 {
        return Err(Error::invalid("Cannot set default_time_to_live on a table with counters"));
    }
    Ok(())
}

fn set_option(options: &mut TableOptions, name: &str, value: &PropertyValue<'_>) -> Result<()> {
    if scylla_options::is_property(name, value) {
        return scylla_options::set(options, name, value);
    }
    match name {
        "additional_write_policy" => {
            options.additional_write_policy = checked_text(name, value, check_retry_policy)?;
        }
        "allow_auto_snapshot" => options.allow_auto_snapshot = parse_boolean(name, value)?,
        "bloom_filter_fp_chance" => {
            options.bloom_filter_fp_chance = parse_bloom_filter_chance(name, value)?;
        }
        "caching" => {
            let caching = map(name, value)?;
            check_caching(&caching).map_err(Error::configuration)?;
            options.caching = caching;
        }
        "cdc" => options.cdc = parse_boolean(name, value)?,
        "comment" => options.comment = text(name, value)?,
        "compaction" => {
            let compaction = map(name, value)?;
            CompactionStrategy::parse(&compaction).map_err(Error::configuration)?;
            options.compaction = CompactionStrategy::complete(compaction);
        }
        "compression" => options.compression = parse_compression(name, value)?,
        "memtable" => options.memtable = text(name, value)?,
        "crc_check_chance" => options.crc_check_chance = parse_crc_chance(name, value)?,
        "default_time_to_live" => options.default_time_to_live = parse_ttl(name, value)?,
        "extensions" => options.extensions = parse_extensions(name, value)?,
        SSTABLE_FORMAT => {
            let version = text(name, value)?;
            if version.is_empty() {
                options.extensions.remove(SSTABLE_FORMAT);
            } else {
                check_version(&version)?;
                options.extensions.insert(SSTABLE_FORMAT.into(), version.into_bytes());
            }
        }
        "gc_grace_seconds" => options.gc_grace_seconds = parse_int(name, value)?,
        "incremental_backups" => options.incremental_backups = parse_boolean(name, value)?,
        "max_index_interval" => options.max_index_interval = parse_int(name, value)?,
        "memtable_flush_period_in_ms" => {
            options.memtable_flush_period_in_ms = parse_int(name, value)?;
        }
        "min_index_interval" => options.min_index_interval = parse_int(name, value)?,
        "read_repair" => {
            options.read_repair = checked_text(name, value, check_read_repair)?;
        }
        "speculative_retry" => {
            options.speculative_retry = checked_text(name, value, check_retry_policy)?;
        }
        "id" => {}
        // Options of older versions that Cassandra 5.0 still accepts and ignores.
        "dclocal_read_repair_chance" | "read_repair_chance" => {}
        unknown => {
            return Err(Error::syntax(format!("Unknown property '{unknown}'")));
        }
    }
    Ok(())
}

fn parse_bloom_filter_chance(name: &str, value: &PropertyValue<'_>) -> Result<f64> {
    let chance = parse_double(name, value)?;
    // The lower bound is the smallest chance in Cassandra's table of bloom filters.
    if !(chance > 6.71e-5 && chance <= 1.0) {
        return Err(Error::configuration(format!(
            "bloom_filter_fp_chance must be larger than 6.71E-5 and less than or equal to 1.0 (got {chance:?})"
        )));
    }
    Ok(chance)
}

const RATIO: &str = "min_compress_ratio";

/// Returns the compression options in the form in which the schema keeps them: the class by its
/// full name, the chunk length, the ratio unless it is 0, and `enabled` only to disable
/// compression.
fn parse_compression(name: &str, value: &PropertyValue<'_>) -> Result<BTreeMap<String, String>> {
    let mut compression = map(name, value)?;
    let is_disabled = compression.get("sstable_compression").is_some_and(String::is_empty);
    if is_disabled && !compression.contains_key("class") {
        return Ok(uncompressed());
    }
    rename_old_options(&mut compression)?;
    check_compression(&compression)?;
    // Cassandra 2 had `crc_check_chance` here. This node drops it, and checks all checksums.
    compression.remove("crc_check_chance");
    if compression.get("enabled").is_some_and(|enabled| is_true(enabled)) {
        compression.remove("enabled");
    }
    if let Some(class) =
        compression.get("class").filter(|class| !class.contains('.') && !class.is_empty())
    {
        let class = format!("org.apache.cassandra.io.compress.{class}");
        compression.insert("class".into(), class);
    }
    if compression.contains_key("enabled") || compression.is_empty() {
        return Ok(uncompressed());
    }
    let length = compression.entry("chunk_length_in_kb".into()).or_insert_with(|| "16".into());
    let number = length.trim_end_matches("KiB");
    *length = number.parse::<i32>().map_or(number.to_owned(), |number| number.to_string());
    // A text that is no number is refused with the other options.
    let ratio = compression.get(RATIO).and_then(|text| text.parse::<f64>().ok());
    if let Some(ratio) = ratio {
        compression.remove(RATIO);
        if ratio != 0.0 {
            compression.insert(RATIO.into(), print_double(ratio));
        }
    }
    Ok(compression)
}

fn uncompressed() -> BTreeMap<String, String> {
    BTreeMap::from([("enabled".to_string(), "false".to_string())])
}

/// Gives the compression options of a schema of Cassandra 2 their present names.
fn rename_old_options(compression: &mut BTreeMap<String, String>) -> Result<()> {
    for (old, new, subject) in [
        ("sstable_compression", "class", "compression algorithm"),
        ("chunk_length_kb", "chunk_length_in_kb", "chunk length"),
    ] {
        let Some(value) = compression.remove(old) else { continue };
        if compression.insert(new.to_owned(), value).is_some() {
            return Err(Error::configuration(format!(
                "The '{old}' option must not be used if the {subject} is already specified by the \
                 '{new}' option"
            )));
        }
    }
    Ok(())
}

fn parse_crc_chance(name: &str, value: &PropertyValue<'_>) -> Result<f64> {
    let chance = parse_double(name, value)?;
    if !(0.0..=1.0).contains(&chance) {
        return Err(Error::configuration(format!(
            "crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 (got {chance:?})"
        )));
    }
    Ok(chance)
}

fn parse_ttl(name: &str, value: &PropertyValue<'_>) -> Result<u32> {
    let seconds = parse_int(name, value)?;
    let maximum = espalier_mutation::MAX_TTL_SECONDS;
    if i64::from(seconds) > i64::from(maximum) {
        return Err(Error::configuration(format!(
            "default_time_to_live must be less than or equal to {maximum} (got {seconds})"
        )));
    }
    Ok(seconds)
}

fn parse_extensions(name: &str, value: &PropertyValue<'_>) -> Result<BTreeMap<String, Vec<u8>>> {
    let bytes_of = |(key, value): (String, String)| {
        let bytes = espalier_types::literal::from_text(&espalier_types::CqlType::Blob, &value)
            .map_err(|error| Error::configuration(format!("extensions: {error}")))?;
        Ok((key, bytes.to_vec()))
    };
    let extensions: BTreeMap<_, _> =
        map(name, value)?.into_iter().map(bytes_of).collect::<Result<_>>()?;
    // This extension selects the format of the table's files, so only known formats are accepted.
    if let Some(version) = extensions.get(SSTABLE_FORMAT) {
        check_version(&String::from_utf8_lossy(version))?;
    }
    Ok(extensions)
}

fn checked_text(
    name: &str,
    value: &PropertyValue<'_>,
    check: impl Fn(&str) -> std::result::Result<(), String>,
) -> Result<String> {
    let text = text(name, value)?;
    match check(&text) {
        Ok(()) => Ok(text),
        Err(reason) => Err(Error::configuration(format!(
            "Invalid value '{}' for option '{name}': {reason}",
            text.escape_debug()
        ))),
    }
}

fn is_true(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

/// Checks that the compression options fit together: there are none, they name a class, or
/// `enabled` is the only option and is not true.
fn check_compression(compression: &BTreeMap<String, String>) -> Result<()> {
    if compression.get("enabled").is_some_and(|enabled| !is_true(enabled)) {
        if compression.len() > 1 {
            return Err(Error::configuration(
                "If the 'enabled' option is set to false no other options must be specified",
            ));
        }
        return Ok(());
    }
    match compression.get("class") {
        None if compression.is_empty() => Ok(()),
        None => {
            Err(Error::configuration("Missing sub-option 'class' for the 'compression' option."))
        }
        Some(class) if class.is_empty() => Err(Error::configuration(
            "The 'class' option must not be empty. To disable compression use 'enabled' : false",
        )),
        Some(_) => Ok(()),
    }
}

fn check_version(version: &str) -> Result<()> {
    match Version::named(version) {
        Some(_) => Ok(()),
        None => Err(Error::configuration(format!(
            "sstable_format must be da, oa, nb, me or mt, or empty for that of the node (got '{}')",
            version.escape_debug()
        ))),
    }
}

fn text(name: &str, value: &PropertyValue<'_>) -> Result<String> {
    match value {
        PropertyValue::Text(text) => Ok(text.to_string()),
        PropertyValue::Map(_) => Err(Error::syntax(format!(
            "Invalid value for property '{name}'. It should be a string"
        ))),
    }
}

/// Returns the entries of a property that has a map.
pub(super) fn map(name: &str, value: &PropertyValue<'_>) -> Result<BTreeMap<String, String>> {
    match value {
        PropertyValue::Map(entries) => {
            Ok(entries.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
        }
        PropertyValue::Text(_) => {
            Err(Error::syntax(format!("Invalid value for property '{name}'. It should be a map.")))
        }
    }
}

/// Parses a non-negative integer that fits an int, the type of the schema tables.
fn parse_int(name: &str, value: &PropertyValue<'_>) -> Result<u32> {
    let text = text(name, value)?;
    let number: i32 = text.parse().map_err(|_| {
        Error::syntax(format!("Invalid integer value {} for '{name}'", text.escape_debug()))
    })?;
    u32::try_from(number).map_err(|_| {
        Error::configuration(format!("{name} must be greater than or equal to 0 (got {number})"))
    })
}

/// Parses a number as Java does: blanks around it and a `d` or `f` after it are ignored.
fn parse_double(name: &str, value: &PropertyValue<'_>) -> Result<f64> {
    let text = text(name, value)?;
    let number = text.trim();
    let number = number.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(number);
    let is_number = number.ends_with(|c: char| c.is_ascii_digit() || c == '.');
    number.parse().ok().filter(|_| is_number).ok_or_else(|| {
        Error::syntax(format!("Invalid double value {} for '{name}'", text.escape_debug()))
    })
}

/// Parses a boolean; accepts the same words as Cassandra.
pub(super) fn parse_boolean(name: &str, value: &PropertyValue<'_>) -> Result<bool> {
    let text = text(name, value)?;
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" => Ok(false),
        _ => Err(Error::syntax(format!(
            "Invalid boolean value {} for '{name}'. Positive values can be '1', 'true' or 'yes'. Negative values can be '0', 'false' or 'no'.",
            text.escape_debug()
        ))),
    }
}
