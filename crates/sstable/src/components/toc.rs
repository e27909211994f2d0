//! TOC.txt lists the components, one name per line, in any order. Format:
//! docs/formats/components.md.
//!
//! While an SSTable is written, the file is named TemporaryTOC.txt, as in ScyllaDB, and the last
//! step renames it. A removal first renames TOC.txt back. Files with TemporaryTOC.txt are therefore
//! garbage. An SSTable without either file has lost its table of contents, and Espalier never
//! guesses whether it is complete.

use std::collections::BTreeSet;

use super::Component;
use crate::error::{FileName, Result, SSTableError};

/// Returns the text for a set of components, which includes the table of contents itself. Its lines
/// are sorted by name, as in Cassandra.
pub fn format_toc(components: &BTreeSet<Component>) -> String {
    let mut names: Vec<_> = components.iter().map(|component| component.name()).collect();
    names.sort_unstable();
    names.iter().flat_map(|name| [name.as_ref(), "\n"]).collect()
}

/// Parses the list of components. Unknown names are kept.
///
/// # Errors
/// Returns [`SSTableError::Corrupt`] if the list is not UTF-8 or has no known name.
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
