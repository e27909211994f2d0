//! This module reads the options of a strategy; its error texts are Cassandra's.

use std::collections::BTreeMap;

use espalier_types::literal::parse_float;

use super::size::{parse_bytes, print_bytes};

/// Minimum of the sizes that [`Options::bytes`] reads.
const MIN_BYTES: f64 = (1 << 20) as f64;

/// Cassandra's error texts call most numbers ints, also longs and floats.
pub(super) const INT: &str = "int (base10)";

/// The options that have not been read yet.
pub(super) struct Options<'a> {
    class: &'a str,
    left: BTreeMap<&'a str, &'a str>,
}

impl<'a> Options<'a> {
    pub(super) fn new(class: &'a str, options: &'a BTreeMap<String, String>) -> Self {
        let left = options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let left = left.filter(|(name, _)| *name != "class").collect();
        Self { class, left }
    }

    /// Returns whether the option is present and has not been read yet.
    pub(super) fn has(&self, name: &str) -> bool {
        self.left.contains_key(name)
    }

    pub(super) fn text(&mut self, name: &str) -> Option<&'a str> {
        self.left.remove(name)
    }

    pub(super) fn ignore(&mut self, names: &[&str]) {
        self.left.retain(|name, _| !names.contains(name));
    }

    /// Reads a number. `kind` stands for its type in the error text.
    fn number<T>(
        &mut self,
        name: &str,
        default: T,
        kind: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, String> {
        let Some(text) = self.text(name) else { return Ok(default) };
        parse(text).ok_or_else(|| format!("{text} is not a parsable {kind} for {name}"))
    }

    /// Reads a number of 32 bits, as Cassandra does, so that Cassandra accepts each value that is
    /// valid here.
    pub(super) fn int(&mut self, name: &str, default: i32) -> Result<i64, String> {
        self.number(name, default, INT, |text| text.parse().ok()).map(i64::from)
    }

    /// Reads a number of 64 bits.
    pub(super) fn long(&mut self, name: &str, default: i64, kind: &str) -> Result<i64, String> {
        self.number(name, default, kind, |text| text.parse().ok())
    }

    pub(super) fn float(&mut self, name: &str, default: f64, kind: &str) -> Result<f64, String> {
        self.number(name, default, kind, parse_float)
    }

    /// Reads a flag. `refusal` makes the error text for another value, because Cassandra has one
    /// for each option.
    pub(super) fn flag(
        &mut self,
        name: &str,
        default: bool,
        refusal: impl FnOnce(&str) -> String,
    ) -> Result<bool, String> {
        match self.text(name) {
            None => Ok(default),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(text) => Err(refusal(text)),
        }
    }

    /// Reads a size of at least 1 MiB and less than `end`, in bytes. As in Cassandra, a size of
    /// more than 63 bits counts as the largest one of 63 bits.
    pub(super) fn bytes(&mut self, name: &str, end: Option<f64>) -> Result<Option<u64>, String> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let bytes = parse_bytes(text)
            .map_err(|cause| format!("{name} {text} is not a valid size in bytes: {cause}"))?;
        if end.is_some_and(|end| bytes >= end) {
            return Err(format!("{name} {text} is out of range of Long."));
        }
        if bytes < MIN_BYTES {
            let least = print_bytes(MIN_BYTES as u64);
            return Err(format!("{name} {text} is not acceptable, size must be at least {least}"));
        }
        Ok(Some((bytes as i64).unsigned_abs()))
    }

    /// Returns an error if some options have not been read.
    pub(super) fn end(self) -> Result<(), String> {
        if self.left.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.left.into_keys().collect();
        let (names, class) = (names.join(", "), self.class);
        Err(format!("Properties specified [{names}] are not understood by {class}"))
    }
}

/// The options that all strategies accept.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Common {
    pub(super) enabled: bool,
    pub(super) tombstone_threshold: f64,
    pub(super) tombstone_interval_s: u64,
    pub(super) unchecked_tombstones: bool,
    /// True if the table sets the threshold or interval of tombstone compactions, or sets
    /// `unchecked_tombstone_compaction` to true.
    pub(super) names_tombstones: bool,
}

