//! An identifier is the part of a file name that distinguishes the SSTables of one table. Format:
//! docs/formats/components.md.

use std::{fmt, num::NonZeroU64};

use uuid::Uuid;

/// A generation number or a time-based UUID. One directory may contain both kinds. The order of
/// identifiers says nothing about the age of SSTables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SSTableId {
    /// 1, 2, 3...
    Generation(NonZeroU64),
    /// A timeuuid, printed as `DDDD_SSSS_RRRRRLLLLLLLLLLLLL` in base 36: days, seconds of the day,
    /// rest in 100 ns, low 64 bits.
    Uuid(Uuid),
}

const TICKS_PER_SECOND: u64 = 10_000_000;
const SECONDS_PER_DAY: u64 = 86_400;
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

impl SSTableId {
    /// Parses the id in a file name.
    pub fn parse(text: &str) -> Option<Self> {
        if text.contains('_') {
            return parse_uuid(text).map(Self::Uuid);
        }
        // A leading zero would give one id two names.
        if text.starts_with('0') || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        text.parse().ok().map(Self::Generation)
    }
}

impl fmt::Display for SSTableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uuid = match self {
            Self::Generation(number) => return write!(f, "{number}"),
            Self::Uuid(uuid) => uuid,
        };
        let (high, low) = uuid.as_u64_pair();
        let ticks = (high >> 32) | (high >> 16 & 0xFFFF) << 32 | (high & 0x0FFF) << 48;
        let seconds = ticks / TICKS_PER_SECOND;
        let mut text = String::with_capacity(28);
        push_base36(seconds / SECONDS_PER_DAY, 4, &mut text);
        text.push('_');
        push_base36(seconds % SECONDS_PER_DAY, 4, &mut text);
        text.push('_');
        push_base36(ticks % TICKS_PER_SECOND, 5, &mut text);
        push_base36(low, 13, &mut text);
        f.write_str(&text)
    }
}

fn push_base36(mut value: u64, width: usize, text: &mut String) {
    let mut digits = [b'0'; 13];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(value % 36) as usize];
        value /= 36;
    }
    text.extend(digits[13 - width..].iter().map(|&digit| char::from(digit)));
}

fn parse_base36(text: &str) -> Option<u64> {
    text.bytes().try_fold(0u64, |value, byte| {
        let digit = DIGITS.iter().position(|&digit| digit == byte)?;
        value.checked_mul(36)?.checked_add(digit as u64)
    })
}

fn parse_uuid(text: &str) -> Option<Uuid> {
    let mut parts = text.split('_');
    let (days, seconds, rest) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || days.len() != 4 || seconds.len() != 4 || rest.len() != 18 {
        return None;
    }
    let (fraction, low) = rest.split_at_checked(5)?;
    let (days, seconds) = (parse_base36(days)?, parse_base36(seconds)?);
    let (fraction, low) = (parse_base36(fraction)?, parse_base36(low)?);
    if seconds >= SECONDS_PER_DAY || fraction >= TICKS_PER_SECOND {
        return None;
    }
    let ticks = (days * SECONDS_PER_DAY + seconds) * TICKS_PER_SECOND + fraction;
    if ticks >> 60 != 0 {
        return None;
    }
    let high = (ticks & 0xFFFF_FFFF) << 32 | (ticks >> 32 & 0xFFFF) << 16 | 0x1000 | ticks >> 48;
    Some(Uuid::from_u64_pair(high, low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sstable_ids_are_generations_or_uuids() {
        assert_eq!(
            SSTableId::parse("17"),
            Some(SSTableId::Generation(NonZeroU64::new(17).unwrap()))
        );
        let text = "3gsm_0lob_1zdg02we44my8dy25w";
        let id = SSTableId::parse(text).unwrap();
        assert!(matches!(id, SSTableId::Uuid(uuid) if uuid.get_version_num() == 1), "{id:?}");
        assert_eq!(id.to_string(), text);
    }

    #[test]
    fn other_words_are_no_ids() {
        for text in [
            "",
            "0",
            "01",
            "-1",
            "+1",
            "1x",
            "99999999999999999999999",
            "3gsm_0lob",
            "3gsm_zzzz_1zdg02we44my8dy25w",
            "3gsm_0lob_zzzzz2we44my8dy25w",
            "3gsm_0lob_1zdg0zzzzzzzzzzzzz",
            "3gsm_0lob_1zdg02we44my8dy25w_",
            "3GSM_0lob_1zdg02we44my8dy25w",
            "3gsm_0lob_1zdéé2we44my8dy25",
        ] {
            assert_eq!(SSTableId::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn uuids_round_trip(ticks in 0u64..1 << 60, low: u64) {
            let high = (ticks & 0xFFFF_FFFF) << 32 | (ticks >> 32 & 0xFFFF) << 16 | 0x1000 | ticks >> 48;
            let id = SSTableId::Uuid(Uuid::from_u64_pair(high, low));
            prop_assert_eq!(id.to_string().len(), 28);
            prop_assert_eq!(SSTableId::parse(&id.to_string()), Some(id));
        }
    }
}
