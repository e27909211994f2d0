//! `system_traces`: the traces of requests. Rows expire after their TTL.
//!
//! The partition key of all rows of a trace is the trace's id, so one shard owns all of them.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    Clustering, DecoratedKey, PartitionUpdate, Row,
    schema::{Schema, TableMetadata},
};
use espalier_runtime::{random, time, trace::TraceEvent};
use uuid::Uuid;

use super::{local::address, row::RowWriter};

/// Keyspace of the traces.
pub const TRACES_KEYSPACE: &str = "system_traces";

/// Time from 1582-10-15, where timeuuids start, to 1970, in units of 100 ns.
const GREGORIAN_OFFSET_TICKS: u64 = 0x01B2_1DD2_1381_4000;
const TICKS_PER_US: u64 = 10;

/// The content of a row of `sessions`.
#[derive(Clone, Debug)]
pub struct TraceSession<'a> {
    /// Address of the client.
    pub client: IpAddr,
    /// Kind of the request in Cassandra's words: `Execute CQL3 query`.
    pub request: &'a str,
    /// The statement and its options.
    pub parameters: &'a [(String, String)],
    /// Duration of the request in µs.
    pub duration_us: u64,
}

/// Builds the rows of one trace.
pub struct TraceWriter {
    sessions: Arc<TableMetadata>,
    events: Arc<TableMetadata>,
    id: Uuid,
    started_at_us: i64,
    coordinator: IpAddr,
    port: u16,
    ttl_s: u32,
    timestamp_us: i64,
    now_s: u32,
    /// Ticks (100 ns since 1582-10-15) of the last event. Each event has greater ticks than the
    /// event before.
    ticks: u64,
}

impl TraceWriter {
    /// Starts the trace `id` of a request that started at `started_at_us`. Its rows live for
    /// `ttl_s` seconds. The coordinator is this node, at the address that clients use. Returns
    /// `None` if the schema has no tables for traces.
    pub fn new(
        schema: &Schema,
        id: Uuid,
        started_at_us: i64,
        (coordinator, port): (IpAddr, u16),
        ttl_s: u32,
    ) -> Option<Self> {
        Some(Self {
            sessions: schema.table(TRACES_KEYSPACE, "sessions")?.clone(),
            events: schema.table(TRACES_KEYSPACE, "events")?.clone(),
            id,
            started_at_us,
            coordinator,
            port,
            ttl_s,
            timestamp_us: time::next_timestamp_micros(),
            now_s: u32::try_from(time::now_seconds()).unwrap_or(0),
            ticks: 0,
        })
    }

    /// Returns the row of `sessions`. Clients take a trace with this row as complete, so it is
    /// written last.
    pub fn session(&self, session: &TraceSession<'_>) -> PartitionUpdate {
        let bytes = |text: &String| Bytes::copy_from_slice(text.as_bytes());
        // If a name has several values, the first one counts.
        let parameters = session.parameters.iter().rev();
        let parameters: BTreeMap<Bytes, Bytes> =
            parameters.map(|(name, value)| (bytes(name), bytes(value))).collect();
        let row = self
            .row(&self.sessions, Clustering::empty())
            .bytes("client", address(session.client))
            .text("command", "QUERY")
            .bytes("coordinator", address(self.coordinator))
            .int("coordinator_port", self.port.into())
            .int("duration", int(session.duration_us))
            .text("request", session.request)
            .timestamp("started_at", self.started_at_us.div_euclid(1000))
            .map_cells("parameters", parameters);
        self.update(&self.sessions, vec![row.finish()])
    }

