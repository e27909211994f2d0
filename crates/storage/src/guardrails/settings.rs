//! The settings of guardrails: their names, and changes of their values while the node runs.
//!
//! A value has the form of cassandra.yaml: a number, `true`, a size (`8KiB`), a duration (`1d`), or
//! names between brackets (`[ALL, QUORUM]`). `null` switches a size or a duration off, -1 a number.

use std::sync::{PoisonError, atomic::Ordering::Relaxed};

use super::{Feature, Guardrails, Level, Limit, Names, OFF, Verdict, limit};
use crate::units::{parse_duration, parse_size};
use limit::{Side, Unit};

/// One setting of a guardrail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// An older name, which takes a plain number of KiB.
    pub old_name: Option<&'static str>,
    target: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Threshold(Limit, Level),
    Enabled(Feature),
    Warned(Feature),
    Names(Names, Verdict),
}

/// The reason for which a value cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingError(String);

impl Setting {
    /// Returns all settings.
    pub fn all() -> impl Iterator<Item = Self> {
        let limits = Limit::ALL.into_iter().flat_map(|limit| {
            let definition = limit.definition();
            let ((warn, fail), (old_warn, old_fail)) =
                (definition.settings, definition.old_settings);
            [(warn, old_warn, Level::Warn), (fail, old_fail, Level::Fail)].map(
                |(name, old_name, level)| Self {
                    name,
                    old_name: (!old_name.is_empty()).then_some(old_name),
                    target: Target::Threshold(limit, level),
                },
            )
        });
        let new = |name, target| Self { name, old_name: None, target };
        let features = Feature::ALL.into_iter().flat_map(move |feature| {
            let definition = feature.definition();
            let warned = definition.warned.map(|name| new(name, Target::Warned(feature)));
            std::iter::once(new(definition.setting, Target::Enabled(feature))).chain(warned)
        });
        let names = Names::ALL.into_iter().flat_map(move |names| {
            Verdict::ALL.into_iter().filter_map(move |verdict| {
                Some(new(names.setting(verdict)?, Target::Names(names, verdict)))
            })
        });
        limits.filter(|setting| !setting.name.is_empty()).chain(features).chain(names)
    }

    /// Returns the setting of that name, new or old.
    pub fn find(name: &str) -> Option<Self> {
        Self::all().find(|setting| setting.name == name || setting.old_name == Some(name))
    }

    /// Returns the thresholds that Cassandra's `setguardrailsconfig` calls by one name, such as
    /// `keyspaces_threshold`: that for a refusal, and that for a warning.
    pub fn find_pair(name: &str) -> Option<(Self, Self)> {
        let start = name.strip_suffix("_threshold")?;
        let warn = Self::find(&format!("{start}_warn_threshold"))?;
        let fail = Self::find(&format!("{start}_fail_threshold"))
            .or_else(|| Self::find(&format!("{start}_failure_threshold")))?;
        Some((fail, warn))
    }
}

impl Guardrails {
    /// Returns the names and values of all settings; `None` for a size or duration that is off.
    pub fn settings(&self) -> Vec<(&'static str, Option<String>)> {
        Setting::all().map(|setting| (setting.name, self.show(setting))).collect()
    }

    /// Returns the value of a setting in the form in which it can be set.
    pub fn show(&self, setting: Setting) -> Option<String> {
        match setting.target {
            Target::Threshold(limit, level) => {
                show_threshold(limit.definition().unit, self.thresholds(limit)[level as usize])
            }
            Target::Enabled(feature) => Some(self.is_enabled(feature).to_string()),
            Target::Warned(feature) => {
                Some(self.features[feature as usize].is_warned.load(Relaxed).to_string())
            }
            Target::Names(names, verdict) => {
                let sets = self.names.read().unwrap_or_else(PoisonError::into_inner);
                Some(format!("[{}]", sets[names as usize][verdict as usize].join(", ")))
            }
        }
    }

    /// Changes settings together. All of them change, or none.
    ///
    /// # Errors
    /// A value is not of the setting's kind, or a threshold for a refusal would be reached before
    /// that for a warning.
    pub fn set(&self, changes: &[(Setting, &str)]) -> Result<(), SettingError> {
        let changes = changes
            .iter()
            .map(|(setting, text)| Ok((*setting, parse(*setting, text)?)))
            .collect::<Result<Vec<_>, String>>()
            .map_err(SettingError)?;
        for (setting, _) in &changes {
            self.check_order(*setting, &changes).map_err(SettingError)?;
        }
        for (setting, value) in changes {
            self.store(setting, value);
        }
        self.summarise();
        Ok(())
    }

