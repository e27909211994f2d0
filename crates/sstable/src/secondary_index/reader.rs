//! Opens the entries of one index of an SSTable.

use std::cell::Cell;

use super::{
    cursor::EntryCursor,
    layout::{Contents, Description, END_BYTES},
};
use crate::{
    error::{Result, SSTableError},
    page_cache::{CachedFile, Caching},
    vector_index::{VectorDescription, VectorIndex},
};

/// The longest description of entries, in bytes: a signature and some numbers. That of vectors has
/// no limit, because the writer has none.
const MAX_DESCRIPTION_BYTES: u64 = 64 << 20;

/// The open entries of one index of an SSTable. It holds no pages.
pub struct SecondaryIndex {
    file: CachedFile,
    description: AnyDescription,
    /// True if a reader has found damage in the component.
    is_forgotten: Cell<bool>,
}

enum AnyDescription {
    Entries(Description),
    Vectors(VectorDescription),
}

impl SecondaryIndex {
    /// Opens the component of an SSTable with `partitions` partitions. A file without checksums is
    /// refused.
    pub(crate) async fn open(file: CachedFile, partitions: u64) -> Result<Self> {
        let (name, length) = (file.name().clone(), file.length());
        if !file.has_checksums() {
            return Err(SSTableError::corrupt(&name, 0, "Checksums.db does not list it"));
        }
        let Some(end) = length.checked_sub(END_BYTES as u64) else {
            return Err(SSTableError::corrupt(&name, length, "it is too short"));
        };
        let bytes = file.read_checked(end, END_BYTES).await?;
        let (position, contents) = Description::position(&name, &bytes, length)?;
        if matches!(contents, Contents::Entries) && end - position > MAX_DESCRIPTION_BYTES {
            return Err(SSTableError::corrupt(&name, position, "its description is too long"));
        }
        let bytes = file.read_checked(position, (end - position) as usize).await?;
        let description = match contents {
            Contents::Entries => {
                let description = Description::decode(&name, &bytes, position)?;
                if description.partitions != partitions {
                    let reason = "its number of partitions is not that of Statistics.db";
                    return Err(SSTableError::corrupt(&name, position, reason));
                }
                AnyDescription::Entries(description)
            }
            Contents::Vectors => {
                AnyDescription::Vectors(VectorDescription::decode(&name, &bytes, position)?)
            }
        };
        Ok(Self { file, description, is_forgotten: Cell::new(false) })
    }

    /// Returns whether a reader has found damage in it.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.is_forgotten.get()
    }

    /// Records that the component is damaged. Returns false if that was recorded before.
    pub(crate) fn forget(&self) -> bool {
        !self.is_forgotten.replace(true)
    }

    /// Returns the text by which the entries are recognised.
    pub fn signature(&self) -> &str {
        match &self.description {
            AnyDescription::Entries(description) => &description.signature,
            AnyDescription::Vectors(description) => &description.signature,
        }
    }

    /// Returns the number of entries.
    pub fn entry_count(&self) -> u64 {
        match &self.description {
            AnyDescription::Entries(description) => description.entries,
            AnyDescription::Vectors(description) => {
                VectorIndex::new(&self.file, description, false).count()
            }
        }
    }

    /// Returns the length of the file in bytes.
    pub fn length(&self) -> u64 {
        self.file.length()
    }

    /// Returns a cursor over the entries; `None` if the index is on vectors. With `bypass_cache`,
    /// it leaves the page cache as it is.
    pub fn cursor(&self, bypass_cache: bool) -> Option<EntryCursor> {
        let caching = if bypass_cache { Caching::Private } else { Caching::Shared };
        match &self.description {
            AnyDescription::Entries(description) => {
                Some(EntryCursor::new(self.file.for_one_read(caching), description))
            }
            AnyDescription::Vectors(_) => None,
        }
    }

    /// Returns the vectors for one search, if the index is on vectors. With `bypass_cache`, the
    /// search leaves the page cache as it is.
    pub fn vectors(&self, bypass_cache: bool) -> Option<VectorIndex<'_>> {
        match &self.description {
            AnyDescription::Vectors(description) => {
                Some(VectorIndex::new(&self.file, description, bypass_cache))
            }
            AnyDescription::Entries(_) => None,
        }
    }
}
