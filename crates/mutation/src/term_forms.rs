//! Computes the forms of terms under which a SASI index on texts lists a row, and the forms that
//! LIKE searches.
//!
//! A term has the form of a value with the same bytes. An index in the mode CONTAINS also lists
//! each suffix of a term. The form of a suffix begins with [`SUFFIX`], so that suffixes lie behind
//! all terms, and is cut at [`MAX_SUFFIX_FORM_BYTES`]. So the suffixes of a value of n bytes take
//! at most n times 64 bytes, and n times the primary key. Searches cut their forms, too, and the
//! reader drops the rows that do not match.

use std::ops::Range;

use espalier_types::{
    CqlType,
    byte_comparable::{NEXT_COMPONENT, encode_escaped},
};

use crate::{
    index_entries::{MAX_FORM_BYTES, put_form},
    path::behind_prefix,
    schema::{LikeKind, TermIndex},
};

/// The first byte of the form of a suffix. Forms of values begin with [`NEXT_COMPONENT`] or less.
const SUFFIX: u8 = NEXT_COMPONENT + 1;

/// The length in bytes at which the form of a suffix is cut (arbitrary). Few texts differ only
/// after so many bytes, and a larger limit costs space for each byte of each term.
const MAX_SUFFIX_FORM_BYTES: usize = 64;

/// The forms that a search wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TermForms {
    /// One form.
    One(Vec<u8>),
    /// All forms from the first one up to but without the second one; `None` sets no limit.
    Between(Vec<u8>, Option<Vec<u8>>),
}

impl TermForms {
    /// Returns the forms of the terms that match `term`, a term of a LIKE pattern of this kind.
    /// Other terms may have them, too.
    pub fn of_like(index: &TermIndex, kind: LikeKind, text: &CqlType, term: &[u8]) -> Self {
        match kind {
            LikeKind::Matches => {
                let mut form = Vec::new();
                put_form(&[(text, term)], &mut form);
                Self::One(form)
            }
            LikeKind::Prefix => Self::beginning_with(NEXT_COMPONENT, term, MAX_FORM_BYTES),
            LikeKind::Suffix if index.has_suffixes() => {
                let mut form = Vec::new();
                put_suffix_form(text, term, &mut form);
                Self::One(form)
            }
            LikeKind::Contains if index.has_suffixes() => {
                Self::beginning_with(SUFFIX, term, MAX_SUFFIX_FORM_BYTES)
            }
            LikeKind::Suffix | LikeKind::Contains => Self::Between(Vec::new(), None),
        }
    }

    /// Returns the forms whose first byte is `family` and whose texts begin with `start`.
    fn beginning_with(family: u8, start: &[u8], max_bytes: usize) -> Self {
        // A zero byte inside a text is encoded differently from one at its end, so trailing zeros
        // of `start` are left out.
        let zeros = start.iter().rev().take_while(|byte| **byte == 0).count();
        let mut from = vec![family];
        encode_escaped(&start[..start.len() - zeros], &mut from);
        from.pop();
        from.truncate(max_bytes);
        let to = behind_prefix(&from);
        Self::Between(from, to)
    }
}

/// Calls `take` with the form of each term of a text, unless the index lists whole values, and with
/// the forms of the terms' suffixes, if the index lists suffixes. `form` is scratch space.
///
/// If the analyzer splits texts, only terms from `bytes.start` on are taken, up to the first
/// boundary from `bytes.end` on. The start is 0 or such a boundary. Returns the boundary.
pub(crate) fn for_each_term_form(
    index: &TermIndex,
    (text, value): (&CqlType, &[u8]),
    bytes: Range<usize>,
    form: &mut Vec<u8>,
    take: &mut impl FnMut(&[u8]),
) -> usize {
    let behind = index.analyzer.next_boundary(value, bytes.end);
    let mut terms = index.analyzer.terms(value.get(bytes.start..behind).unwrap_or_default());
    // A word may come many times in a text.
    terms.sort_unstable();
    terms.dedup();
    for term in terms {
        if !index.has_values() {
            form.clear();
            put_form(&[(text, &term)], form);
            take(form);
        }
        if index.has_suffixes() {
            for start in (0..term.len()).filter(|at| is_boundary(&term, *at)) {
                form.clear();
                put_suffix_form(text, &term[start..], form);
                take(form);
            }
        }
    }
    behind
}