    /// Checks that the thresholds of a limit are in order after the changes.
    fn check_order(&self, setting: Setting, changes: &[(Setting, Parsed)]) -> Result<(), String> {
        let Target::Threshold(limit, _) = setting.target else { return Ok(()) };
        let mut thresholds = self.thresholds(limit);
        for (setting, value) in changes {
            if let (Target::Threshold(of, level), Parsed::Number(to)) = (setting.target, value)
                && of == limit
            {
                thresholds[level as usize] = *to;
            }
        }
        let [warn, fail] = thresholds;
        let definition = limit.definition();
        let (is_wrong, order) = match (definition.unit, definition.side) {
            // Both ages are distances from the present, so a greater one is violated later.
            (Unit::Age, _) | (_, Side::Above) => (warn > fail, "lower"),
            (_, Side::Below) => (warn < fail, "greater"),
        };
        if warn == OFF || fail == OFF || !is_wrong {
            return Ok(());
        }
        let show = |value| show_threshold(definition.unit, value).unwrap_or_default();
        Err(format!(
            "The warn threshold {} for {} should be {order} than the fail threshold {}",
            show(warn),
            setting.name,
            show(fail)
        ))
    }

    fn store(&self, setting: Setting, value: Parsed) {
        match (setting.target, value) {
            (Target::Threshold(limit, level), Parsed::Number(number)) => {
                self.limits[limit as usize][level as usize].store(number, Relaxed);
            }
            (Target::Enabled(feature), Parsed::Switch(is_on)) => {
                self.features[feature as usize].is_enabled.store(is_on, Relaxed);
            }
            (Target::Warned(feature), Parsed::Switch(is_on)) => {
                self.features[feature as usize].is_warned.store(is_on, Relaxed);
            }
            (Target::Names(names, verdict), Parsed::Names(list)) => {
                let mut sets = self.names.write().unwrap_or_else(PoisonError::into_inner);
                sets[names as usize][verdict as usize] = list;
            }
            // `parse` returns the kind of the target.
            _ => {}
        }
    }
}

enum Parsed {
    Number(i64),
    Switch(bool),
    Names(Vec<String>),
}

fn parse(setting: Setting, text: &str) -> Result<Parsed, String> {
    let text = text.trim();
    match setting.target {
        Target::Threshold(limit, _) => {
            parse_threshold(limit.definition().unit, text).map(Parsed::Number)
        }
        Target::Enabled(_) | Target::Warned(_) => match text.to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(Parsed::Switch(true)),
            "false" | "0" => Ok(Parsed::Switch(false)),
            _ => Err("expected true or false".to_owned()),
        },
        Target::Names(names, _) => parse_names(names, text).map(Parsed::Names),
    }
}

fn parse_threshold(unit: Unit, text: &str) -> Result<i64, String> {
    let is_off = text.is_empty() || text.eq_ignore_ascii_case("null");
    let range = match unit {
        Unit::Bytes if is_off => return Ok(OFF),
        Unit::Bytes => {
            return i64::try_from(parse_size(text)?).map_err(|_| "the size is too large".into());
        }
        Unit::Age if is_off => return Ok(OFF),
        Unit::Age => {
            return i64::try_from(parse_duration(text)?.as_micros())
                .map_err(|_| "the duration is too long".into());
        }
        Unit::Count => 0..=i64::from(i32::MAX),
        Unit::Percent => 1..=100,
    };
    let number = text.parse().ok().filter(|number| *number == OFF || range.contains(number));
    number.ok_or_else(|| {
        format!("expected a number from {} to {}, or -1 for none", range.start(), range.end())
    })
}

fn parse_names(names: Names, text: &str) -> Result<Vec<String>, String> {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let mut list: Vec<&str> = Vec::new();
    for given in inner.split(',').map(str::trim) {
        if given.is_empty() || given.eq_ignore_ascii_case("null") {
            continue;
        }
        let name = names.find(given).ok_or_else(|| {
            let kind = if names == Names::TableProperties { "table property" } else { "level" };
            format!("there is no {kind} {given:?}")
        })?;
        if !list.contains(&name) {
            list.push(name);
        }
    }
    if names != Names::TableProperties {
        names.sort(&mut list);
    }
    Ok(list.into_iter().map(str::to_owned).collect())
}

