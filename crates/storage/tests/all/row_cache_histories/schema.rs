//! Random tables: keys, clusterings, columns of any type, counters, and options.

use std::sync::Arc;

use espalier_mutation::schema::{ColumnKind, TableBuilder, TableId, TableMetadata};
use espalier_runtime::random::Generator;
use espalier_types::{CqlType, UserType};
use uuid::Uuid;

const SIMPLE: [CqlType; 19] = [
    CqlType::Int,
    CqlType::Bigint,
    CqlType::Varint,
    CqlType::Text,
    CqlType::Blob,
    CqlType::Boolean,
    CqlType::Decimal,
    CqlType::Timeuuid,
    CqlType::Uuid,
    CqlType::Ascii,
    CqlType::Date,
    CqlType::Double,
    CqlType::Float,
    CqlType::Inet,
    CqlType::Smallint,
    CqlType::Tinyint,
    CqlType::Time,
    CqlType::Timestamp,
    // Has no order, so it is for values only.
    CqlType::Duration,
];

fn one_of<T: Clone>(random: &mut Generator, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize].clone()
}

fn ordered(random: &mut Generator) -> CqlType {
    one_of(random, &SIMPLE[..SIMPLE.len() - 1])
}

fn nested(random: &mut Generator, frozen: bool) -> CqlType {
    let first = Arc::new(ordered(random));
    let second = Arc::new(ordered(random));
    match random.below(if frozen { 6 } else { 4 }) {
        0 => CqlType::List { element: first, frozen },
        1 => CqlType::Set { element: first, frozen },
        2 => CqlType::Map { key: first, value: second, frozen },
        3 => {
            let set = CqlType::Set { element: second, frozen: true };
            let fields = vec![
                ("a".into(), (*first).clone()),
                ("b".into(), CqlType::Text),
                ("c".into(), set),
            ];
            let definition = UserType { keyspace: "ks".into(), name: "udt".into(), fields };
            CqlType::UserDefined { definition: Arc::new(definition), frozen }
        }
        4 => CqlType::Tuple([(*first).clone(), (*second).clone()].into()),
        _ => CqlType::Vector { element: Arc::new(CqlType::Float), dimension: 3 },
    }
}

/// Returns a key type, which is frozen.
fn of_key(random: &mut Generator) -> CqlType {
    match random.below(8) {
        0 => nested(random, true),
        _ => ordered(random),
    }
}

pub(super) fn of_value(random: &mut Generator) -> CqlType {
    match random.below(4) {
        0 => nested(random, true),
        1 => nested(random, false),
        _ => one_of(random, &SIMPLE),
    }
}

const STRATEGIES: [&str; 4] = [
    "SizeTieredCompactionStrategy",
    "LeveledCompactionStrategy",
    "TimeWindowCompactionStrategy",
    "UnifiedCompactionStrategy",
];

/// Builds a table `random`. If it `purges`, tombstones may be purged at once.
pub(super) fn table(random: &mut Generator, purges: bool) -> TableMetadata {
    let mut table = TableBuilder::new("ks", "random", TableId(Uuid::from_u128(0xb1)));
    for index in 0..1 + random.below(2) {
        table = table.partition_key(&format!("k{index}"), of_key(random));
    }
    let clusterings = random.below(4);
    for index in 0..clusterings {
        table = table.clustering(&format!("c{index}"), of_key(random), random.below(2) == 0);
    }
    let is_counter = random.below(6) == 0;
    let column =
        |random: &mut Generator| if is_counter { CqlType::Counter } else { of_value(random) };
    if clusterings > 0 {
        for index in 0..random.below(3) {
            table = table.static_column(&format!("s{index}"), column(random));
        }
    }
    // Some tables have only key columns.
    for index in 0..u64::from(is_counter) + random.below(5) {
        table = table.regular(&format!("v{index}"), column(random));
    }
    let mut table = table.build();
    let options = &mut table.options;
    options.gc_grace_seconds = if purges { 0 } else { i32::MAX as u32 };
    if !is_counter && random.below(4) == 0 {
        options.default_time_to_live = 20_000;
    }
    let strategy = one_of(random, &STRATEGIES);
    options.compaction = [("class".into(), strategy.into())].into();
    if random.below(2) == 0 {
        options.compression.clear();
    }
    table
}

/// Makes a change that ALTER TABLE may make: a new version of the table with the same columns, with
/// one more column (a new one, or one that was dropped before), or with one fewer. The writes to a
/// dropped column are gone, because they are not newer than `dropped_us`.
pub(super) fn altered(
    random: &mut Generator,
    table: &TableMetadata,
    dropped_us: i64,
) -> TableMetadata {
    let builder = table.rebuild();
    if table.is_counter() {
        return builder.build();
    }
    let columns = table.static_columns().iter().chain(table.regular_columns());
    let names: Vec<_> = columns.map(|column| column.name.clone()).collect();
    match random.below(4) {
        0 => builder.build(),
        1 if !names.is_empty() => builder.drop_column(&one_of(random, &names), dropped_us).build(),
        2 => {
            let gone = table.dropped_columns.values().filter(|gone| !names.contains(&gone.name));
            match gone.min_by_key(|gone| gone.dropped_time_us) {
                Some(gone) if gone.kind == ColumnKind::Static => {
                    builder.static_column(&gone.name, gone.column_type.clone()).build()
                }
                Some(gone) => builder.regular(&gone.name, gone.column_type.clone()).build(),
                None => builder.build(),
            }
        }
        // The new name sorts before or behind the others.
        _ => {
            let name = format!("{}{}", one_of(random, &["a", "w"]), table.version);
            if table.clustering_columns().is_empty() || random.below(3) > 0 {
                builder.regular(&name, of_value(random)).build()
            } else {
                builder.static_column(&name, of_value(random)).build()
            }
        }
    }
}

/// Describes a table in one line, for the message about a failed seed.
pub(super) fn describe(table: &TableMetadata) -> String {
    let columns = table.columns().iter().map(|column| {
        let order = if column.reversed { " desc" } else { "" };
        format!("{} {:?} {:?}{order}", column.name, column.kind, column.column_type)
    });
    let options = &table.options;
    let class = &options.compaction["class"];
    let columns = columns.collect::<Vec<_>>().join(", ");
    let (ttl, grace) = (options.default_time_to_live, options.gc_grace_seconds);
    format!("({columns}) {class} gc_grace {grace} ttl {ttl}")
}
