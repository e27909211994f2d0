//! The serialised form of rows and markers, which Data.db and the messages between nodes share, and
//! the parts of the commit log's records. Formats: docs/formats/data.md,
//! docs/formats/commit-log.md; decision: docs/decisions/0037.
//!
//! An SSTable has the lengths of a row in front of its body, and describes columns and baselines
//! once for a file. A message has no lengths, and describes columns and baselines for each
//! partition. The callers ([`espalier_sstable`] and [`espalier_internode`]) read and write these
//! parts around the bodies.
//!
//! | module | content |
//! | --- | --- |
//! | [`input`] | the reading position, and the reason why a read failed |
//! | [`baselines`], [`stats`] | deltas, and the minima from which they count |
//! | [`flags`] | bits of rows, markers and cells |
//! | [`column`], [`column_subset`] | the header's columns, and the subset that a row has |
//! | [`value`], [`clustering_values`], [`cell`] | the parts of a row |
//! | [`walk`] | the walk over the body of a row, for visitors |
//! | [`row`], [`marker`] | the bodies of rows and markers |
//! | [`body`] | parts of the commit log's records |
//!
//! [`espalier_sstable`]: ../../espalier_sstable/index.html
//! [`espalier_internode`]: ../../espalier_internode/index.html

pub mod baselines;
pub mod body;
pub mod cell;
pub mod clustering_values;
pub mod column;
pub mod column_subset;
pub mod flags;
pub mod input;
pub mod marker;
pub mod row;
pub mod stats;
pub mod value;
pub mod walk;
