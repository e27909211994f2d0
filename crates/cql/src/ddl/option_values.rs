//! Which values options of tables can have. What is of no use on one node is checked too, so that schemas that are tried here can be taken to
//! Cassandra.

use std::collections::BTreeMap;

/// Cassandra's two, which change nothing here, and ScyllaDB's `enabled`.
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

pub(super) fn is_read_repair(text: &str) -> bool {
    ["NONE", "BLOCKING"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// `NEVER`, `ALWAYS`, `99p`, `99PERCENTILE`, `50ms`, or the lesser or greater of two of these: `MIN(99p, 50ms)`.
pub(super) fn is_retry_policy(text: &str) -> bool {
    let text = text.trim().to_ascii_lowercase();
    if ["none", "never", "always"].contains(&text.as_str()) || is_threshold(&text) {
        return true;
    }
    let inside = ["min", "max"].iter().find_map(|word| text.strip_prefix(word));
    let inside = inside.and_then(|rest| rest.trim().strip_prefix('(')?.strip_suffix(')'));
    let both = inside.and_then(|inside| inside.split_once(','));
    both.is_some_and(|(one, other)| is_threshold(one.trim()) && is_threshold(other.trim()))
}

fn is_threshold(text: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| *number >= 0.0);
    if let Some(milliseconds) = text.strip_suffix("ms") {
        return number(milliseconds).is_some_and(f64::is_finite);
    }
    let percentile = text.strip_suffix("percentile").or_else(|| text.strip_suffix('p'));
    percentile.and_then(number).is_some_and(|number| number <= 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cassandra_takes_is_taken() {
        for text in ["99p", "99PERCENTILE", "99.9percentile", "50ms", "1.5ms", "NEVER", "always"] {
            assert!(is_retry_policy(text), "{text}");
        }
        assert!(is_retry_policy("MIN(99p, 50ms)") && is_retry_policy("max(10ms,95PERCENTILE)"));
        for text in ["bogus", "", "p", "101p", "-1ms", "min(99p)", "MIN(99p,bogus)", "infms"] {
            assert!(!is_retry_policy(text), "{text}");
        }
        assert!(is_read_repair("none") && is_read_repair("BLOCKING") && !is_read_repair("bogus"));
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
