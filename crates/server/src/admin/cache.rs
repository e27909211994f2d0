//! Explains as JSON which part of a partition the row cache holds.

use std::rc::Rc;

use espalier_mutation::{
    BoundKind, ClusteringBound, DecoratedKey, build_composite, schema::TableMetadata,
};
use espalier_storage::{CacheExplanation, ContinuousPartition, ExplainedRange, system::is_virtual};
use espalier_types::literal::{from_text, to_json};

use super::http::{HttpRequest, HttpResponse, json_list, json_string};
use crate::shard::ShardServer;

/// Answers `GET /cache_service/row_cache/explain/KEYSPACE?cf=TABLE&key=KEY`.
pub(super) async fn explain(
    server: &Rc<ShardServer>,
    keyspace: &str,
    request: &HttpRequest,
) -> HttpResponse {
    let (Some(name), Some(text)) = (request.parameter("cf"), request.parameter("key")) else {
        return HttpResponse::error(400, "This needs ?cf=TABLE&key=KEY");
    };
    let database = server.processor.database();
    let schema = database.schema();
    let Some(table) = schema.table(keyspace, name) else {
        return HttpResponse::error(400, &format!("Column family '{keyspace}:{name}' not found"));
    };
    if is_virtual(keyspace) {
        let reason = format!("{keyspace}.{name} is a virtual table: it is never cached");
        return HttpResponse::error(400, &reason);
    }
    let key = match parse_key(table, text) {
        Ok(key) => key,
        Err(reason) => return HttpResponse::error(400, &reason),
    };
    match database.explain_cached(table, key).await {
        Ok(explanation) => HttpResponse::json(render(table, &explanation)),
        Err(error) => HttpResponse::error(500, &error.to_string()),
    }
}

/// Parses a partition key as nodetool takes it: the values of its columns with colons between.
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
    // One of several values may be empty.
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

fn render(table: &TableMetadata, explanation: &CacheExplanation) -> String {
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
    let mut text = format!("{{\"state\": {}, \"why\": {}", json_string(state), json_string(why));
    if let CacheExplanation::Known(known) = explanation {
        let ranges = known.ranges.iter().map(|range| render_range(table, range));
        text += &format!(
            ", \"rows\": {}, \"row_bytes\": {}, \"static_row\": {}, \"ranges\": {}, \"more_ranges\": {}",
            known.rows,
            known.row_bytes,
            known.has_static_row,
            json_list(ranges),
            known.unreported_ranges
        );
        if !known.deletion.is_live() {
            text += &format!(", \"deleted_at\": {}", known.deletion.marked_for_delete_at);
        }
    }
    text + "}"
}

fn is_whole(known: &ContinuousPartition) -> bool {
    matches!(
        known.ranges.as_slice(),
        [one] if one.start.is_unbounded() && one.end.is_unbounded() && known.unreported_ranges == 0
    )
}

fn render_range(table: &TableMetadata, range: &ExplainedRange) -> String {
    let (start, end) = (render_bound(table, &range.start), render_bound(table, &range.end));
    format!("{{\"from\": {start}, \"to\": {end}, \"rows\": {}}}", range.rows)
}

/// Returns a bound as JSON: `null` where the partition begins or ends. Bounds are in clustering
/// order, in which a descending column begins with its highest value.
fn render_bound(table: &TableMetadata, bound: &ClusteringBound) -> String {
    if bound.is_unbounded() {
        return "null".to_owned();
    }
    let columns = table.clustering_columns().iter().zip(&bound.values);
    let values = columns.map(|(column, value)| match value {
        Some(value) => to_json(&column.column_type, value),
        None => "null".to_owned(),
    });
    let is_inclusive = matches!(bound.kind, BoundKind::InclusiveStart | BoundKind::InclusiveEnd);
    format!("{{\"values\": {}, \"inclusive\": {is_inclusive}}}", json_list(values))
}
