//! Reads and prints sizes in bytes as Cassandra does, except for binary exponents (`1*2^20B`),
//! `NaN` and `Infinity`, which are refused.

/// The prefixes of units; each is 1000 or 1024 times the one before.
const PREFIXES: &str = "qryzafpnum KMGTPEZYRQ";
/// The place of the blank in [`PREFIXES`], which stands for no prefix.
const NO_PREFIX: usize = 10;

/// Reads a size such as `1GiB`, `1.5 MB` or `1e9B`: `Gi` is 1024³, and `G` is 1000³.
///
/// # Errors
///
/// Returns the text of Cassandra's exception.
pub(super) fn parse_bytes(text: &str) -> Result<f64, String> {
    let Some(size) = text.strip_suffix('B') else {
        return Err(format!("{text} does not end in unit B"));
    };
    let (number, unit) = size.split_at(number_length(size));
    // Cassandra's exception has no text, which it prints as this word.
    let mut bytes: f64 = number.parse().map_err(|_| "null".to_owned())?;
    let mut left = unit.trim_start();
    if let Some(place) = left.chars().next().and_then(|first| PREFIXES.find(first)) {
        // Each prefix has one byte.
        left = &left[1..];
        let mut base: f64 = 1000.0;
        if let Some(behind) = left.strip_prefix('i') {
            (left, base) = (behind, 1024.0);
        }
        bytes *= base.powi(place as i32 - NO_PREFIX as i32);
    }
    if left.is_empty() {
        return Ok(bytes);
    }
    let (from, to) = (size.len() - left.len(), size.len());
    Err(format!("Unexpected characters between pos {from} and {to} in {text}"))
}

/// Returns the length of the number with which a text begins: digits, which may have a sign, a
/// fraction and an exponent.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits =
        |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let has = |at: usize, any_of: &[u8]| bytes.get(at).is_some_and(|byte| any_of.contains(byte));
    let sign = usize::from(has(0, b"+-"));
    if digits(sign) == 0 {
        return 0;
    }
    let mut end = sign + digits(sign);
    if has(end, b".") && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
    }
    let exponent = end + 1 + usize::from(has(end + 1, b"+-"));
    if has(end, b"eE") && digits(exponent) > 0 {
        end = exponent + digits(exponent);
    }
    end
}

/// Prints a size such as `512B` or `1.000MiB`.
pub(super) fn print_bytes(bytes: u64) -> String {
    let place = bytes.checked_ilog2().unwrap_or(0) / 10;
    if place == 0 {
        return format!("{bytes}B");
    }
    // Cassandra computes with 32 bits and rounds up from half.
    let thousandths = f64::from(bytes as f32) / (1u64 << (10 * place)) as f64 * 1000.0;
    let prefix = &PREFIXES[NO_PREFIX + place as usize..][..1];
    format!("{:.3}{prefix}iB", thousandths.round() / 1000.0)
}
