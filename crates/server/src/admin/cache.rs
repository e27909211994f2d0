//! Explains as JSON which part of a partition the row cache holds.

use std::rc::Rc;

use espalier_mutation::{
    BoundKind, ClusteringBound, DecoratedKey, build_composite, schema::TableMetadata,
};
use espalier_storage::{CacheExplanation, ContinuousPartition, ExplainedRange, system::is_virtual};
use espalier_types::literal::{from_text, to_json};
use serde::Serialize;
use serde_json::{to_vec, value::RawValue};

use super::http::{Answer, HttpRequest, HttpResponse};
use crate::shard::ShardServer;

/// Answers `GET /cache_service/row_cache/explain/KEYSPACE?cf=TABLE&key=KEY`.
pub(super) async fn explain(
    server: &Rc<ShardServer>,
    keyspace: &str,
    request: &HttpRequest,
) -> Answer {
    let (Some(name), Some(text)) = (request.parameter("cf"), request.parameter("key")) else {
        return Err("This needs ?cf=TABLE&key=KEY".into());
    };
    let database = server.processor.database();
    let schema = database.store().schema();
    let Some(table) = schema.table(keyspace, name) else {
        return Err(format!("Column family '{keyspace}:{name}' not found").into());
    };
    if is_virtual(keyspace) {
        return Err(format!("{keyspace}.{name} is a virtual table: it is never cached").into());
    }
    match database.explain_cached(table, parse_key(table, text)?).await {
        Ok(explanation) => Ok(HttpResponse::written(render(table, &explanation))),
        Err(error) => Err(HttpResponse::error(500, &error.to_string())),
    }
}

/// Parses a partition key as nodetool takes it: the values of its columns, separated by colons.
fn parse_key(table: &TableMetadata, text: &str) -> Result<DecoratedKey, String> {
    let columns = table.partition_key_columns();
    let values: Vec<&str> = match columns.len() {
        1 => vec![text],
        _ => text.split(':').collect(),
    };
    if values.len() != columns.len() {
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        return Err(format!("The key needs {}, with colons between", names.join(", ")));
    }
    let values = columns.iter().zip(values).map(|(column, text)| {
        from_text(&column.column_type, text).map_err(|error| format!("{}: {error}", column.name))
    });
    let values: Vec<_> = values.collect::<Result<_, _>>()?;
    // The value of a key of one column must not be empty. A value of a longer key may be.
    if let ([value], [column]) = (values.as_slice(), columns)
        && value.is_empty()
    {
        let (name, type_name) = (&column.name, column.column_type.cql_name());
        return Err(format!(
            "The key is empty, and no partition has such a key: this needs key=VALUE, with the {type_name} that {name} is"
        ));
    }
    Ok(DecoratedKey::new(match values.as_slice() {
        [one] => one.clone(),
        several => build_composite(several),
    }))
}

/// The body of the answer.
#[derive(Serialize)]
struct Explained {
    state: &'static str,
    why: &'static str,
    #[serde(flatten)]
    cached: Option<Cached>,
}

/// The cached part of the partition.
#[derive(Serialize)]
struct Cached {
    rows: u64,
    row_bytes: u64,
    static_row: bool,
    ranges: Vec<CachedRange>,
    more_ranges: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted_at: Option<i64>,
}

/// A continuous range; a bound is `null` where the partition begins or ends.
#[derive(Serialize)]
struct CachedRange {
    from: Option<Bound>,
    to: Option<Bound>,
    rows: u64,
}

/// A bound. Bounds are in clustering order, in which a descending column begins with its highest
/// value.
#[derive(Serialize)]
struct Bound {
    /// The values, each as `SELECT JSON` prints it.
    values: Vec<Option<Box<RawValue>>>,
    inclusive: bool,
}

fn render(table: &TableMetadata, explanation: &CacheExplanation) -> serde_json::Result<Vec<u8>> {
    let (state, why) = match explanation {
        CacheExplanation::NodeIsOff => ("off", "the row cache is off (setting enable_cache)"),
        CacheExplanation::TableIsOff => ("off", "the table's caching has 'enabled': 'false'"),
        CacheExplanation::Unknown => (
            "unknown",
            "the partition was not read since the start, or since it was evicted or dropped: the next read goes to the SSTables",
        ),
        CacheExplanation::Known(known) if is_whole(known) => {
            ("complete", "all of it is cached: no read goes to the SSTables")
        }
        CacheExplanation::Known(_) => {
            ("partial", "reads go to the SSTables for rows between, before and after the ranges")
        }
    };
    let cached = match explanation {
        CacheExplanation::Known(known) => Some(cached(table, known)?),
        _ => None,
    };
    to_vec(&Explained { state, why, cached })
}

fn cached(table: &TableMetadata, known: &ContinuousPartition) -> serde_json::Result<Cached> {
    let ranges = known.ranges.iter().map(|range| cached_range(table, range));
    let deletion = &known.deletion;
    Ok(Cached {
        rows: known.rows,
        row_bytes: known.row_bytes,
        static_row: known.has_static_row,
        ranges: ranges.collect::<Result<_, _>>()?,
        more_ranges: known.unreported_ranges,
        deleted_at: (!deletion.is_live()).then_some(deletion.marked_for_delete_at),
    })
}

fn is_whole(known: &ContinuousPartition) -> bool {
    matches!(
        known.ranges.as_slice(),
        [one] if one.start.is_unbounded() && one.end.is_unbounded() && known.unreported_ranges == 0
    )
}

fn cached_range(table: &TableMetadata, range: &ExplainedRange) -> serde_json::Result<CachedRange> {
    let (from, to) = (cached_bound(table, &range.start)?, cached_bound(table, &range.end)?);
    Ok(CachedRange { from, to, rows: range.rows })
}

fn cached_bound(
    table: &TableMetadata,
    bound: &ClusteringBound,
) -> serde_json::Result<Option<Bound>> {
    if bound.is_unbounded() {
        return Ok(None);
    }
    let columns = table.clustering_columns().iter().zip(&bound.values);
    let values = columns.map(|(column, value)| {
        let value = value.as_ref().map(|value| to_json(&column.column_type, value));
        value.map(RawValue::from_string).transpose()
    });
    let inclusive = matches!(bound.kind, BoundKind::InclusiveStart | BoundKind::InclusiveEnd);
    Ok(Some(Bound { values: values.collect::<Result<_, _>>()?, inclusive }))
}
