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

/// Reads the schema that a script of CREATE, ALTER and DROP statements defines, such as the
/// `schema.cql` in Cassandra's snapshots or the output of `DESCRIBE`.
///
/// The script need not create its keyspaces. A name without a keyspace is in `keyspace`, or in the
/// keyspace of the last USE. Only USE, CREATE KEYSPACE, and CREATE, ALTER and DROP of tables and
/// types have an effect. Other statements are skipped.
///
/// # Errors
/// A statement is not CQL, or a node would refuse a statement that is not skipped.
pub fn read_schema(script: &str, keyspace: &str) -> Result<Schema, ScriptError> {
    let mut schema = Schema::new(BTreeMap::new(), random::uuid_v4());
    let mut current = keyspace.to_string();
    for text in grammar::split_statements(without_warnings(script)) {
        let changed = after_statement(&schema, text, &mut current);
        if let Some(changed) = changed.map_err(|error| ScriptError::of(script, text, &error))? {
            schema = changed;
        }
    }
    Ok(schema)
}

/// A statement of a script that is not usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ScriptError {
    /// The line of the script, from 1.
    pub line: u64,
    /// The reason.
    pub reason: String,
}

impl ScriptError {
    /// Creates the error. `statement` must be a slice of `script`.
    fn of(script: &str, statement: &str, error: &Error) -> Self {
        let start = statement.as_ptr().addr().saturating_sub(script.as_ptr().addr());
        let before = script.as_bytes().get(..start).unwrap_or_default();
        let (place, reason) = error.split_place();
        let first = 1 + before.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let line = first + place.map_or(0, |place| u64::from(place.line.saturating_sub(1)));
        // The message may quote lines of the script, so line breaks become spaces.
        Self { line, reason: reason.replace(['\n', '\r'], " ") }
    }
}

/// Skips the warnings that cqlsh prints before its output if its version differs from the node's.
fn without_warnings(script: &str) -> &str {
    const WARNING: &str = "WARNING:";
    let mut rest = script.trim_start_matches('\u{feff}');
    loop {
        let text = rest.trim_start();
        match text.get(..WARNING.len()) {
            Some(start) if start.eq_ignore_ascii_case(WARNING) => {
                rest = text.split_once('\n').map_or("", |(_, behind)| behind);
            }
            _ => return rest,
        }
    }
}

/// Returns the schema after a statement of a script; `None` leaves `schema` as it is. `current` is
/// the keyspace in use.
fn after_statement(schema: &Schema, text: &str, current: &mut String) -> Result<Option<Schema>> {
    let parsed = grammar::parse(text)?;
    let name = match &parsed.statement {
        Statement::Use(statement) => {
            *current = statement.keyspace.as_str().to_string();
            return Ok(None);
        }
        // The keyspace exists if an earlier statement created it or an object in it.
        Statement::CreateKeyspace(statement) => {
            let name = statement.name.as_str();
            if schema.keyspace(name).is_some() {
                return Ok(None);
            }
            None
        }
        Statement::CreateTable(statement) => Some(&statement.name),
        Statement::CreateTableLike(statement) => Some(&statement.name),
        Statement::AlterTable(statement) => Some(&statement.name),
        Statement::DropTable(statement) => Some(&statement.name),
        Statement::CreateType(statement) => Some(&statement.name),
        Statement::AlterType(statement) => Some(&statement.name),
        Statement::DropType(statement) => Some(&statement.name),
        _ => return Ok(None),
    };
    let named = match name {
        Some(name) => with_keyspace(schema.clone(), name, current),
        None => schema.clone(),
    };
    let changed = ddl::apply(text, Some(current), &named, None)?;
    Ok(Some(changed.map_or(named, |(changed, _)| changed)))
}

fn with_keyspace(schema: Schema, name: &QualifiedName<'_>, current: &str) -> Schema {
    let name = name.keyspace.as_ref().map_or(current, |keyspace| keyspace.as_str());
    if schema.keyspace(name).is_some() {
        return schema;
    }
    let mut keyspaces = schema.keyspaces;
    keyspaces.insert(name.to_string(), Arc::new(KeyspaceMetadata::new(name)));
    Schema::new(keyspaces, schema.version)
}

/// The partitions and rows that a WHERE clause on key columns selects.
#[derive(Clone, Debug, PartialEq)]
pub struct Selected {
    /// The selected partitions.
    pub partitions: SelectedPartitions,
    /// The selected rows of each partition.
    pub slices: ClusteringSlices,
}

/// The partitions that a WHERE clause selects.
#[derive(Clone, Debug, PartialEq)]
pub enum SelectedPartitions {
    /// The partitions with these keys.
    Keys(Vec<DecoratedKey>),
    /// All partitions in a range of tokens, which may be the whole ring.
    Range(KeyRange),
    /// No partition: the conditions contradict each other.
    Nothing,
}

