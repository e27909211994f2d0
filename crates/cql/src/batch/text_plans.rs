//! Limits the plans of the statements that a BATCH message gives as texts. Each text has limits of
//! its own, but a message has up to 65,535 texts.

use espalier_types::literal::MAX_FIELDS;

use crate::{
    Error, Result,
    prepared::{MAX_COLUMNS, Prepared},
};

/// Maximum number of columns in all plans. Arbitrary: ten times the maximum of one statement with
/// JSON documents.
const MAX_TEXT_COLUMNS: usize = 10 * MAX_COLUMNS;

/// Counts the columns and the parts of the plans.
///
/// A column takes some bytes of the text, except a column that a JSON document omits. A part takes
/// at least one byte of the text, except an absent field of a user type. The parts of all plans may
/// exceed the bytes of their texts by the maximum number of fields in one statement.
#[derive(Debug, Default)]
pub struct TextPlans {
    columns: usize,
    parts: usize,
    bytes: usize,
}

impl TextPlans {
    /// Counts one plan.
    ///
    /// # Errors
    /// The plans so far have too many columns, or too many parts for their texts.
    pub fn add(&mut self, planned: &Prepared) -> Result<()> {
        self.columns += planned.plan.column_count();
        self.parts += planned.parts;
        self.bytes += planned.text.len();
        if self.columns > MAX_TEXT_COLUMNS {
            return Err(Error::invalid(format!(
                "The statements in the texts of the batch write too many columns: at most \
                 {MAX_TEXT_COLUMNS}; prepare the statements"
            )));
        }
        if self.parts > self.bytes + MAX_FIELDS {
            return Err(Error::invalid(format!(
                "The user types in the statements of the batch have too many absent fields: at \
                 most {MAX_FIELDS}"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use espalier_runtime::{ShardContext, block_on, file::FileSystem};
    use espalier_storage::{Node, SharedStorage, StorageConfiguration};

    use super::*;
    use crate::{ClientState, PreparedCache, QueryOptions, QueryProcessor};

    #[test]
    fn the_texts_of_a_batch_share_a_limit_on_columns() {
        block_on(async {
            let file_system = FileSystem::simulated(1);
            let context = ShardContext { index: 0, count: 1 };
            let configuration = Arc::new(StorageConfiguration::new("node"));
            let shared = SharedStorage::new();
            let database = Node::open(context, file_system, configuration, shared).await.unwrap();
            let processor = QueryProcessor::new(database, Arc::new(PreparedCache::default()));
            let (mut client, options) = (ClientState::default(), QueryOptions::default());
            let columns: Vec<_> = (1..1000).map(|number| format!("c{number} int")).collect();
            let keyspace = "CREATE KEYSPACE ks WITH replication = \
                            {'class': 'SimpleStrategy', 'replication_factor': 1}";
            let table = format!("CREATE TABLE ks.t (k int PRIMARY KEY, {})", columns.join(", "));
            for text in [keyspace, &table] {
                processor.query(text, &mut client, &options).await.unwrap();
            }
            let insert = "INSERT INTO ks.t JSON '{\"k\": 1}'";
            let planned = processor.plan(insert, &client, &options).await.unwrap();
            assert_eq!(planned.plan.column_count(), 999);
            let mut plans = TextPlans::default();
            for _ in 0..MAX_TEXT_COLUMNS / 999 {
                plans.add(&planned).unwrap();
            }
            let error = plans.add(&planned).unwrap_err().message;
            let expected = "The statements in the texts of the batch write too many columns: at \
                            most 2000000; prepare the statements";
            assert_eq!(error, expected);
        });
    }
}
