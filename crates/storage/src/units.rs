//! Parses sizes and durations in the notation of cassandra.yaml: a whole number with a unit
//! (`32MiB`, `10000ms`).
//!
//! Units are case-sensitive, as in Cassandra, because `m` is a minute and `M` would be mega. The
//! flag `--memory` is more lenient, as in ScyllaDB.

use std::time::Duration;

/// Parses a size in bytes. The unit is required: `B`, `KiB`, `MiB` or `GiB`.
///
/// # Errors
/// Fails if the text is not a whole number with such a unit, or does not fit into 64 bits.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let unit = |unit: &str| match unit {
        "B" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    parse(text, unit).ok_or_else(|| {
        "expected a size: a whole number with the unit B, KiB, MiB or GiB, such as 32MiB".to_owned()
    })
}

/// Parses a duration. The unit is required: `ns`, `us`, `ms`, `s`, `m`, `h` or `d`.
///
/// # Errors
/// Fails if the text is not a whole number with such a unit, or is longer than 2^64 ns.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let unit = |unit: &str| match unit {
        "ns" => Some(1),
        "us" | "µs" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        "m" => Some(60_000_000_000),
        "h" => Some(3_600_000_000_000),
        "d" => Some(86_400_000_000_000),
        _ => None,
    };
    parse(text, unit).map(Duration::from_nanos).ok_or_else(|| {
        "expected a duration: a whole number with the unit ns, us, ms, s, m, h or d, such as 10s"
            .to_owned()
    })
}

/// Parses the value of `--memory` in bytes: a number, alone or with `K`, `M`, `G`, `T`, `KB` … `TB`
/// or `KiB` … `TiB` (all powers of 1024), in upper or lower case.
///
/// # Errors
/// Fails if the text has another form, or the size does not fit into 64 bits.
pub fn parse_memory(text: &str) -> Result<u64, String> {
    let unit = |unit: &str| {
        let unit = unit.to_ascii_lowercase();
        let letter = unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit);
        match letter {
            "" => Some(1),
            "k" => Some(1 << 10),
            "m" => Some(1 << 20),
            "g" => Some(1 << 30),
            "t" => Some(1 << 40),
            _ => None,
        }
    };
    parse(text, unit).ok_or_else(|| "expected a size such as 512M or 4GiB".to_owned())
}

fn parse(text: &str, unit: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    number.parse::<u64>().ok()?.checked_mul(unit(suffix.trim_start())?)
}

/// Formats a size for people, as in `1.5 GiB`.
pub fn display_size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut power = 0;
    let mut amount = bytes as f64;
    while amount >= 1024.0 && power + 1 < units.len() {
        amount /= 1024.0;
        power += 1;
    }
    let text = format!("{amount:.1}");
    format!("{} {}", text.strip_suffix(".0").unwrap_or(&text), units[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_need_a_unit() {
        assert_eq!(parse_size("32MiB"), Ok(32 << 20));
        assert_eq!(parse_size("1 KiB"), Ok(1024));
        assert_eq!(parse_size("0B"), Ok(0));
        for wrong in ["", "32", "32mib", "32MB", "MiB", "-1MiB", "1.5GiB", "99999999999999999GiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_distinguish_minutes_from_milliseconds() {
        assert_eq!(parse_duration("10000ms"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("1d"), Ok(Duration::from_secs(86_400)));
        assert_eq!(parse_duration("500us"), parse_duration("500µs"));
        for wrong in ["10", "10M", "ten s", "1w", "99999999999d"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn memory_is_lenient() {
        for same in ["1073741824", "1G", "1g", "1GB", "1GiB", "1024M", "1048576 K"] {
            assert_eq!(parse_memory(same), Ok(1 << 30), "{same}");
        }
        assert!(parse_memory("1X").is_err());
        assert!(parse_memory("G").is_err());
    }

    #[test]
    fn sizes_are_shown_short() {
        assert_eq!(display_size(1 << 30), "1 GiB");
        assert_eq!(display_size(1536), "1.5 KiB");
        assert_eq!(display_size(7), "7 B");
    }
}