fn show_threshold(unit: Unit, value: i64) -> Option<String> {
    let in_units = |units: &[(i64, &str)]| {
        let unit = units.iter().find(|(unit, _)| value >= *unit && value % unit == 0);
        unit.map(|(unit, name)| format!("{}{name}", value / unit))
    };
    match unit {
        Unit::Count | Unit::Percent => Some(value.to_string()),
        _ if value == OFF => None,
        Unit::Bytes => in_units(&[(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")])
            .or_else(|| Some(format!("{value}B"))),
        Unit::Age => in_units(&[
            (86_400_000_000, "d"),
            (3_600_000_000, "h"),
            (60_000_000, "m"),
            (1_000_000, "s"),
            (1000, "ms"),
        ])
        .or_else(|| Some(format!("{value}us"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(guardrails: &Guardrails, name: &str, text: &str) -> Result<(), String> {
        let setting = Setting::find(name).unwrap_or_else(|| panic!("there is no {name}"));
        guardrails.set(&[(setting, text)]).map_err(|error| error.to_string())
    }

    fn value(guardrails: &Guardrails, name: &str) -> Option<String> {
        guardrails.show(Setting::find(name).unwrap())
    }

    #[test]
    fn each_setting_takes_the_value_that_it_shows() {
        let guardrails = Guardrails::default();
        for (name, value) in guardrails.settings() {
            assert_eq!(
                set(&guardrails, name, value.as_deref().unwrap_or("null")),
                Ok(()),
                "{name}"
            );
        }
        for (name, given, shown) in [
            ("keyspaces_warn_threshold", "5", "5"),
            ("collection_size_fail_threshold", "2048B", "2KiB"),
            ("maximum_timestamp_warn_threshold", "3600s", "1h"),
            ("group_by_enabled", "FALSE", "false"),
            ("table_properties_warned", "[cdc, comment, cdc]", "[cdc, comment]"),
            ("read_consistency_levels_warned", "all,quorum", "[QUORUM, ALL]"),
        ] {
            assert_eq!(set(&guardrails, name, given), Ok(()), "{name}");
            assert_eq!(value(&guardrails, name).as_deref(), Some(shown));
        }
    }

    #[test]
    fn wrong_values_change_nothing() {
        let guardrails = Guardrails::default();
        for (name, wrong) in [
            ("keyspaces_warn_threshold", "-2"),
            ("keyspaces_warn_threshold", "x"),
            ("data_disk_usage_percentage_warn_threshold", "101"),
            ("collection_size_warn_threshold", "5"),
            ("maximum_timestamp_warn_threshold", "5"),
            ("group_by_enabled", "perhaps"),
            ("table_properties_warned", "[nothing]"),
            ("read_consistency_levels_warned", "[SOME]"),
        ] {
            let before = value(&guardrails, name);
            assert!(set(&guardrails, name, wrong).is_err(), "{name} {wrong}");
            assert_eq!(value(&guardrails, name), before);
        }
    }

    #[test]
    fn a_warning_comes_before_the_refusal() {
        let guardrails = Guardrails::default();
        set(&guardrails, "keyspaces_fail_threshold", "5").unwrap();
        let error = set(&guardrails, "keyspaces_warn_threshold", "6").unwrap_err();
        assert!(error.contains("should be lower than the fail threshold 5"), "{error}");
        set(&guardrails, "minimum_replication_factor_fail_threshold", "2").unwrap();
        assert!(set(&guardrails, "minimum_replication_factor_warn_threshold", "1").is_err());
        let (fail, warn) = Setting::find_pair("keyspaces_threshold").unwrap();
        guardrails.set(&[(fail, "8"), (warn, "7")]).unwrap();
        assert_eq!(value(&guardrails, "keyspaces_warn_threshold").as_deref(), Some("7"));
    }

    #[test]
    fn single_rows_are_guarded_only_if_a_guardrail_concerns_them() {
        let guardrails = Guardrails::default();
        set(&guardrails, "keyspaces_fail_threshold", "5").unwrap();
        assert!(!guardrails.guards_reads() && !guardrails.guards_writes());
        set(&guardrails, "page_size_warn_threshold", "5").unwrap();
        set(&guardrails, "write_consistency_levels_warned", "[ALL]").unwrap();
        assert!(guardrails.guards_reads() && guardrails.guards_writes());
        set(&guardrails, "page_size_warn_threshold", "-1").unwrap();
        set(&guardrails, "write_consistency_levels_warned", "[]").unwrap();
        assert!(!guardrails.guards_reads() && !guardrails.guards_writes());
    }
}
