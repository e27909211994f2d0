//! TOC.txt: one component name per line, in any order. Source: reference 3.3.
//!
//! While a set is written it is named TemporaryTOC.txt, as ScyllaDB does; the last step renames it. Removing begins by
//! renaming it back. So a set with TemporaryTOC.txt is garbage, and one with neither has lost a file and is never guessed at.

use std::collections::BTreeSet;

use super::Component;
use crate::error::{FileName, Result, SSTableError};

/// The text for a set of components, itself included, sorted by name as Cassandra does.
pub fn format_toc(components: &BTreeSet<Component>) -> String {
    let mut names: Vec<_> = components.iter().map(|component| component.name()).collect();
    names.sort_unstable();
    names.iter().flat_map(|name| [name.as_ref(), "\n"]).collect()
}

/// The components listed. Unknown names are kept; a list without any known name is malformed.
pub fn parse_toc(file: &FileName, bytes: &[u8]) -> Result<BTreeSet<Component>> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        SSTableError::corrupt(file, error.valid_up_to() as u64, "the list is not UTF-8")
    })?;
    let components: BTreeSet<Component> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(Component::parse).collect();
    if !components.iter().any(Component::is_known) {
        return Err(SSTableError::corrupt(file, 0, "no known component is listed"));
    }
    Ok(components)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn lists_round_trip_sorted_and_unknown_names_stay() {
        let file = FileName::new(Path::new("TOC.txt"));
        let text = "CRC.db\nData.db\nSAI+aa+Meta.db\nTOC.txt\n";
        let mixed = "TOC.txt\nData.db\n\nSAI+aa+Meta.db\nCRC.db\n\n";
        let components = parse_toc(&file, mixed.as_bytes()).unwrap();
        assert_eq!(format_toc(&components), text);
        assert_eq!(parse_toc(&file, text.as_bytes()).unwrap(), components);
    }

    #[test]
    fn empty_and_binary_lists_are_malformed() {
        let file = FileName::new(Path::new("TOC.txt"));
        for bytes in [&b""[..], b"\n\n", b"garbage\n", b"Data.db\n\xFF\n"] {
            assert!(matches!(parse_toc(&file, bytes), Err(SSTableError::Corrupt { .. })));
        }
    }
}