impl Default for Common {
    fn default() -> Self {
        Self {
            enabled: true,
            tombstone_threshold: 0.2,
            tombstone_interval_s: 86_400,
            unchecked_tombstones: false,
            names_tombstones: false,
        }
    }
}

impl Common {
    pub(super) fn read(options: &mut Options<'_>) -> Result<Self, String> {
        let enabled = options.flag("enabled", true, |text| {
            format!("enabled should either be 'true' or 'false', not {text}")
        })?;
        let is_named =
            options.has("tombstone_threshold") || options.has("tombstone_compaction_interval");
        // Zero is valid in spite of the error texts.
        let tombstone_threshold = options.float("tombstone_threshold", 0.2, INT)?;
        if tombstone_threshold < 0.0 {
            // Java prints the infinity as a word.
            let printed = format!("{tombstone_threshold:.6}").replace("inf", "Infinity");
            return Err(format!("tombstone_threshold must be greater than 0, but was {printed}"));
        }
        let interval_s = options.long("tombstone_compaction_interval", 86_400, INT)?;
        let interval_s = u64::try_from(interval_s).map_err(|_| {
            format!("tombstone_compaction_interval must be greater than 0, but was {interval_s}")
        })?;
        let unchecked = "unchecked_tombstone_compaction";
        let unchecked_tombstones = options.flag(unchecked, false, |text| {
            format!("'{unchecked}' should be either 'true' or 'false', not '{text}'")
        })?;
        options.flag("log_all", false, |text| {
            format!("'log_all' should either be 'true' or 'false', not {text}")
        })?;
        // `PurgeLimits` reads this option. Any other word than `true` is false.
        options.ignore(&["only_purge_repaired_tombstones"]);
        let overlapping = options.text("provide_overlapping_tombstones").unwrap_or("NONE");
        let overlapping = overlapping.to_uppercase();
        if !["NONE", "ROW", "CELL"].contains(&overlapping.as_str()) {
            return Err(format!(
                "Invalid value {overlapping} for 'provide_overlapping_tombstones' compaction sub-option - must be one of the following [NONE, ROW, CELL]."
            ));
        }
        Ok(Self {
            enabled,
            tombstone_threshold,
            // At 0, the scheduler would rewrite a file with tombstones that must stay at each of
            // its checks.
            tombstone_interval_s: interval_s.max(1),
            unchecked_tombstones,
            names_tombstones: is_named || unchecked_tombstones,
        })
    }
}

pub(super) fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The minimum and maximum number of files of a compaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Thresholds {
    pub(super) minimum: usize,
    pub(super) maximum: usize,
}

impl Thresholds {
    pub(super) fn read(options: &mut Options<'_>) -> Result<Self, String> {
        let mut threshold = |name: &str, default: i32| match options.text(name) {
            None => Ok(default),
            // Cassandra accepts neither blanks nor signs here.
            Some(text) => text.parse().ok().filter(|_| is_digits(text)).ok_or_else(|| {
                format!(
                    "Invalid value {text} for '{name}' compaction sub-option - must be an integer"
                )
            }),
        };
        let minimum: i32 = threshold("min_threshold", 4)?;
        let maximum: i32 = threshold("max_threshold", 32)?;
        if minimum <= 0 || maximum <= 0 {
            return Err("Disabling compaction by setting compaction thresholds to 0 has been removed, set the compaction \
                option 'enabled' to 'false' instead."
                .into());
        }
        if minimum == 1 {
            return Err(format!("Min compaction threshold cannot be less than 2 (got {minimum})"));
        }
        if minimum > maximum {
            return Err(format!(
                "Min compaction threshold (got {minimum}) cannot be greater than max compaction threshold (got {maximum})"
            ));
        }
        let size = |value: i32| usize::try_from(value).unwrap_or(usize::MAX);
        Ok(Self { minimum: size(minimum), maximum: size(maximum) })
    }
}
