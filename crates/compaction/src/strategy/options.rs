//! This module reads the options of a strategy; its error texts are Cassandra's.

use std::{collections::BTreeMap, fmt::Display, str::FromStr};

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

    fn number<T: FromStr>(&mut self, name: &str, default: T) -> Result<T, String> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|_| format!("{text} is not a parsable int (base10) for {name}")),
        }
    }

    /// Reads a number of 32 bits, as Cassandra does, so that Cassandra accepts each value that is
    /// valid here.
    pub(super) fn int(&mut self, name: &str, default: i32) -> Result<i64, String> {
        self.number(name, default).map(i64::from)
    }

    /// Reads a number of 64 bits.
    pub(super) fn long(&mut self, name: &str, default: i64) -> Result<i64, String> {
        self.number(name, default)
    }

    pub(super) fn positive_long(&mut self, name: &str, default: i64) -> Result<u64, String> {
        let value = self.long(name, default)?;
        above_zero(name, value, value > 0)?;
        Ok(value.unsigned_abs())
    }

    /// Reads a float. Ignores blanks around the number and a `d` or `f` behind it, as Java does.
    pub(super) fn float(&mut self, name: &str, default: f64) -> Result<f64, String> {
        let Some(text) = self.text(name) else { return Ok(default) };
        let number = text.trim();
        let number = number.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(number);
        let value: Option<f64> = number.parse().ok();
        let finite = value.filter(|value| value.is_finite());
        finite.ok_or_else(|| format!("{text} is not a parsable float for {name}"))
    }

    /// Reads a share: `0.5` or `50%`.
    pub(super) fn share(&mut self, name: &'static str, default: f64) -> Result<f64, String> {
        let text = self.left.get(name).copied().unwrap_or_default();
        let Some(percent) = text.trim().strip_suffix('%') else { return self.float(name, default) };
        self.left.insert(name, percent);
        self.float(name, default).map(|percent| percent / 100.0)
    }

    pub(super) fn flag(&mut self, name: &str, default: bool) -> Result<bool, String> {
        match self.text(name) {
            None => Ok(default),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(text) if name == "enabled" => {
                Err(format!("enabled should either be 'true' or 'false', not {text}"))
            }
            Some(text) => Err(format!("'{name}' should be either 'true' or 'false', not '{text}'")),
        }
    }

    /// Reads a size in bytes, such as `1GiB`, `1.5 MiB` or `100B`.
    pub(super) fn bytes(&mut self, name: &str, default: u64) -> Result<u64, String> {
        let Some(text) = self.text(name) else { return Ok(default) };
        bytes(text).ok_or_else(|| {
            format!(
                "{text} is not a valid size in bytes for {name}: a number with B, KiB, MiB, GiB or TiB"
            )
        })
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

pub(super) fn above_zero(name: &str, value: impl Display, is_above: bool) -> Result<(), String> {
    if is_above { Ok(()) } else { Err(format!("{name} must be greater than 0, but was {value}")) }
}

fn bytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let number: f64 = text[..end].trim().parse().ok()?;
    let unit = match text[end..].trim() {
        "B" | "" => 1u64,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    let bytes = number * unit as f64;
    (0.0..1e18).contains(&bytes).then_some(bytes as u64)
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
        let enabled = options.flag("enabled", true)?;
        let is_named =
            options.has("tombstone_threshold") || options.has("tombstone_compaction_interval");
        let tombstone_threshold = options.float("tombstone_threshold", 0.2)?;
        above_zero("tombstone_threshold", tombstone_threshold, tombstone_threshold > 0.0)?;
        let tombstone_interval_s =
            options.positive_long("tombstone_compaction_interval", 86_400)?;
        let unchecked_tombstones = options.flag("unchecked_tombstone_compaction", false)?;
        options.flag("log_all", false)?;
        // `PurgeLimits` reads this option.
        options.flag("only_purge_repaired_tombstones", false)?;
        if let Some(text) = options.text("provide_overlapping_tombstones")
            && !["none", "row", "cell"].contains(&text.to_lowercase().as_str())
        {
            return Err(format!(
                "Invalid value for 'provide_overlapping_tombstones' compaction sub-option - must be one of the following [NONE, ROW, CELL]: {text}"
            ));
        }
        Ok(Self {
            enabled,
            tombstone_threshold,
            tombstone_interval_s,
            unchecked_tombstones,
            names_tombstones: is_named || unchecked_tombstones,
        })
    }
}

fn is_digits(text: &str) -> bool {
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