/// Plans a WHERE clause without the word WHERE (`id = 1 AND at >= '2024-01-01'`). Error messages
/// give no place in the clause, because it is short.
///
/// # Errors
/// The clause is not CQL, has a bind marker, names an unknown column, or has a condition that the
/// primary key does not serve.
pub fn plan_where(table: &Arc<TableMetadata>, clause: &str) -> Result<Selected> {
    plan_conditions(table, clause).map_err(|error| {
        let (_, message) = error.split_place();
        // A tool that does not know the table's keyspace does not know the table's name either, so
        // the message omits both.
        let place = format!(" in table {}.{}", table.keyspace, table.name);
        let message = match table.keyspace.as_str() {
            "" => message.replace(&place, ""),
            _ => message.to_owned(),
        };
        Error { message, ..error }
    })
}

fn plan_conditions(table: &Arc<TableMetadata>, clause: &str) -> Result<Selected> {
    let (conditions, bind_markers) = grammar::parse_where(clause)?;
    if !bind_markers.is_empty() {
        return Err(Error::invalid(
            "the conditions have a bind marker, but there are no values to bind",
        ));
    }
    let schema = Schema::new(BTreeMap::new(), random::uuid_v4());
    let mut preparation = Preparation::of_table(clause, &schema, table, &bind_markers);
    let purpose = Purpose::Select { allow_filtering: true, is_nearest: false, only_static: false };
    let planned = restrictions::plan(&mut preparation, table, &conditions, purpose)?;
    if !planned.filters.is_empty() {
        return Err(Error::invalid(
            "the conditions must restrict the key only: all of the partition key or a range of its token, and of the \
             clustering columns the first ones by '=' or IN and the next one by a range",
        ));
    }
    let evaluation = Evaluation { values: &[], now_us: time::now_micros(), references: &[] };
    let partitions = match planned.partition.partitions(table, &evaluation)? {
        Partitions::Keys(keys) => SelectedPartitions::Keys(keys),
        Partitions::Range(Some(range)) => SelectedPartitions::Range(range),
        Partitions::Range(None) => SelectedPartitions::Nothing,
    };
    Ok(Selected { partitions, slices: planned.slices(table, &evaluation)? })
}

#[cfg(test)]
mod tests {
    use espalier_mutation::schema::{TARGET_OPTION, TableBuilder};
    use espalier_types::CqlType;

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
    fn schema_errors_name_the_line_of_the_script() {
        let good = "-- one;\nCREATE TYPE k.pair (a int);\n\n";
        let cases = [
            ("CREATE TABLE k.t (\n  id int,\n  v nosuch, PRIMARY KEY (id));", 6, "nosuch"),
            ("CREATE TABLE k.t (id int);", 4, "PRIMARY KEY"),
            ("CREATE TABLE k.t (id int PRIMARY KEY,\n v int int);", 5, "no viable alternative"),
            ("CREATE TABLE k.t (id int PRIMARY KEY)\n WITH nosuch = 1;", 4, "nosuch"),
            ("CREATE TABLE k.t (\nid int PRIMARY KEY, ", 5, "unexpected end"),
            ("CREATE TABLE k.t (\nid int,\r\nv\n, PRIMARY KEY (id))", 7, "[,]"),
        ];
        for (script, line, reason) in cases {
            let error = read_schema(&format!("{good}{script}"), "k").unwrap_err();
            assert_eq!(error.line, line, "{script}: {error}");
            assert!(error.reason.contains(reason), "{script}: {error}");
            let is_plain = !error.reason.starts_with("line ") && !error.reason.contains('\n');
            assert!(is_plain, "{error}");
        }
    }

    #[test]
    fn warnings_of_cqlsh_before_a_schema_are_skipped() {
        let warning = "\nWARNING: cqlsh was built against 5.0.2, but this server's is 4.1.  All features may not work!\n\n";
        let schema = read_schema(&format!("\u{feff}{warning}{SCRIPT}"), "k").unwrap();
        assert!(schema.table("k", "t").is_some());
        let error = read_schema(&format!("{warning}CREATE TABLE k.t (id int);"), "k").unwrap_err();
        assert_eq!(error.line, 4);
        assert_eq!(read_schema("WARNING: and nothing else", "k").unwrap().tables().count(), 0);
        // After the first statement the warning is a syntax error, like any other text.
        let error = read_schema(&format!("CREATE TYPE k.a (b int);{warning}"), "k").unwrap_err();
        assert_eq!(error.line, 2, "{error}");
    }

