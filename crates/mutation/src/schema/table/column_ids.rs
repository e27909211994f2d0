//! Gives a table the column ids of an earlier definition.

use super::{DroppedId, TableMetadata};
use crate::schema::ColumnDefinition;

impl TableMetadata {
    /// Returns this table with the column ids of `former`, an earlier definition of the table.
    ///
    /// A definition that the node has read from the schema tables has new ids, but the rows in
    /// memtables have those of `former`. The function finds the earlier column of a primary key
    /// column by its place, because a statement may have renamed it, and those of other columns by
    /// name. A column gets a new id if its kind has changed, or if it is complex and was simple, or
    /// the reverse.
    pub fn with_ids_of(&self, former: &Self) -> Self {
        let mut builder = self.rebuild();
        builder.table.version = former.version + 1;
        builder.table.next_column_id = former.next_column_id;
        builder.table.dropped_ids.clone_from(&former.dropped_ids);
        for column in former.static_columns().iter().chain(former.regular_columns()) {
            let (id, kind, is_complex) = (column.id, column.kind, column.is_complex());
            let dropped = DroppedId { id, kind, is_complex };
            builder.table.dropped_ids.insert(column.name.clone(), dropped);
        }
        builder.table.constraints.clear();
        builder.table.masks.clear();
        for column in std::mem::take(&mut builder.table.columns) {
            let place = (column.kind, column.position);
            let same = |other: &&ColumnDefinition| (other.kind, other.position) == place;
            let kept = former.columns.iter().find(same).filter(|_| column.is_primary_key());
            let is_complex = column.is_complex();
            let id = match kept {
                Some(kept) => kept.id,
                None => builder.id_of_new(&column.name, column.kind, is_complex),
            };
            let constraints = self.constraints.get(&column.id).cloned();
            builder.table.constraints.extend(constraints.map(|constraints| (id, constraints)));
            builder.table.masks.extend(self.masks.get(&column.id).cloned().map(|mask| (id, mask)));
            builder.table.columns.push(ColumnDefinition { id, ..column });
        }
        builder.build()
    }
}

#[cfg(test)]
mod tests {
    use espalier_types::CqlType;
    use uuid::Uuid;

    use super::*;
    use crate::schema::{ColumnConstraint, ColumnId, ColumnKind, TableBuilder, TableId};

    fn builder() -> TableBuilder {
        TableBuilder::new("ks", "t", TableId(Uuid::nil()))
    }

    fn ids(table: &TableMetadata) -> Vec<(&str, u32)> {
        table.columns().iter().map(|column| (column.name.as_str(), column.id.0)).collect()
    }

    #[test]
    fn columns_keep_their_ids() {
        let start = || builder().partition_key("k", CqlType::Int);
        let former = start().clustering("c", CqlType::Int, false).regular("v", CqlType::Int);
        let former = former.regular("w", CqlType::Int).build();
        assert_eq!(former.with_ids_of(&former).columns, former.columns);

        let read = start().clustering("renamed", CqlType::Int, false).regular("a", CqlType::Int);
        let read = read.regular("w", CqlType::Int).regular("v", CqlType::Int).drop_column("v", 7);
        let read = read.constrain("w", vec![ColumnConstraint::NotNull]).build();
        let table = read.with_ids_of(&former);
        assert_eq!(ids(&table), [("k", 0), ("renamed", 1), ("a", 4), ("w", 3)]);
        assert_eq!(table.constraints.keys().collect::<Vec<_>>(), [&ColumnId(3)]);
        assert_eq!(table.column_by_id(ColumnId(2)), None);

        // A column that is dropped and added again has its former id, but not with another kind.
        let read = start().clustering("renamed", CqlType::Int, false).regular("v", CqlType::Int);
        let again = read.clone().build().with_ids_of(&table);
        assert_eq!(again.column("v").map(|column| column.id), Some(ColumnId(2)));
        let read = start().clustering("c", CqlType::Int, false).static_column("v", CqlType::Int);
        let other = read.build().with_ids_of(&table);
        let column = other.column("v").map(|column| (column.id, column.kind));
        assert_eq!(column, Some((ColumnId(5), ColumnKind::Static)));
    }
}
