//! Defines how a table lays out its rows: as CQL tables do, or as one of the compact layouts of
//! Thrift times (`WITH COMPACT STORAGE`).
//!
//! A compact table stores the same data as a Thrift column family. An INSERT writes no liveness of
//! the primary key, so a row exists only by its cells. Source:
//! docs/decisions/0032-compact-tables.md.

use espalier_types::CqlType;

use super::{ColumnDefinition, ColumnKind, TableMetadata};

/// The layout of a table's rows, which the flags of `system_schema.tables` record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableLayout {
    /// The layout of tables without COMPACT STORAGE.
    #[default]
    Cql,
    /// A compact table that declares no clustering columns. The columns that it declares besides
    /// the partition key are static. It also has a clustering column and a regular column that CQL
    /// does not show, because a Thrift row could hold more cells than the table declares.
    StaticCompact,
    /// A compact table with one clustering column and one regular column. If CREATE TABLE declared
    /// no regular column, the table has one of type `empty` that CQL does not show.
    Dense,
    /// A [`Dense`](Self::Dense) table with several clustering columns. The last values of a
    /// clustering may be null.
    DenseComposite,
}

impl TableLayout {
    /// Returns COMPACT STORAGE's layout of a table with this number of clustering columns.
    pub fn compact(clustering_columns: usize) -> Self {
        match clustering_columns {
            0 => Self::StaticCompact,
            1 => Self::Dense,
            _ => Self::DenseComposite,
        }
    }

    /// Returns the flags in `system_schema.tables`, sorted and without that of counters.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Cql => &["compound"],
            Self::StaticCompact => &[],
            Self::Dense => &["dense"],
            Self::DenseComposite => &["compound", "dense"],
        }
    }

    /// Returns the layout with these flags.
    ///
    /// # Errors
    ///
    /// Returns a text if the table is a super column family, which no version of CQL can create.
    pub fn from_flags<'f>(flags: impl IntoIterator<Item = &'f str>) -> Result<Self, String> {
        let (mut is_dense, mut is_compound) = (false, false);
        for flag in flags {
            match flag {
                "dense" => is_dense = true,
                "compound" => is_compound = true,
                "super" => return Err("super column families are not supported".into()),
                _ => {}
            }
        }
        Ok(match (is_dense, is_compound) {
            (false, true) => Self::Cql,
            (false, false) => Self::StaticCompact,
            (true, false) => Self::Dense,
            (true, true) => Self::DenseComposite,
        })
    }

    /// Returns whether the table has COMPACT STORAGE.
    #[inline]
    pub fn is_compact(self) -> bool {
        self != Self::Cql
    }

    /// Returns whether CQL does not show a column of a table with this layout.
    pub fn hides(self, column: &ColumnDefinition) -> bool {
        match self {
            Self::Cql => false,
            Self::StaticCompact => {
                matches!(column.kind, ColumnKind::Clustering | ColumnKind::Regular)
            }
            Self::Dense | Self::DenseComposite => {
                column.kind == ColumnKind::Regular && column.column_type == CqlType::Empty
            }
        }
    }
}

impl TableMetadata {
    /// Returns whether the table has COMPACT STORAGE.
    #[inline]
    pub fn is_compact(&self) -> bool {
        self.layout.is_compact()
    }

    /// Returns whether the table is a compact table without clustering columns. CQL shows the
    /// static row of each of its partitions, and no other row.
    #[inline]
    pub fn is_static_compact(&self) -> bool {
        self.layout == TableLayout::StaticCompact
    }

    /// Returns whether an INSERT writes a liveness of the primary key, by which the row exists
    /// without cells.
    #[inline]
    pub fn has_row_liveness(&self) -> bool {
        !self.is_compact()
    }
}

#[cfg(test)]
mod tests {
    use super::TableLayout::{Cql, Dense, DenseComposite, StaticCompact};
    use super::*;

    #[test]
    fn flags_name_their_layout() {
        for layout in [Cql, StaticCompact, Dense, DenseComposite] {
            let flags = layout.flags().iter().copied().chain(["counter"]);
            assert_eq!(TableLayout::from_flags(flags), Ok(layout));
        }
        assert!(TableLayout::from_flags(["super", "dense"]).is_err());
    }
}
