//! Random schemas. A schema that CREATE, ALTER and DROP accept is unchanged after a flush and a
//! restart, and DESCRIBE's output creates the same schema on another node.
//!
//! A failure names its seed.

use std::fmt::Write;

use espalier_cql::{ClientState, QueryOptions, QueryProcessor, QueryResult, grammar};
use espalier_mutation::schema::{DroppedColumn, KeyspaceMetadata, TableMetadata};
use espalier_runtime::{block_on, file::FileSystem, random::Generator};
use espalier_storage::Node;
use espalier_types::{CqlType, type_name::quote_if_needed};

use crate::support::node::open;

const KEYSPACES: [&str; 2] = ["ks", "\"Other\""];
const TYPES: [&str; 7] = ["u", "v", "w", "\"Weird name\"", "\"int\"", "\"list\"", "\"q\"\"q\""];
const TABLES: [&str; 4] = ["t", "\"T\"", "\"from\"", "s"];
const NAMES: [&str; 8] = ["a", "b", "c", "\"D d\"", "\"select\"", "\"ü-.\"", "\"x\"\"y\"", "e"];
const LEAVES: [&str; 24] = [
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "counter",
    "date",
    "decimal",
    "double",
    "duration",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varint",
    "'EmptyType'",
    "'LexicalUUIDType'",
    "'CompositeType(Int32Type,UTF8Type)'",
    "'DateType'",
];
const OPTIONS: [&str; 10] = [
    "comment = 'it''s'",
    "gc_grace_seconds = 0",
    "default_time_to_live = 630720000",
    "compaction = {'class': 'LeveledCompactionStrategy', 'enabled': 'false'}",
    "compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_size': 3}",
    "compression = {'enabled': 'false'}",
    "compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': 64}",
    "caching = {'keys': 'NONE', 'rows_per_partition': 10}",
    "speculative_retry = 'MIN(99p,50ms)' AND cdc = 'yes'",
    "bloom_filter_fp_chance = 0.5 AND crc_check_chance = 0.25d",
];

struct Random(Generator);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound as u64) as usize
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// Returns a random type as a statement writes it. Most types are small; some have the maximum
    /// depth, or more.
    fn type_name(&mut self) -> String {
        let depth = if self.one_in(12) { 20 + self.below(35) } else { self.below(4) };
        let inner = if !self.one_in(3) {
            self.pick(&LEAVES).to_string()
        } else {
            let name = self.pick(&TYPES);
            if self.one_in(8) { name.to_string() } else { format!("frozen<{name}>") }
        };
        let wrapped = (0..depth).fold(inner, |inner, _| match self.below(7) {
            0 => format!("list<{inner}>"),
            1 => format!("set<{inner}>"),
            2 => format!("map<text, {inner}>"),
            3 => format!("map<{inner}, int>"),
            4 => format!("tuple<int, {inner}>"),
            5 => {
                let dimension = if self.one_in(8) { 1 << 28 } else { 1 + self.below(3) };
                format!("vector<{inner}, {dimension}>")
            }
            _ => format!("frozen<list<{inner}>>"),
        });
        let is_generic = depth > 0 && !wrapped.starts_with("vector");
        let is_frozen = is_generic && !self.one_in(if depth > 1 { 10 } else { 3 });
        if is_frozen { format!("frozen<{wrapped}>") } else { wrapped }
    }

    fn columns(&mut self, most: usize) -> Vec<(String, String)> {
        let count = 1 + self.below(most);
        let mut names: Vec<&str> = NAMES.to_vec();
        (0..count)
            .map(|_| {
                let name = names.remove(self.below(names.len()));
                (name.to_string(), self.type_name())
            })
            .collect()
    }

    fn create_table(&mut self, name: &str) -> String {
        let columns = self.columns(6);
        let mut text = format!("CREATE TABLE {name} (k int");
        for (index, (column, column_type)) in columns.iter().enumerate() {
            let is_static = if index > 1 && self.one_in(6) { " static" } else { "" };
            let _ = write!(text, ", {column} {column_type}{is_static}");
        }
        let first = &columns[0].0;
        let _ = match self.below(4) {
            0 => write!(text, ", PRIMARY KEY (k))"),
            1 => write!(text, ", PRIMARY KEY ((k, {first})))"),
            2 => write!(text, ", PRIMARY KEY (k, {first}))"),
            _ => {
                write!(text, ", PRIMARY KEY (k, {first})) WITH CLUSTERING ORDER BY ({first} DESC)")
            }
        };
        if self.one_in(2) {
            let keyword = if text.ends_with("DESC)") { "AND" } else { "WITH" };
            let _ = write!(text, " {keyword} {}", self.pick(&OPTIONS));
        }
        text
    }

    fn statement(&mut self) -> String {
        let keyspace = if self.one_in(4) { KEYSPACES[1] } else { KEYSPACES[0] };
        let mut qualified = |names: &[&str]| format!("{keyspace}.{}", self.pick(names));
        let (user_type, table) = (qualified(&TYPES), qualified(&TABLES));
        match self.below(20) {
            0..5 => {
                let fields = self.columns(4);
                let fields: Vec<String> =
                    fields.iter().map(|(name, field)| format!("{name} {field}")).collect();
                format!("CREATE TYPE {user_type} ({})", fields.join(", "))
            }
            5..8 => {
                format!("ALTER TYPE {user_type} ADD {} {}", self.pick(&NAMES), self.type_name())
            }
            8 => format!(
                "ALTER TYPE {user_type} RENAME {} TO {}",
                self.pick(&NAMES),
                self.pick(&NAMES)
            ),
            9 => format!("DROP TYPE {user_type}"),
            10..14 => self.create_table(&table),
            14..16 => format!("ALTER TABLE {table} ADD {} {}", self.pick(&NAMES), self.type_name()),
            16 => format!("ALTER TABLE {table} DROP {}", self.pick(&NAMES)),
            17 => {
                format!("ALTER TABLE {table} RENAME {} TO {}", self.pick(&NAMES), self.pick(&NAMES))
            }
            18 => format!("ALTER TABLE {table} WITH {}", self.pick(&OPTIONS)),
            _ if self.one_in(8) => format!("DROP KEYSPACE {keyspace}"),
            _ if self.one_in(2) => format!("DROP TABLE {table}"),
            _ => create_keyspace(keyspace),
        }
    }
}

