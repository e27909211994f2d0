//! Checks the values of table options, also of options without an effect on this node, because
//! Cassandra would refuse a schema with wrong values.

use std::collections::BTreeMap;

/// Checks Cassandra's two sub-options, which have no effect here, and ScyllaDB's `enabled`.
pub(super) fn check_caching(caching: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in caching {
        let is = |words: &[&str]| words.iter().any(|word| value.eq_ignore_ascii_case(word));
        let (is_valid, allowed) = match name.as_str() {
            "keys" => (is(&["ALL", "NONE"]), "ALL or NONE"),
            "rows_per_partition" => (
                is(&["ALL", "NONE"]) || value.parse::<u32>().is_ok(),
                "ALL, NONE or a number of rows",
            ),
            "enabled" => (is(&["true", "false"]), "true or false"),
            unknown => {
                return Err(format!(
                    "Invalid caching sub-options [{}]: only 'keys', 'rows_per_partition' and 'enabled' are allowed",
                    unknown.escape_debug()
                ));
            }
        };
        if !is_valid {
            return Err(format!(
                "Invalid value '{}' for caching sub-option '{name}': only {allowed} are allowed",
                value.escape_debug()
            ));
        }
    }
    Ok(())
}

pub(super) fn check_read_repair(text: &str) -> Result<(), String> {
    let is_valid = ["NONE", "BLOCKING"].iter().any(|word| text.eq_ignore_ascii_case(word));
    if is_valid { Ok(()) } else { Err("only NONE and BLOCKING are allowed".into()) }
}

/// Checks `speculative_retry` or `additional_write_policy`. As in Cassandra, blanks may stand only
/// around the comma, and signs and exponents are refused.
pub(super) fn check_retry_policy(text: &str) -> Result<(), String> {
    let lower = text.to_ascii_lowercase();
    if ["none", "never", "always"].contains(&lower.as_str()) {
        return Ok(());
    }
    let inside = ["min(", "max("].iter().find_map(|word| lower.strip_prefix(word));
    let Some(inside) = inside.and_then(|rest| rest.strip_suffix(')')) else {
        return Threshold::parse(&lower).map(|_| ());
    };
    let (one, other) = inside.split_once(',').ok_or_else(|| ALLOWED.to_owned())?;
    let (one, other) = (one.trim_end_matches(is_blank), other.trim_start_matches(is_blank));
    if Threshold::parse(one)? == Threshold::parse(other)? {
        Err("one argument of MIN() and MAX() must be a percentile, the other milliseconds, as in MIN(99p,50ms)".into())
    } else {
        Ok(())
    }
}

const ALLOWED: &str = "allowed are NEVER, ALWAYS, a percentile like 99p or 99.9PERCENTILE, milliseconds like 50ms, and MIN or MAX of both \
                       like MIN(99p,50ms)";

/// Returns whether Cassandra allows the character before and after the comma.
fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\x0B' | '\x0C' | '\r')
}

/// The unit of the time after which a read is retried.
#[derive(PartialEq)]
enum Threshold {
    Percentile,
    Milliseconds,
}

impl Threshold {
    /// Parses a threshold in lower case.
    fn parse(text: &str) -> Result<Self, String> {
        let end = text.find(|character: char| !character.is_ascii_digit() && character != '.');
        let (number, unit) = text.split_at(end.unwrap_or(text.len()));
        let number: f64 = number.parse().map_err(|_| ALLOWED.to_owned())?;
        match unit {
            "ms" => Ok(Self::Milliseconds),
            "p" | "percentile" if number > 0.0 && number < 100.0 => Ok(Self::Percentile),
            "p" | "percentile" => {
                Err("a percentile must be greater than 0 and less than 100".into())
            }
            _ => Err(ALLOWED.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_policies_and_read_repair_accept_cassandras_values() {
        let all = [
            "99p",
            "99PERCENTILE",
            "99.9percentile",
            "50ms",
            "1.5MS",
            "0ms",
            ".5p",
            "5.ms",
            "NEVER",
            "none",
            "always",
            "MIN(99p,50ms)",
            "MIN(99p, 50ms)",
            "max(10ms \t,95PERCENTILE)",
        ];
        for text in all {
            assert_eq!(check_retry_policy(text), Ok(()), "{text}");
        }
        for text in ["none", "BLOCKING"] {
            assert_eq!(check_read_repair(text), Ok(()));
        }
    }

    /// Each refused text is paired with a part of its error.
    #[test]
    fn retry_policies_and_read_repair_refuse_invalid_values() {
        let all = [
            "bogus",
            "",
            "p",
            ".p",
            "1.2.3p",
            "-1ms",
            "+5ms",
            "1e1p",
            "1e3ms",
            "infms",
            "nanp",
            "5",
            "5 ms",
            " 99p",
            "99p ",
            " NEVER",
            "min(99p)",
            "MIN(99p,bogus)",
            "MIN (99p,50ms)",
            "MIN( 99p,50ms)",
            "MIN(99p,50ms )",
            "MIN(99p,50ms) ",
            "MIN(99p,50ms,1ms)",
            "MIN(99p,NEVER)",
            "MIN(MIN(99p,50ms),50ms)",
            "MIN(99p\u{a0},50ms)",
        ];
        let of_percentiles = ["0p", "0.0percentile", "100p", "101p", "MIN(100p,50ms)"];
        let of_kinds = ["MIN(99p,95p)", "MAX(1ms,2ms)"];
        let all = all.map(|text| (text, "like 99p"));
        let of_percentiles = of_percentiles.map(|text| (text, "less than 100"));
        let of_kinds = of_kinds.map(|text| (text, "must be a percentile, the other"));
        for (text, reason) in all.into_iter().chain(of_percentiles).chain(of_kinds) {
            let error = check_retry_policy(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(check_read_repair("bogus").unwrap_err().contains("BLOCKING"));
    }

    #[test]
    fn caching_is_checked() {
        let check = |name: &str, value: &str| check_caching(&[(name.into(), value.into())].into());
        for (name, value) in [("keys", "all"), ("rows_per_partition", "100"), ("enabled", "FALSE")]
        {
            assert_eq!(check(name, value), Ok(()));
        }
        let wrong =
            [("keys", "SOME"), ("rows_per_partition", "x"), ("enabled", "no"), ("nope", "x")];
        for (name, value) in wrong {
            assert!(check(name, value).unwrap_err().contains(name), "{name}");
        }
    }
}
