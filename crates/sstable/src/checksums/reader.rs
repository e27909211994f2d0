//! This module reads Checksums.db and verifies files with it.

use std::{collections::BTreeMap, rc::Rc};

use espalier_runtime::file::PAGE_BYTES;

use super::{
    check_page,
    layout::{HEAD_BYTES, MAGIC, MAX_FILES, TAIL_BYTES, VERSION},
};
use crate::{
    components::Component,
    error::{FileName, Result, SSTableError},
};

/// The checksums of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileChecksums {
    /// Expected length of the file in bytes.
    pub(crate) length: u64,
    /// Checksum of each page.
    pub(crate) pages: Rc<[u32]>,
}

/// The content of Checksums.db.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checksums(BTreeMap<Component, FileChecksums>);

impl Checksums {
    /// Parses the bytes of the component.
    pub(crate) fn parse(name: &FileName, bytes: &[u8]) -> Result<Self> {
        let corrupt = |reason: &str| SSTableError::corrupt(name, 0, reason);
        let length =
            bytes.len().checked_sub(TAIL_BYTES).ok_or_else(|| corrupt("it is too short"))?;
        let (body, tail) = bytes.split_at(length);
        if tail != crc32fast::hash(body).to_be_bytes() {
            return Err(corrupt("its content does not have the checksum at its end"));
        }
        let Some((head, mut rest)) = body.split_at_checked(HEAD_BYTES) else {
            return Err(corrupt("it is too short"));
        };
        let (magic, head) = head.split_at(MAGIC.len());
        if magic != MAGIC || head[..4] != VERSION.to_be_bytes() {
            return Err(SSTableError::unsupported(name, "this version of Checksums.db is"));
        }
        let count = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        if count > MAX_FILES {
            return Err(corrupt("it lists too many files"));
        }
        let mut files = BTreeMap::new();
        for _ in 0..count {
            let (component, file) =
                take_file(&mut rest).ok_or_else(|| corrupt("it ends too early"))?;
            files.insert(component, file);
        }
        if rest.is_empty() {
            Ok(Self(files))
        } else {
            Err(corrupt("there are bytes after the last file"))
        }
    }

    /// Returns the checksums of all components.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Component, &FileChecksums)> {
        self.0.iter()
    }

    /// Returns the checksums of a component, if it has any.
    pub(crate) fn of(&self, component: &Component) -> Option<&FileChecksums> {
        self.0.get(component)
    }
}

fn take_file(rest: &mut &[u8]) -> Option<(Component, FileChecksums)> {
    let mut take = |count: usize| {
        let (part, behind) = rest.split_at_checked(count)?;
        *rest = behind;
        Some(part)
    };
    let name_length = u16::from_be_bytes(take(2)?.try_into().ok()?);
    let component = Component::parse(std::str::from_utf8(take(usize::from(name_length))?).ok()?);
    let length = u64::from_be_bytes(take(8)?.try_into().ok()?);
    let pages = usize::try_from(length.div_ceil(PAGE_BYTES as u64)).ok()?;
    let pages = take(pages.checked_mul(4)?)?;
    let pages = pages.as_chunks::<4>().0.iter().map(|page| u32::from_be_bytes(*page)).collect();
    Some((component, FileChecksums { length, pages }))
}

impl FileChecksums {
    /// Verifies the length of the file.
    pub(crate) fn check_length(&self, name: &FileName, found: u64) -> Result<()> {
        if found == self.length {
            return Ok(());
        }
        let reason = format!("it has {found} bytes; Checksums.db says {}", self.length);
        Err(SSTableError::corrupt(name, found.min(self.length), reason))
    }

    /// Verifies a whole file.
    #[cfg(test)]
    pub(crate) fn check(&self, name: &FileName, bytes: &[u8]) -> Result<()> {
        self.check_length(name, bytes.len() as u64)?;
        self.check_pages(name, 0, bytes)
    }

    /// Verifies pages from number `first` on. Only the file's last page may be shorter than a page.
    pub(crate) fn check_pages(&self, name: &FileName, first: u64, bytes: &[u8]) -> Result<()> {
        let expected = usize::try_from(first).ok().and_then(|first| self.pages.get(first..));
        let pages = bytes.chunks(PAGE_BYTES).zip(expected.unwrap_or_default()).zip(first..);
        for ((page, expected), number) in pages {
            check_page(name, number, page, *expected)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{
        append_file::WrittenFile,
        checksums::{PageChecksums, format_checksums},
    };

    fn name() -> FileName {
        FileName::new(Path::new("da-1-bti-Checksums.db"))
    }

    fn sample() -> (Vec<u8>, Vec<u8>) {
        let content: Vec<u8> = (0..10_000u32).map(|i| ((i * i) >> 7) as u8).collect();
        let file = |bytes: &[u8]| WrittenFile {
            length: bytes.len() as u64,
            pages: PageChecksums::of(bytes),
        };
        let files = [(Component::Partitions, file(&content)), (Component::Rows, file(&[]))];
        (format_checksums(&files), content)
    }

    #[test]
    fn parsed_checksums_accept_their_content_and_find_damage() {
        let (bytes, content) = sample();
        let checksums = Checksums::parse(&name(), &bytes).unwrap();
        let of_partitions = checksums.of(&Component::Partitions).unwrap();
        of_partitions.check(&name(), &content).unwrap();
        checksums.of(&Component::Rows).unwrap().check(&name(), &[]).unwrap();
        assert_eq!(checksums.of(&Component::Filter), None);
        for at in [0, 4095, 4096, 9_999] {
            let mut harmed = content.clone();
            harmed[at] ^= 4;
            let error = of_partitions.check(&name(), &harmed).unwrap_err().to_string();
            assert!(error.contains(&format!("byte {}:", at / 4096 * 4096)), "{error}");
        }
        assert!(of_partitions.check(&name(), &content[1..]).is_err());
    }

    #[test]
    fn damage_of_its_own_is_found() {
        let (bytes, _) = sample();
        for at in 0..bytes.len() {
            assert!(Checksums::parse(&name(), &bytes[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut harmed = bytes.clone();
                harmed[at] ^= 1 << bit;
                assert!(Checksums::parse(&name(), &harmed).is_err(), "bit {bit} of byte {at}");
            }
        }
    }
}
