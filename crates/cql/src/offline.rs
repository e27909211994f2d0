//! CQL without a node: schemas and WHERE clauses for tools that work on files.

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::{
    ClusteringSlices, DecoratedKey, KeyRange,
    schema::{KeyspaceMetadata, Schema, TableMetadata},
};
use espalier_runtime::{random, time};

use crate::{
    Error, Result, ddl,
    grammar::{
        self,
        ast::{QualifiedName, Statement},
    },
    restrictions::{self, Partitions, Purpose},
    term::{Evaluation, Preparation},
};

/// The schema that a script of CREATE and ALTER statements makes, such as the `schema.cql` in Cassandra's snapshots or what
/// `DESCRIBE` prints. Keyspaces need not be created; names without one are in `keyspace`, or in that of the last USE.
/// Statements that make neither keyspaces, tables nor types are passed over.
///
/// # Errors
/// Text that is no CQL; statements that a node would refuse.
pub fn read_schema(script: &str, keyspace: &str) -> Result<Schema> {
    let mut schema = Schema::new(BTreeMap::new(), random::uuid_v4());
    let mut current = keyspace.to_string();
    for text in grammar::split_statements(script) {
        let parsed = grammar::parse(text)?;
        let name = match &parsed.statement {
            Statement::Use(statement) => {
                current = statement.keyspace.as_str().to_string();
                continue;
            }
            // One that was only named so far is taken for this one.
            Statement::CreateKeyspace(statement) => {
                let name = statement.name.as_str();
                if schema.keyspace(name).is_some() {
                    continue;
                }
                None
            }
            Statement::CreateTable(statement) => Some(&statement.name),
            Statement::AlterTable(statement) => Some(&statement.name),
            Statement::DropTable(statement) => Some(&statement.name),
            Statement::CreateType(statement) => Some(&statement.name),
            Statement::AlterType(statement) => Some(&statement.name),
            Statement::DropType(statement) => Some(&statement.name),
            _ => continue,
        };
        if let Some(name) = name {
            schema = with_keyspace(schema, name, &current);
        }
        if let Some((changed, _)) = ddl::apply(text, Some(&current), &schema, None)? {
            schema = changed;
        }
    }
    Ok(schema)
}

fn with_keyspace(schema: Schema, name: &QualifiedName<'_>, current: &str) -> Schema {
    let name = name.keyspace.as_ref().map_or(current, |keyspace| keyspace.as_str());
    if schema.keyspace(name).is_some() {
        return schema;
    }
    let keyspace = KeyspaceMetadata {
        name: name.to_string(),
        replication: BTreeMap::new(),
        durable_writes: true,
        tables: BTreeMap::new(),
        types: BTreeMap::new(),
    };
    let mut keyspaces = schema.keyspaces;
    keyspaces.insert(name.to_string(), Arc::new(keyspace));
    Schema::new(keyspaces, schema.version)
}

/// What a WHERE clause on key columns names.
#[derive(Clone, Debug, PartialEq)]
pub struct Selected {
    /// Which partitions.
    pub partitions: SelectedPartitions,
    /// Which rows of each.
    pub slices: ClusteringSlices,
}

/// The partitions that a WHERE clause names.
#[derive(Clone, Debug, PartialEq)]
pub enum SelectedPartitions {
    /// These.
    Keys(Vec<DecoratedKey>),
    /// Those in a range of tokens, or all.
    Range(KeyRange),
    /// None can be meant.
    Nothing,
}