/// Returns whether a character begins at `at`. If the bytes are no UTF-8, `at` may also be inside a
/// character.
fn is_boundary(term: &[u8], at: usize) -> bool {
    term[at] & 0b1100_0000 != 0b1000_0000
}

fn put_suffix_form(text: &CqlType, suffix: &[u8], form: &mut Vec<u8>) {
    let start = form.len();
    // A form of n bytes contains at most n bytes of the text.
    put_form(&[(text, &suffix[..suffix.len().min(MAX_SUFFIX_FORM_BYTES)])], form);
    form.truncate(start + MAX_SUFFIX_FORM_BYTES);
    form[start] = SUFFIX;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn index(mode: &str) -> TermIndex {
        let options = BTreeMap::from([("mode".to_string(), mode.to_string())]);
        TermIndex::from_options(&options, &CqlType::Text).unwrap()
    }

    fn forms(index: &TermIndex, value: &str) -> Vec<Vec<u8>> {
        let (mut forms, mut form) = (Vec::new(), Vec::new());
        let text = (&CqlType::Text, value.as_bytes());
        for_each_term_form(index, text, 0..usize::MAX, &mut form, &mut |found| {
            forms.push(found.to_vec());
        });
        if index.has_values() {
            form.clear();
            put_form(&[(&CqlType::Text, value.as_bytes())], &mut form);
            forms.push(form);
        }
        forms
    }

    fn wants(wanted: &TermForms, form: &[u8]) -> bool {
        match wanted {
            TermForms::One(one) => one == form,
            TermForms::Between(from, to) => {
                form >= from.as_slice() && to.as_ref().is_none_or(|to| form < to.as_slice())
            }
        }
    }

    proptest! {
        #[test]
        fn each_part_of_a_text_is_found(
            before in "[ab\\x00é]{0,70}", part in "[ab\\x00é]{1,70}", behind in "[ab\\x00é]{0,70}",
        ) {
            let (prefixes, parts) = (index("PREFIX"), index("CONTAINS"));
            let check = |index: &TermIndex, kind, value: &str| {
                let wanted = TermForms::of_like(index, kind, &CqlType::Text, part.as_bytes());
                forms(index, value).iter().any(|form| wants(&wanted, form))
            };
            let [begins, ends] = [format!("{part}{behind}"), format!("{before}{part}")];
            let inside = format!("{before}{part}{behind}");
            for index in [&prefixes, &parts] {
                prop_assert!(check(index, LikeKind::Matches, &part));
                prop_assert!(check(index, LikeKind::Prefix, &begins));
            }
            prop_assert!(check(&parts, LikeKind::Suffix, &ends));
            prop_assert!(check(&parts, LikeKind::Contains, &inside));
        }

        #[test]
        fn short_texts_are_found_only_if_they_match(
            text in "[ab\\x01é]{0,8}", part in "[ab\\x01é]{1,4}",
        ) {
            let index = index("CONTAINS");
            for (kind, matches) in [
                (LikeKind::Matches, text == part),
                (LikeKind::Prefix, text.starts_with(&part)),
                (LikeKind::Suffix, text.ends_with(&part)),
                (LikeKind::Contains, text.contains(&part)),
            ] {
                let wanted = TermForms::of_like(&index, kind, &CqlType::Text, part.as_bytes());
                let is_found = forms(&index, &text).iter().any(|form| wants(&wanted, form));
                prop_assert_eq!(is_found, matches, "{:?}", kind);
            }
        }
    }

    #[test]
    fn entries_of_suffixes_are_bounded() {
        let forms = forms(&index("CONTAINS"), &"x".repeat(1000));
        assert_eq!(forms.len(), 1001);
        assert!(forms[..1000].iter().all(|form| form.len() <= MAX_SUFFIX_FORM_BYTES));
    }
}