    /// Returns rows of `events`, ordered by time. Later calls must bring later events.
    pub fn events(&mut self, events: &[TraceEvent<'_>]) -> PartitionUpdate {
        let rows = events.iter().map(|event| self.event(*event)).collect();
        self.update(&self.events, rows)
    }

    fn event(&mut self, event: TraceEvent<'_>) -> Row {
        let began_us = u64::try_from(self.started_at_us).unwrap_or(0);
        let at = began_us.saturating_add(event.elapsed_us).saturating_mul(TICKS_PER_US);
        self.ticks = at.saturating_add(GREGORIAN_OFFSET_TICKS).max(self.ticks + 1);
        let id = random::timeuuid_from(self.ticks, random::clock_sequence_and_node());
        let clustering = Clustering::new([Bytes::copy_from_slice(id.as_bytes())]);
        self.row(&self.events, clustering)
            .text("activity", event.text)
            .bytes("source", address(self.coordinator))
            .int("source_elapsed", int(event.elapsed_us))
            .int("source_port", self.port.into())
            .text("thread", &format!("shard {}", event.shard))
            .finish()
    }

    fn row<'a>(&self, table: &'a TableMetadata, clustering: Clustering) -> RowWriter<'a> {
        RowWriter::at(table, clustering, self.timestamp_us).expiring(self.ttl_s, self.now_s)
    }

    fn update(&self, table: &TableMetadata, rows: Vec<Row>) -> PartitionUpdate {
        let key = DecoratedKey::new(Bytes::copy_from_slice(self.id.as_bytes()));
        PartitionUpdate { rows, ..PartitionUpdate::new(table.id, key) }
    }
}

/// Converts a number to an int; a larger one becomes the maximum.
fn int(number: u64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use espalier_mutation::ColumnData;

    use super::*;
    use crate::system::keyspaces;

    fn writer(started_at_us: i64, ttl_s: u32) -> TraceWriter {
        let schema = schema();
        let node = (IpAddr::V4(Ipv4Addr::LOCALHOST), 9042);
        TraceWriter::new(&schema, Uuid::nil(), started_at_us, node, ttl_s).unwrap()
    }

    fn schema() -> Schema {
        let keyspaces = keyspaces().into_iter();
        let keyspaces = keyspaces.map(|keyspace| (keyspace.name.clone(), Arc::new(keyspace)));
        Schema::new(keyspaces.collect(), Uuid::nil())
    }

    #[test]
    fn events_have_ids_that_ascend_also_within_a_microsecond() {
        let mut writer = writer(1_700_000_000_000_000, 60);
        let event = |elapsed_us| TraceEvent { elapsed_us, shard: 1, text: "something" };
        let first = writer.events(&[0, 0, 5].map(event));
        let second = writer.events(&[5, 6].map(event));
        let rows = || first.rows.iter().chain(&second.rows);
        let ids: Vec<Uuid> = rows()
            .map(|row| Uuid::from_slice(row.clustering.values[0].as_ref().unwrap()).unwrap())
            .collect();
        let ticks: Vec<u64> =
            ids.iter().map(|id| id.get_timestamp().unwrap().to_gregorian().0).collect();
        assert!(ticks.is_sorted_by(|left, right| left < right), "{ticks:?}");
        assert_eq!(ids[0].get_timestamp().unwrap().to_unix().0, 1_700_000_000);
        assert!(rows().all(|row| row.liveness.ttl == 60 && row.columns.len() == 5));
    }

    #[test]
    fn parameters_are_sorted_and_expire() {
        let writer = writer(0, 7);
        let parameters = [("query", "SELECT"), ("page_size", "10")];
        let parameters = parameters.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let update = writer.session(&TraceSession {
            client: IpAddr::V4(Ipv4Addr::LOCALHOST),
            request: "Execute CQL3 query",
            parameters: &parameters,
            duration_us: u64::MAX,
        });
        let row = &update.rows[0];
        let schema = schema();
        let table = schema.table(TRACES_KEYSPACE, "sessions").unwrap();
        let column = table.column("parameters").unwrap().id;
        let Some(ColumnData::Complex(map)) = row.column(column) else { panic!() };
        let keys: Vec<&[u8]> = map.cells.iter().map(|(key, _)| &key[..]).collect();
        assert_eq!(keys, [&b"page_size"[..], b"query"]);
        assert!(map.cells.iter().all(|(_, cell)| cell.ttl == 7));
        assert_eq!(row.columns.len(), table.regular_columns().len());
    }
}
