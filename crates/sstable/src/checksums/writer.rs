//! This module writes Checksums.db.

use super::layout::{MAGIC, VERSION};
use crate::{append_file::WrittenFile, components::Component};

/// Returns the bytes of Checksums.db for these files.
pub(crate) fn format_checksums(files: &[(Component, WrittenFile)]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&(files.len() as u32).to_be_bytes());
    for (component, file) in files {
        let name = component.name();
        out.extend_from_slice(&(name.len() as u16).to_be_bytes());
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&file.length.to_be_bytes());
        file.pages.iter().for_each(|page| out.extend_from_slice(&page.to_be_bytes()));
    }
    let checksum = crc32fast::hash(&out);
    out.extend_from_slice(&checksum.to_be_bytes());
    out
}
