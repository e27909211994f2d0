//! Splits a text into words by the rules of Unicode (UAX #29), as Cassandra's StandardAnalyzer
//! does.
//!
//! The analyzer follows Unicode 6.3 and has two rules that the crate unicode-segmentation lacks: a
//! colon between letters belongs to a word, and consecutive letters of scripts that are written
//! without spaces (such as Thai, Lao, Khmer and Myanmar) are one word.

use unicode_segmentation::UnicodeSegmentation;

/// Maximum length of a word in UTF-16 units, as in Cassandra. Longer ones are left out.
const MAX_WORD_UNITS: usize = 255;

/// Calls `take` with each word of a text.
pub(super) fn for_each<'t>(text: &'t str, mut take: impl FnMut(&'t str)) {
    let mut segments = text.split_word_bound_indices().peekable();
    while let Some((start, segment)) = segments.next() {
        if !is_word(segment) {
            continue;
        }
        let mut end = start + segment.len();
        // Joins what follows, segment by segment.
        while let Some((_, next)) = segments.peek() {
            let behind = end + next.len();
            let is_joined = match next.chars().next() {
                _ if ends_with(&text[start..end], is_without_spaces) => {
                    next.chars().next().is_some_and(is_without_spaces)
                }
                Some(':') => {
                    ends_with(&text[start..end], is_letter)
                        && text[behind..].chars().next().is_some_and(is_letter)
                }
                // The letter behind a joined colon.
                Some(first) => text[start..end].ends_with(':') && is_letter(first),
                None => false,
            };
            if !is_joined {
                break;
            }
            end = behind;
            segments.next();
        }
        let word = &text[start..end];
        if word.encode_utf16().count() <= MAX_WORD_UNITS {
            take(word);
        }
    }
}

fn ends_with(text: &str, is_wanted: impl Fn(char) -> bool) -> bool {
    text.chars().next_back().is_some_and(is_wanted)
}

/// Returns whether a segment is a word: it has a letter or a digit.
fn is_word(segment: &str) -> bool {
    segment.chars().any(|c| c.is_alphabetic() || is_digit(c))
}

/// Returns whether a character is a decimal digit. Another numeric character (`²`) and a digit
/// behind it are two segments.
fn is_digit(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_digit();
    }
    c.is_numeric() && [c, '1'].iter().collect::<String>().split_word_bounds().count() == 1
}

/// Returns whether a character is a letter beside which a colon belongs to a word.
fn is_letter(c: char) -> bool {
    c.is_alphabetic() && !is_without_spaces(c) && !is_ideographic(c)
}

/// Returns whether a letter is an ideograph, Hiragana or Katakana.
fn is_ideographic(c: char) -> bool {
    matches!(c, '\u{2E80}'..='\u{2FDF}' | '\u{3005}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}'
        | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

/// Returns whether a character belongs to a script of South East Asia that is written without
/// spaces, and is no digit.
fn is_without_spaces(c: char) -> bool {
    matches!(c, '\u{0E01}'..='\u{0E3A}' | '\u{0E40}'..='\u{0E4E}' | '\u{0E81}'..='\u{0ECD}'
        | '\u{0EDC}'..='\u{0EDF}' | '\u{1000}'..='\u{103F}' | '\u{1050}'..='\u{108F}'
        | '\u{109A}'..='\u{109F}' | '\u{1780}'..='\u{17D3}' | '\u{17D7}' | '\u{17DC}'..='\u{17DD}'
        | '\u{1950}'..='\u{19CF}' | '\u{19DA}'..='\u{19DF}' | '\u{1A20}'..='\u{1A7F}'
        | '\u{AA60}'..='\u{AADF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        let mut words = Vec::new();
        for_each(text, |word| words.push(word));
        words
    }

    #[test]
    fn words_are_those_of_cassandra() {
        // The script sasi_queries compares most of them with Cassandra 5.0.9.
        assert_eq!(words("Hello, wide world! 3.14"), ["Hello", "wide", "world", "3.14"]);
        assert_eq!(
            words("can't e-mail foo_bar __ a.b x@y.org"),
            ["can't", "e", "mail", "foo_bar", "a.b", "x", "y.org"]
        );
        assert_eq!(words("a:b 1:2 a: :b c:1"), ["a:b", "1", "2", "a", "b", "c", "1"]);
        assert_eq!(
            words("日本 ひら カタカナ 한국어"),
            ["日", "本", "ひ", "ら", "カタカナ", "한국어"]
        );
        assert_eq!(words("ภาษาไทย"), ["ภาษาไทย"]);
        assert_eq!(words("m² ½ … ٣٤ naïve 🙂"), ["m", "٣٤", "naïve"]);
        assert!(words("").is_empty());
    }

    #[test]
    fn long_words_are_left_out() {
        assert_eq!(words(&"x".repeat(255)).len(), 1);
        assert!(words(&"x".repeat(256)).is_empty());
    }
}