fn create_keyspace(name: &str) -> String {
    format!(
        "CREATE KEYSPACE IF NOT EXISTS {name} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    )
}

async fn run(processor: &QueryProcessor, text: &str) -> Result<QueryResult, String> {
    let mut client = ClientState::default();
    let result = processor.query(text, &mut client, &QueryOptions::default()).await;
    result.map_err(|error| format!("{:?}: {}", error.code, error.message))
}

/// Returns the keyspaces of users, without the times of drops, of which the schema tables keep only
/// milliseconds.
fn schema_of(database: &Node, with_dropped: bool) -> String {
    let schema = database.store().schema();
    let mut text = String::new();
    let keyspaces = schema.keyspaces.values().filter(|keyspace| !keyspace.name.starts_with("sys"));
    for keyspace in keyspaces {
        let KeyspaceMetadata { name, replication, types, tables, .. } = &**keyspace;
        let _ = writeln!(text, "{name} {replication:?}");
        for definition in types.values() {
            let _ = writeln!(text, "  {definition:?}");
        }
        for table in tables.values() {
            let _ = writeln!(text, "  {} {:?}", table.name, table.options);
            for column in table.columns() {
                // Each start assigns new ids.
                let (name, kind, position) = (&column.name, column.kind, column.position);
                let (column_type, reversed) = (&column.column_type, column.reversed);
                let _ = writeln!(text, "    {name} {kind:?} {position} {column_type:?} {reversed}");
            }
            for dropped in table.dropped_columns.values().filter(|_| with_dropped) {
                let DroppedColumn { name, column_type, kind, .. } = dropped;
                let _ = writeln!(text, "    {name} {column_type:?} {kind:?}");
            }
        }
    }
    text
}

/// Returns a literal of a type, if the type has a short one.
fn literal(column_type: &CqlType) -> Option<String> {
    Some(match column_type {
        CqlType::List { element, .. } => format!("[{}]", literal(element)?),
        CqlType::Set { element, .. } => format!("{{{}}}", literal(element)?),
        CqlType::Map { key, value, .. } => format!("{{{}: {}}}", literal(key)?, literal(value)?),
        CqlType::Tuple(parts) => {
            let parts: Option<Vec<String>> = parts.iter().map(literal).collect();
            format!("({})", parts?.join(", "))
        }
        CqlType::Vector { element, dimension } if *dimension <= 3 => {
            format!("[{}]", vec![literal(element)?; *dimension].join(", "))
        }
        CqlType::UserDefined { definition, .. } => {
            let (name, field) = definition.fields.first()?;
            format!("{{{}: {}}}", quote_if_needed(name), literal(field)?)
        }
        CqlType::Int | CqlType::Bigint | CqlType::Varint | CqlType::Double => "1".into(),
        CqlType::Smallint | CqlType::Tinyint | CqlType::Float | CqlType::Decimal => "1".into(),
        CqlType::Text | CqlType::Ascii => "'x'".into(),
        CqlType::Blob => "0x01".into(),
        CqlType::Boolean => "true".into(),
        CqlType::Duration => "1d".into(),
        _ => return None,
    })
}

/// Returns an INSERT with the columns that have a literal, if all key columns have one.
fn insert(table: &TableMetadata) -> Option<String> {
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for column in table.columns().iter().filter(|column| !column.column_type.is_counter()) {
        match literal(&column.column_type) {
            Some(value) => {
                names.push(quote_if_needed(&column.name).into_owned());
                values.push(value);
            }
            None if column.is_primary_key() => return None,
            None => {}
        }
    }
    let keyspace = quote_if_needed(&table.keyspace);
    let (names, values) = (names.join(", "), values.join(", "));
    let name = quote_if_needed(&table.name);
    Some(format!("INSERT INTO {keyspace}.{name} ({names}) VALUES ({values})"))
}

/// Inserts a row into each table, and returns the number of rows. The node may refuse large values,
/// and refuses an INSERT into a table of counters.
async fn insert_rows(database: &Node, processor: &QueryProcessor) -> usize {
    let schema = database.store().schema();
    let tables = schema.tables().filter(|table| !table.keyspace.starts_with("sys"));
    let mut written = 0;
    for statement in tables.filter_map(|table| insert(table)) {
        written += usize::from(run(processor, &statement).await.is_ok());
    }
    written
}

async fn flush(database: &Node) {
    let schema = database.store().schema();
    for keyspace in schema
        .keyspaces
        .keys()
        .filter(|name| name.as_str() == "system_schema" || !name.starts_with("sys"))
    {
        database.flush(keyspace, None).await.unwrap();
    }
}

async fn count_rows(database: &Node, processor: &QueryProcessor) -> Vec<i32> {
    let schema = database.store().schema();
    let mut counts = Vec::new();
    for table in schema.tables().filter(|table| !table.keyspace.starts_with("sys")) {
        let (keyspace, name) = (quote_if_needed(&table.keyspace), quote_if_needed(&table.name));
        match run(processor, &format!("SELECT * FROM {keyspace}.{name}")).await.unwrap() {
            QueryResult::Rows(rows) => counts.push(rows.row_count),
            other => panic!("{other:?}"),
        }
    }
    counts
}

/// Returns the statements of DESCRIBE SCHEMA as one text.
async fn describe(processor: &QueryProcessor) -> String {
    let QueryResult::Rows(rows) = run(processor, "DESCRIBE SCHEMA").await.unwrap() else {
        panic!("DESCRIBE returns rows");
    };
    assert!(rows.paging_state.is_none());
    let column = rows.metadata.columns.iter().position(|c| &*c.name == "create_statement");
    let (column, width) = (column.unwrap(), rows.metadata.columns.len());
    let (mut rest, mut text) = (rows.content.as_slice(), String::new());
    for index in 0..rows.row_count as usize * width {
        let (length, tail) = rest.split_at(4);
        let (value, tail) = tail.split_at(i32::from_be_bytes(length.try_into().unwrap()) as usize);
        rest = tail;
        if index % width == column {
            text.push_str(std::str::from_utf8(value).unwrap());
            text.push('\n');
        }
    }
    text
}

#[derive(Default)]
struct Counts {
    accepted: usize,
    refused: usize,
    rows: usize,
}

/// Creates a random schema. Returns it with the number of rows of each table.
async fn make(seed: u64, file_system: &FileSystem, counts: &mut Counts) -> (String, Vec<i32>) {
    let mut random = Random(Generator::from_seed(seed));
    let (database, processor) = open(file_system).await;
    for keyspace in KEYSPACES {
        run(&processor, &create_keyspace(keyspace)).await.unwrap();
        for name in &TYPES[1..] {
            run(&processor, &format!("CREATE TYPE {keyspace}.{name} (z int)")).await.unwrap();
        }
    }
    for _ in 0..100 {
        let statement = random.statement();
        match run(&processor, &statement).await {
            Ok(_) => counts.accepted += 1,
            Err(reason) => {
                assert!(!reason.starts_with("ServerError"), "seed {seed}: {statement}: {reason}");
                counts.refused += 1;
            }
        }
        if random.one_in(30) {
            counts.rows += insert_rows(&database, &processor).await;
        }
    }
    counts.rows += insert_rows(&database, &processor).await;
    (schema_of(&database, true), count_rows(&database, &processor).await)
}

fn check(seed: u64, counts: &mut Counts) {
    let file_system = FileSystem::simulated(seed);
    let before = block_on(make(seed, &file_system, counts));
    // The first restart reads everything from the commit log, the second from SSTables.
    for kind in ["replayed", "flushed"] {
        block_on(async {
            let (database, processor) = open(&file_system).await;
            let found = (schema_of(&database, true), count_rows(&database, &processor).await);
            assert_eq!(found, before, "seed {seed}: {kind}");
            flush(&database).await;
            database.shutdown().await.unwrap();
        });
    }
    let (expected, described) = block_on(async {
        let (database, processor) = open(&file_system).await;
        (schema_of(&database, false), describe(&processor).await)
    });
    block_on(async {
        let (database, processor) = open(&FileSystem::simulated(seed)).await;
        for statement in grammar::split_statements(&described) {
            let outcome = run(&processor, statement).await;
            assert!(outcome.is_ok(), "seed {seed}: {statement}\n{outcome:?}");
        }
        assert_eq!(expected, schema_of(&database, false), "seed {seed}: described");
    });
}

#[test]
fn accepted_schemas_survive_restarts_and_descriptions() {
    let seeds = espalier_testing::seeds(60);
    println!("seeds {seeds:?}");
    let cases = (seeds.end - seeds.start) as usize;
    let mut counts = Counts::default();
    for seed in seeds {
        check(seed, &mut counts);
    }
    let Counts { accepted, refused, rows } = counts;
    println!("{accepted} statements accepted, {refused} refused, {rows} rows written");
    assert!(accepted >= 10 * cases && rows >= cases, "{accepted} statements, {rows} rows");
}
