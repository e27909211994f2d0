//! A descriptor names an SSTable. File names have the form `<version>-<id>-<format>-<component>`,
//! as in `da-7-bti-Data.db`. Format: docs/formats/components.md.

use std::{
    borrow::Cow,
    fmt,
    path::{Path, PathBuf},
};

use super::{Component, SSTableId};
use crate::{
    error::{FileName, Result, SSTableError},
    versions::{FormatWord, Version, VersionFeatures},
};

/// The name of one SSTable. All its files lie in `directory` and begin with the same prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Descriptor {
    /// The table's directory.
    pub directory: PathBuf,
    /// Format version.
    pub version: Version,
    /// Identifier of the SSTable within the table.
    pub id: SSTableId,
    /// `bti` or `big`. The version decides the content, not this word.
    pub format: FormatWord,
}

/// An error for a path that does not name a component of an SSTable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{path} is not named like a file of an SSTable that can be read, such as da-1-bti-Data.db: \
     {reason}"
)]
pub struct NotAnSSTable {
    /// The path.
    pub path: String,
    /// The wrong part of the name.
    pub reason: Cow<'static, str>,
}

impl Descriptor {
    /// Creates the name of a new SSTable. The version decides the format word.
    pub fn new(directory: impl Into<PathBuf>, features: &VersionFeatures, id: SSTableId) -> Self {
        Self {
            directory: directory.into(),
            version: features.version,
            id,
            format: features.format_word,
        }
    }

    /// Parses a path into the SSTable and the component that it names.
    ///
    /// # Errors
    /// Returns [`NotAnSSTable`] if a part of the name is wrong, or if the name is of a version
    /// before Cassandra 2.2.
    pub fn parse(path: &Path) -> Result<(Descriptor, Component), NotAnSSTable> {
        let not_named_so =
            |reason| NotAnSSTable { path: path.to_string_lossy().into_owned(), reason };
        let wrong = |reason| not_named_so(Cow::Borrowed(reason));
        let name =
            path.file_name().and_then(|name| name.to_str()).ok_or_else(|| wrong("no file name"))?;
        if let Some(version) = version_of_long_name(name) {
            return Err(not_named_so(format!("version '{version}' is not supported").into()));
        }
        let mut parts = name.splitn(4, '-');
        let mut part = || parts.next().ok_or_else(|| wrong("fewer than four parts"));
        let (version, id, format, component) = (part()?, part()?, part()?, part()?);
        let version = Version::parse(version).ok_or_else(|| wrong("no version"))?;
        let id = SSTableId::parse(id).ok_or_else(|| wrong("no identifier"))?;
        let format = FormatWord::parse(format).ok_or_else(|| wrong("no format word"))?;
        let directory = path.parent().map(Path::to_path_buf).unwrap_or_default();
        Ok((Descriptor { directory, version, id, format }, Component::parse(component)))
    }

    /// Returns the name of a component's file, without the directory.
    pub fn file_name(&self, component: &Component) -> String {
        format!("{self}-{component}")
    }

    /// Returns the path of a component's file.
    pub fn path(&self, component: &Component) -> PathBuf {
        self.directory.join(self.file_name(component))
    }

    /// Returns the name of a component's file for errors.
    pub fn name_in_errors(&self, component: &Component) -> FileName {
        FileName::new(&self.path(component))
    }

    /// Returns the features of the version.
    ///
    /// # Errors
    /// Returns [`SSTableError::Unsupported`] if Espalier cannot read the version.
    pub fn features(&self) -> Result<&'static VersionFeatures> {
        self.version.features().ok_or_else(|| {
            let file = self.name_in_errors(&Component::Data);
            SSTableError::unsupported(&file, format!("version '{}' is", self.version))
        })
    }
}

impl Descriptor {
    /// Returns the features of the version for writing.
    ///
    /// # Errors
    /// Returns [`SSTableError::Unsupported`] if Espalier cannot write the version.
    pub fn writable_features(&self) -> Result<&'static VersionFeatures> {
        let features = self.features()?;
        if features.is_written {
            Ok(features)
        } else {
            let file = self.name_in_errors(&Component::Data);
            Err(SSTableError::unsupported(&file, format!("writing version '{}' is", self.version)))
        }
    }
}

/// Finds the version in a long name. Before Cassandra 2.2, names began with keyspace and table:
/// `ks-table-ka-1-Data.db`.
fn version_of_long_name(name: &str) -> Option<Version> {
    let mut parts = name.rsplitn(4, '-').skip(1);
    let (generation, version, _table) = (parts.next()?, parts.next()?, parts.next()?);
    let is_number = !generation.is_empty() && generation.bytes().all(|byte| byte.is_ascii_digit());
    Version::parse(version).filter(|_| is_number)
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.version, self.id, self.format.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in [
            "da-1-bti-Data.db",
            "da-3gsm_0lob_1zdg02we44my8dy25w-bti-Partitions.db",
            "mt-42-big-Rows.db",
            "da-1-bti-SAI+aa+sai_b+Meta.db",
            "da-1-bti-Some-Thing.db",
        ] {
            let path = Path::new("/data/ks/t-0123").join(name);
            let (descriptor, component) = Descriptor::parse(&path).unwrap();
            assert_eq!(descriptor.path(&component), path);
        }
    }

    #[test]
    fn the_wrong_part_is_named() {
        for (name, reason) in [
            ("da-1-bti", "fewer than four parts"),
            ("d-1-bti-Data.db", "no version"),
            ("da-0-bti-Data.db", "no identifier"),
            ("da-1-xyz-Data.db", "no format word"),
        ] {
            assert_eq!(Descriptor::parse(Path::new(name)).unwrap_err().reason, reason, "{name}");
        }
    }

    #[test]
    fn an_error_names_the_version_of_an_old_file_name() {
        let error = Descriptor::parse(Path::new("x/try1-tab-ka-1-Data.db")).unwrap_err();
        let expected = "x/try1-tab-ka-1-Data.db is not named like a file of an SSTable that can \
                        be read, such as da-1-bti-Data.db: version 'ka' is not supported";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_version_that_is_not_enabled_is_refused_by_name() {
        let (descriptor, _) = Descriptor::parse(Path::new("x/ea-1-bti-Data.db")).unwrap();
        let error = descriptor.features().unwrap_err().to_string();
        assert_eq!(error, "x/ea-1-bti-Data.db: version 'ea' is not supported");
    }
}
