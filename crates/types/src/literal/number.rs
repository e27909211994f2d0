//! Prints and reads numbers as Java does.

use crate::decimal::MAX_DIGITS;
use crate::varint::BigInt;
use num_bigint::Sign;

/// Prints `1.5`, `1.0E10`, `NaN`, `-Infinity`: plain from 10^-3 up to 10^7, otherwise with an
/// exponent.
pub fn print_double(value: f64) -> String {
    let plain = (1e-3..1e7).contains(&value.abs());
    java_style(value, plain, [format!("{value:e}"), format!("{value:.1e}")])
}

/// Prints a float as [`print_double`] does, with only the digits that distinguish 32-bit floats.
pub fn print_float(value: f32) -> String {
    let plain = (1e-3..1e7).contains(&value.abs());
    java_style(f64::from(value), plain, [format!("{value:e}"), format!("{value:.1e}")])
}

/// Turns Rust's `1.5e-7` into Java's form. `shortest` has the fewest digits. Java prints at least
/// two digits, so `two_digits` replaces a `shortest` of one digit.
fn java_style(value: f64, plain: bool, [shortest, two_digits]: [String; 2]) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = if shortest.contains('.') { shortest } else { two_digits };
    let (sign, unsigned) = match scientific.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", scientific.as_str()),
    };
    let (mantissa, exponent) = unsigned.split_once('e').unwrap_or((unsigned, "0"));
    let (first, rest) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if value == 0.0 {
        return format!("{sign}0.0");
    }
    if !plain {
        let rest = if rest.is_empty() { "0" } else { rest };
        return format!("{sign}{first}.{rest}E{exponent}");
    }
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits = format!("{first}{rest}");
    let digits = digits.trim_end_matches('0').to_owned();
    let (whole, fraction) = match usize::try_from(exponent + 1) {
        Ok(0) => ("0".to_owned(), digits),
        Ok(point) if point < digits.len() => {
            let (whole, fraction) = digits.split_at(point);
            (whole.to_owned(), fraction.to_owned())
        }
        Ok(point) => (format!("{digits:0<point$}"), "0".to_owned()),
        Err(_) => ("0".to_owned(), format!("{}{digits}", "0".repeat((-exponent - 1) as usize))),
    };
    format!("{sign}{whole}.{fraction}")
}

/// Reads a float: decimal with optional exponent, `NaN`, `Infinity`; blanks may surround it. As in
/// Java, a letter for the type may follow the digits.
pub fn parse_float<F: std::str::FromStr>(text: &str) -> Option<F> {
    let text = text.trim();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    // There is only one NaN, so a sign in front of it is lost.
    let text = if unsigned == "NaN" { unsigned } else { text };
    let word = unsigned.starts_with(|c: char| c.is_ascii_alphabetic());
    if word && unsigned != "NaN" && unsigned != "Infinity" {
        return None;
    }
    let digits = text
        .strip_suffix(['d', 'D', 'f', 'F'])
        .filter(|digits| digits.ends_with(|last: char| last.is_ascii_digit() || last == '.'));
    digits.unwrap_or(text).parse().ok()
}

/// Reads an integer: `[+-]digits`, at most [`MAX_DIGITS`] of them.
pub(super) fn parse_varint(text: &str) -> Option<BigInt> {
    let (sign, digits) = match text.as_bytes() {
        [b'-', digits @ ..] => (Sign::Minus, digits),
        [b'+', digits @ ..] => (Sign::Plus, digits),
        digits => (Sign::Plus, digits),
    };
    if digits.is_empty() || digits.len() > MAX_DIGITS {
        return None;
    }
    let digits: Option<Vec<u8>> =
        digits.iter().map(|byte| byte.checked_sub(b'0').filter(|&digit| digit < 10)).collect();
    BigInt::from_radix_be(sign, &digits?, 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn java_notation() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.001, "0.001"),
            (0.0123, "0.0123"),
            (0.0009, "9.0E-4"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (123_456_789.123, "1.23456789123E8"),
            (-120.0, "-120.0"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(print_double(value), text);
        }
        assert_eq!(print_float(0.1), "0.1");
        assert_eq!(print_float(16_777_216.0), "1.6777216E7");
    }

    #[test]
    fn a_letter_of_a_type_may_follow_the_digits() {
        for text in ["1d", "1D", "1f", "1.F", "1.0e0d"] {
            assert_eq!(parse_float(text), Some(1.0_f32), "{text}");
        }
        for text in ["d", "1dd", "1l", "NaNd", "Infinityf", "1e", "1ed"] {
            assert_eq!(parse_float::<f64>(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn doubles_round_trip(bits: u64) {
            let value = f64::from_bits(bits);
            let back: f64 = parse_float(&print_double(value)).unwrap();
            prop_assert!(back.to_bits() == bits || value.is_nan() && back.is_nan());
        }

        #[test]
        fn floats_round_trip(bits: u32) {
            let value = f32::from_bits(bits);
            let back: f32 = parse_float(&print_float(value)).unwrap();
            prop_assert!(back.to_bits() == bits || value.is_nan() && back.is_nan());
        }
    }
}