    #[test]
    fn a_type_that_cannot_be_inside_comes_with_a_remedy() {
        let refused = |script: &str| read_schema(script, "k").unwrap_err().reason;
        let types = "CREATE TYPE k.a (x int, tags set<text>);";
        let reason = refused(&format!("{types} CREATE TABLE k.t (id int PRIMARY KEY, v a);"));
        assert!(reason.contains("frozen<set<text>>") && reason.contains("frozen<a>"), "{reason}");
        let reason = refused(&format!("{types} CREATE TYPE k.b (v a);"));
        assert!(reason.ends_with("write frozen<a>"), "{reason}");
        let reason = refused("CREATE TABLE k.t (id int PRIMARY KEY, v list<set<int>>);");
        assert!(reason.ends_with("write list<frozen<set<int>>>"), "{reason}");
        let reason = refused("CREATE TABLE k.t (id int PRIMARY KEY, v map<int, list<int>>);");
        assert!(reason.ends_with("write map<int, frozen<list<int>>>"), "{reason}");
        let reason = refused("CREATE TABLE k.t (id set<int> PRIMARY KEY);");
        assert!(reason.ends_with("write frozen<set<int>>"), "{reason}");
    }

    #[test]
    fn errors_of_conditions_name_nothing_but_them() {
        let schema = read_schema(SCRIPT, "k").unwrap();
        let known = schema.table("k", "t").unwrap();
        let nameless = TableBuilder::new("", "sstable", known.id)
            .partition_key("key", CqlType::Int)
            .clustering("at", CqlType::Int, false);
        let nameless = Arc::new(nameless.build());
        for wrong in
            ["at =", "at = 1 LIMIT 5", "nosuch = 1", "at = 1; DROP", "", "at = ?", "at == 1"]
        {
            for table in [known, &nameless] {
                let error = plan_where(table, wrong).unwrap_err().to_string();
                for leak in ["SELECT", "ALLOW FILTERING", "line 1", ".sstable"] {
                    assert!(!error.contains(leak), "{wrong}: {error}");
                }
            }
        }
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
            assert!(error.contains("must be greater than or equal to"), "{error}");
        }
    }

    #[test]
    fn described_tables_are_read_back_with_their_types() {
        let script = "CREATE TYPE k.inner (a int, tags set<text>); CREATE TYPE k.outer (b frozen<list<frozen<inner>>>, c text);
            CREATE TYPE k.unused (a int);
            CREATE TABLE k.t (id int PRIMARY KEY, u outer, v map<int, frozen<outer>>, w frozen<tuple<int, inner>>);
            CREATE TABLE k.s (id frozen<inner> PRIMARY KEY, v int);";
        let schema = read_schema(script, "k").unwrap();
        let reported = |name| crate::describe_table(&schema, schema.table("k", name).unwrap());
        assert!(reported("t").contains("    tags set<text>\n"), "{}", reported("t"));
        assert!(!reported("t").contains("unused"), "{}", reported("t"));
        // Each snapshot contains the types of its tables, so a type may come twice.
        let again = read_schema(&(reported("t") + &reported("s")), "k").unwrap();
        for name in ["t", "s"] {
            assert_eq!(again.table("k", name), schema.table("k", name));
            assert!(read_schema(&reported(name), "k").is_ok());
        }
    }

    #[test]
    fn the_schema_of_a_snapshot_has_the_indexes_of_the_table() {
        let created = |index| ddl::apply(index, Some("k"), &without_indexes(), None);
        for (index, expected) in [
            ("CREATE INDEX ON t (v)", "CREATE INDEX IF NOT EXISTS t_v_idx ON k.t (v);"),
            (
                "CREATE INDEX by_key ON t (KEYS(m))",
                "CREATE INDEX IF NOT EXISTS by_key ON k.t (keys(m));",
            ),
            (
                "CREATE INDEX s ON t (v) USING 'sai' WITH OPTIONS = {'case_sensitive': 'false'}",
                "CREATE CUSTOM INDEX IF NOT EXISTS s ON k.t (v) USING 'sai' \
                 WITH OPTIONS = {'case_sensitive': 'false'};",
            ),
        ] {
            let (schema, _) = created(index).unwrap().unwrap();
            let text = crate::describe_table(&schema, schema.table("k", "t").unwrap());
            assert_eq!(text.lines().last(), Some(expected), "{text}");
            // The statement makes the same index again, and changes nothing if it exists.
            let again = ddl::apply(expected, Some("k"), &without_indexes(), None).unwrap();
            let indexes = |schema: &Schema| schema.table("k", "t").unwrap().indexes.clone();
            assert_eq!(indexes(&again.unwrap().0), indexes(&schema));
            assert!(ddl::apply(expected, Some("k"), &schema, None).unwrap().is_none());
        }
    }

    fn altered(schema: &Schema, statement: &str) -> Schema {
        ddl::apply(statement, Some("k"), schema, None).unwrap().unwrap().0
    }

    /// Returns a schema whose table has an index with this target in the schema tables.
    fn with_stored_target(schema: &Schema, target: &str) -> Schema {
        let mut keyspace = KeyspaceMetadata::clone(schema.keyspace("k").unwrap());
        let table = schema.table("k", "t").unwrap();
        let mut indexes = table.indexes.clone();
        indexes[0].options.insert(TARGET_OPTION.into(), target.into());
        let table = table.rebuild().indexes(indexes).build();
        keyspace.tables.insert("t".into(), Arc::new(table));
        Schema::new([("k".into(), Arc::new(keyspace))].into(), schema.version)
    }

    #[test]
    fn an_index_on_a_reserved_word_is_created_again_by_its_description() {
        let described =
            |schema: &Schema| crate::describe_table(schema, schema.table("k", "t").unwrap());
        for word in ["order", "entries", "full", "token", "true"] {
            let script = format!("CREATE TABLE k.t (id int PRIMARY KEY, \"{word}\" int)");
            let without_index = read_schema(&script, "k").unwrap();
            for class in ["", " USING 'sai'"] {
                let create = format!("CREATE INDEX ON t (\"{word}\"){class}");
                let schema = altered(&without_index, &create);
                let text = described(&schema);
                let again = altered(&without_index, text.lines().last().unwrap());
                assert_eq!(described(&again), text);
                let unquoted = with_stored_target(&schema, word);
                assert_eq!(described(&unquoted), text);
                // Both names of the class are one class, so the index exists.
                let class = class.replace("sai", "StorageAttachedIndex");
                let custom = if class.is_empty() { "" } else { "CUSTOM " };
                let create = format!("CREATE {custom}INDEX ON t (\"{word}\"){class}");
                assert!(ddl::apply(&create, Some("k"), &unquoted, None).is_err(), "{create}");
            }
        }
    }

    #[test]
    fn a_snapshot_creates_a_table_whose_types_are_dropped() {
        let script = "CREATE TYPE k.u (a int);
            CREATE TABLE k.t (id int PRIMARY KEY, v frozen<u>, w int)";
        let mut schema = read_schema(script, "k").unwrap();
        for statement in ["ALTER TABLE k.t DROP v", "DROP TYPE k.u"] {
            schema = altered(&schema, statement);
        }
        let text = crate::describe_table(&schema, schema.table("k", "t").unwrap());
        let again = read_schema(&text, "k").unwrap();
        let text_of_again = crate::describe_table(&again, again.table("k", "t").unwrap());
        assert_eq!(text_of_again, text);
    }

    #[test]
    fn a_column_of_a_multi_cell_user_type_is_not_dropped() {
        let script = "CREATE TYPE k.u (a int); CREATE TABLE k.t (id int PRIMARY KEY, v u)";
        let schema = read_schema(script, "k").unwrap();
        let error = ddl::apply("ALTER TABLE k.t DROP v", Some("k"), &schema, None).unwrap_err();
        let expected = "Cannot drop non-frozen column v of user type u";
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn compression_options_of_cassandra_2_get_their_present_names() {
        let made = |options: &str| {
            let script =
                format!("CREATE TABLE k.t (id int PRIMARY KEY) WITH compression = {{{options}}}");
            let schema = read_schema(&script, "k")?;
            Ok::<_, ScriptError>(schema.table("k", "t").unwrap().options.compression.clone())
        };
        let old = "'sstable_compression': 'LZ4Compressor', 'chunk_length_kb': '64', \
                   'crc_check_chance': '0.5'";
        let new = "'class': 'LZ4Compressor', 'chunk_length_in_kb': '64KiB'";
        let expected = [
            ("chunk_length_in_kb", "64"),
            ("class", "org.apache.cassandra.io.compress.LZ4Compressor"),
        ];
        for options in [old, new] {
            let options = made(options).unwrap();
            assert!(options.iter().map(|(k, v)| (&**k, &**v)).eq(expected), "{options:?}");
        }
        let uncompressed = made("'sstable_compression': ''").unwrap();
        assert!(uncompressed.iter().map(|(k, v)| (&**k, &**v)).eq([("enabled", "false")]));
        let both = made("'class': 'LZ4Compressor', 'sstable_compression': 'SnappyCompressor'");
        assert!(both.unwrap_err().to_string().contains("must not be used"));
        let alone = made("'crc_check_chance': '0.5'");
        assert!(alone.unwrap_err().to_string().contains("Missing sub-option 'class'"));
    }

    fn without_indexes() -> Schema {
        let script = "CREATE TABLE k.t (id int PRIMARY KEY, v text, m map<int, text>)";
        read_schema(script, "k").unwrap()
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