/// What a WHERE clause (`id = 1 AND at >= '2024-01-01'`, without the word WHERE) names.
///
/// # Errors
/// Text that is no CQL; unknown columns; conditions that no key answers.
pub fn plan_where(table: &Arc<TableMetadata>, clause: &str) -> Result<Selected> {
    let text = format!("SELECT * FROM t WHERE {clause} ALLOW FILTERING");
    let parsed = grammar::parse(&text)?;
    let Statement::Select(select) = &parsed.statement else {
        return Err(Error::invalid(format!("'{clause}' is no condition")));
    };
    if !parsed.bind_markers.is_empty() {
        return Err(Error::invalid("there is nothing to bind a '?' to"));
    }
    if !select.order_by.is_empty() || select.limit.is_some() || !select.group_by.is_empty() {
        return Err(Error::invalid("only conditions may stand here"));
    }
    let schema = Schema::new(BTreeMap::new(), random::uuid_v4());
    let mut preparation = Preparation::new(
        &text,
        &schema,
        table.keyspace.as_str().into(),
        table.name.as_str().into(),
        &parsed.bind_markers,
    );
    let purpose = Purpose::Select { allow_filtering: true };
    let planned = restrictions::plan(&mut preparation, table, &select.where_clause, purpose)?;
    if !planned.filters.is_empty() {
        return Err(Error::invalid(
            "only conditions that the key answers can be looked up: '=' and IN on clustering columns from the first \
             on, and a range on the next; or all of the partition key, or a range of its token",
        ));
    }
    let evaluation = Evaluation { values: &[], now_us: time::now_micros() };
    let partitions = match planned.partition.partitions(table, &evaluation)? {
        Partitions::Keys(keys) => SelectedPartitions::Keys(keys),
        Partitions::Range(Some(range)) => SelectedPartitions::Range(range),
        Partitions::Range(None) => SelectedPartitions::Nothing,
    };
    Ok(Selected { partitions, slices: planned.slices(table, &evaluation)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "-- a script; with a comment
        CREATE TYPE IF NOT EXISTS k.pair (a int, b text);
        CREATE TABLE k.t (id int, s text, at timestamp, p frozen<pair>, v text, PRIMARY KEY ((id, s), at))
            WITH ID = 5a1c395e-b41f-11e5-9f22-ba0be0483c18 AND comment = 'semi;colon';
        CREATE INDEX ON k.t (v);
        USE other; CREATE TABLE u (id int PRIMARY KEY);";

    #[test]
    fn scripts_make_schemas() {
        let schema = read_schema(SCRIPT, "k").unwrap();
        let table = schema.table("k", "t").unwrap();
        assert_eq!(table.id.to_string(), "5a1c395e-b41f-11e5-9f22-ba0be0483c18");
        assert_eq!(table.partition_key_columns().len(), 2);
        assert!(schema.table("other", "u").is_some());
        assert!(read_schema("CREATE TABLE t (id int);", "k").is_err());
        assert!(read_schema("CREATE TABLE t (", "k").is_err());
    }

    #[test]
    fn options_are_looked_at_together() {
        let made = |options: &str| {
            read_schema(&format!("CREATE TABLE k.t (id int PRIMARY KEY) WITH {options};"), "k")
        };
        for options in [
            "max_index_interval = 16 AND min_index_interval = 8",
            "min_index_interval = 4096 AND max_index_interval = 8192",
        ] {
            assert!(made(options).is_ok(), "{options}");
        }
        for options in ["max_index_interval = 16", "min_index_interval = 0"] {
            let error = made(options).unwrap_err().to_string();
            assert!(error.contains("must not be less than min_index_interval"), "{error}");
        }
    }

    #[test]
    fn what_a_snapshot_tells_of_a_table_makes_it_again() {
        let script = "CREATE TYPE k.inner (a int, tags set<text>); CREATE TYPE k.outer (b frozen<list<frozen<inner>>>, c text);
            CREATE TYPE k.unused (a int);
            CREATE TABLE k.t (id int PRIMARY KEY, u outer, v map<int, frozen<outer>>, w frozen<tuple<int, inner>>);
            CREATE TABLE k.s (id frozen<inner> PRIMARY KEY, v int);";
        let schema = read_schema(script, "k").unwrap();
        let told = |name| crate::describe_table(&schema, schema.table("k", name).unwrap());
        assert!(told("t").contains("    tags set<text>\n"), "{}", told("t"));
        assert!(!told("t").contains("unused"), "{}", told("t"));
        // Types that several tables use are in the snapshot of each.
        let again = read_schema(&(told("t") + &told("s")), "k").unwrap();
        for name in ["t", "s"] {
            assert_eq!(again.table("k", name), schema.table("k", name));
            assert!(read_schema(&told(name), "k").is_ok());
        }
    }

    #[test]
    fn conditions_name_keys_and_slices() {
        let schema = read_schema(SCRIPT, "k").unwrap();
        let table = schema.table("k", "t").unwrap();
        let selected = plan_where(table, "id = 1 AND s IN ('a', 'b') AND at >= 0").unwrap();
        assert!(matches!(&selected.partitions, SelectedPartitions::Keys(keys) if keys.len() == 2));
        assert!(!selected.slices.is_all());
        let selected = plan_where(table, "at > 5 AND at <= '1970-01-02'").unwrap();
        assert_eq!(selected.partitions, SelectedPartitions::Range(KeyRange::full()));
        assert_eq!(selected.slices.slices.len(), 1);
        assert!(plan_where(table, "token(id, s) > 0").unwrap().slices.is_all());
        for wrong in ["v = 'x'", "x = 1", "id = 1", "at = ", "at = ? ", "at = 1 LIMIT 5"] {
            assert!(plan_where(table, wrong).is_err(), "{wrong}");
        }
    }
}
