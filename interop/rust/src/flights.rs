//! Runs the flights test through the `scylla` driver, which knows shards.
//!
//! Usage: `espalier-interop-rust flights HOST PORT SHARDS FLIGHTS.csv`. It writes the rows of a CSV
//! (carrier, origin, month, day, flight, dest, distance), reads them back in every way that the
//! table allows, and panics if an answer differs from the rows in memory. It prints one line for
//! each feature that works; test_drivers.py reads these lines.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt};
use scylla::client::Compression;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::response::PagingState;
use scylla::statement::batch::{Batch, BatchType};

use crate::Outcome;

type Flight = (String, String, i8, i8, i32, String, f64);
type Key = (String, String, i8);

const CONCURRENCY: usize = 64;
const WHERE_KEY: &str = "carrier = ? AND origin = ? AND month = ?";

/// Runs the test at `HOST:PORT` with the further arguments.
pub async fn run(address: &str, arguments: &[String]) -> Outcome<()> {
    let [shards, file] = arguments else { panic!("SHARDS FLIGHTS.csv") };
    let flights = Flights::read(file)?;
    for compression in [None, Some(Compression::Lz4), Some(Compression::Snappy)] {
        let session =
            SessionBuilder::new().known_node(address).compression(compression).build().await?;
        shards_are_known(&session, shards.parse()?)?;
        let table = format!(
            "rust.flights_{}",
            compression.map_or("plain".to_owned(), |c| format!("{c:?}").to_lowercase())
        );
        create(&session, &table).await?;
        let driver = Driver { session, table, flights: &flights };
        driver.write().await?;
        driver.points().await?;
        driver.slices().await?;
        driver.pages().await?;
        driver.tokens().await?;
        driver.aggregates().await?;
        driver.batches().await?;
        println!("ok: {} rows, compression {compression:?}", flights.rows.len());
    }
    Ok(())
}

/// The rows in memory, by partition and in clustering order (day up, flight down).
struct Flights {
    rows: Vec<Flight>,
    partitions: BTreeMap<Key, Vec<Flight>>,
}

impl Flights {
    fn read(file: &str) -> Outcome<Self> {
        let mut rows = Vec::new();
        for line in std::fs::read_to_string(file)?.lines() {
            let fields: Vec<&str> = line.split(',').collect();
            let [carrier, origin, month, day, flight, dest, distance] = fields[..] else {
                panic!("{line}")
            };
            rows.push((
                carrier.to_owned(),
                origin.to_owned(),
                month.parse()?,
                day.parse()?,
                flight.parse()?,
                dest.to_owned(),
                distance.parse()?,
            ));
        }
        let mut partitions: BTreeMap<Key, Vec<Flight>> = BTreeMap::new();
        for row in &rows {
            partitions.entry((row.0.clone(), row.1.clone(), row.2)).or_default().push(row.clone());
        }
        for rows in partitions.values_mut() {
            rows.sort_by_key(|row| (row.3, -row.4));
        }
        Ok(Self { rows, partitions })
    }

    fn largest(&self) -> (&Key, &Vec<Flight>) {
        self.partitions.iter().max_by_key(|(_, rows)| rows.len()).expect("there are flights")
    }
}

/// Checks that the driver found the number of shards by itself, and how tokens map to them.
fn shards_are_known(session: &Session, expected: u16) -> Outcome<()> {
    let state = session.get_cluster_state();
    let [node] = state.get_nodes_info() else { panic!("one node") };
    let sharder = node.sharder().expect("SUPPORTED must name the shards");
    assert_eq!((sharder.nr_shards.get(), sharder.msb_ignore), (expected, 0));
    println!("shards: {}", sharder.nr_shards);
    Ok(())
}

async fn create(session: &Session, table: &str) -> Outcome<()> {
    let keyspace = "CREATE KEYSPACE IF NOT EXISTS rust WITH replication = {'class': \
                    'SimpleStrategy', 'replication_factor': 1}";
    session.query_unpaged(keyspace, ()).await?;
    let statement = format!(
        "CREATE TABLE {table} (carrier text, origin text, month tinyint, day tinyint, flight int, \
         dest text, distance double, \
         PRIMARY KEY ((carrier, origin, month), day, flight)) WITH CLUSTERING ORDER BY (day ASC, \
         flight DESC)"
    );
    session.query_unpaged(statement, ()).await?;
    session.await_schema_agreement().await?;
    // The driver has a view of the schema of its own.
    session.refresh_metadata().await?;
    let state = session.get_cluster_state();
    let seen = &state.get_keyspace("rust").expect("the keyspace").tables
        [table.split('.').nth(1).unwrap_or_default()];
    assert_eq!(seen.partition_key, ["carrier", "origin", "month"]);
    assert_eq!(seen.clustering_key, ["day", "flight"]);
    assert_eq!(seen.columns.len(), 7);
    Ok(())
}

struct Driver<'f> {
    session: Session,
    table: String,
    flights: &'f Flights,
}

impl Driver<'_> {
    fn select(&self, rest: &str) -> String {
        format!(
            "SELECT carrier, origin, month, day, flight, dest, distance FROM {} {rest}",
            self.table
        )
    }

    async fn write(&self) -> Outcome<()> {
        let columns = "carrier, origin, month, day, flight, dest, distance";
        let text = format!("INSERT INTO {} ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", self.table);
        let insert = self.session.prepare(text).await?;
        futures::stream::iter(&self.flights.rows)
            .map(|row| self.session.execute_unpaged(&insert, row))
            .buffer_unordered(CONCURRENCY)
            .try_for_each(|_| async { Ok(()) })
            .await?;
        Ok(())
    }

    async fn points(&self) -> Outcome<()> {
        let select = self
            .session
            .prepare(self.select(&format!("WHERE {WHERE_KEY} AND day = ? AND flight = ?")))
            .await?;
        let some = self.flights.rows.iter().step_by(7);
        let answers: Vec<Outcome<()>> = futures::stream::iter(some)
            .map(async |row| {
                let values = (&row.0, &row.1, row.2, row.3, row.4);
                let answer =
                    self.session.execute_unpaged(&select, values).await?.into_rows_result()?;
                assert_eq!(&answer.single_row::<Flight>()?, row);
                Ok(())
            })
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        answers.into_iter().collect()
    }

    async fn slices(&self) -> Outcome<()> {
        let (key, rows) = self.flights.largest();
        let expected: Vec<_> =
            rows.iter().filter(|row| (5..20).contains(&row.3)).cloned().collect();
        let up = format!("WHERE {WHERE_KEY} AND day >= ? AND day < ?");
        let down = format!("{up} ORDER BY day DESC, flight ASC");
        for (text, reversed) in [(up, false), (down, true)] {
            let select = self.session.prepare(self.select(&text)).await?;
            let values = (&key.0, &key.1, key.2, 5_i8, 20_i8);
            let answer = self.session.execute_unpaged(&select, values).await?.into_rows_result()?;
            let mut got = answer.rows::<Flight>()?.collect::<Result<Vec<_>, _>>()?;
            if reversed {
                got.reverse();
            }
            assert_eq!(got, expected);
        }
        let select =
            self.session.prepare(self.select(&format!("WHERE {WHERE_KEY} AND day IN ?"))).await?;
        let values = (&key.0, &key.1, key.2, vec![3_i8, 1, 30]);
        let answer = self.session.execute_unpaged(&select, values).await?.into_rows_result()?;
        let got = answer.rows::<Flight>()?.collect::<Result<Vec<_>, _>>()?;
        let expected: Vec<_> =
            rows.iter().filter(|row| [1, 3, 30].contains(&row.3)).cloned().collect();
        assert_eq!(got, expected);
        Ok(())
    }

    async fn pages(&self) -> Outcome<()> {
        let (key, expected) = self.flights.largest();
        for size in [1, 10, 10_000] {
            let mut select =
                self.session.prepare(self.select(&format!("WHERE {WHERE_KEY}"))).await?;
            select.set_page_size(size);
            let stream = self
                .session
                .execute_iter(select, (&key.0, &key.1, key.2))
                .await?
                .rows_stream::<Flight>()?;
            assert_eq!(&stream.try_collect::<Vec<_>>().await?, expected);
        }
        // Reads the whole table, page by page.
        let mut select = self.session.prepare(self.select("")).await?;
        select.set_page_size(333);
        let (mut state, mut all, mut largest) = (PagingState::start(), Vec::new(), 0);
        loop {
            let (answer, next) = self.session.execute_single_page(&select, (), state).await?;
            let rows =
                answer.into_rows_result()?.rows::<Flight>()?.collect::<Result<Vec<_>, _>>()?;
            largest = largest.max(rows.len());
            all.extend(rows);
            match next.into_paging_control_flow() {
                std::ops::ControlFlow::Continue(next) => state = next,
                std::ops::ControlFlow::Break(()) => break,
            }
        }
        assert_eq!(largest, 333);
        let text = |row: &Flight| format!("{row:?}");
        assert_eq!(all.len(), self.flights.rows.len());
        assert_eq!(
            all.iter().map(text).collect::<BTreeSet<_>>(),
            self.flights.rows.iter().map(text).collect()
        );
        Ok(())
    }

    /// Checks that the driver computes the node's tokens, by which it chooses the shard.
    async fn tokens(&self) -> Outcome<()> {
        let text = format!(
            "SELECT DISTINCT token(carrier, origin, month) FROM {} WHERE {WHERE_KEY}",
            self.table
        );
        let select = self.session.prepare(text).await?;
        assert!(select.is_token_aware());
        let state = self.session.get_cluster_state();
        let sharder = state.get_nodes_info()[0].sharder().expect("a sharder");
        let mut shards = BTreeSet::new();
        for key in self.flights.partitions.keys() {
            let token = select.calculate_token(&(&key.0, &key.1, key.2))?.expect("a token");
            let answer = self.session.execute_unpaged(&select, key).await?.into_rows_result()?;
            assert_eq!(answer.single_row::<(i64,)>()?, (token.value(),));
            shards.insert(sharder.shard_of(token));
        }
        assert_eq!(
            shards.len(),
            usize::from(sharder.nr_shards.get()),
            "the keys must reach all shards"
        );
        Ok(())
    }

    async fn aggregates(&self) -> Outcome<()> {
        let text = format!(
            "SELECT count(*), max(distance), min(flight), avg(distance) FROM {}",
            self.table
        );
        let answer = self.session.query_unpaged(text, ()).await?.into_rows_result()?;
        let (count, far, first, mean) = answer.single_row::<(i64, f64, i32, f64)>()?;
        let rows = &self.flights.rows;
        assert_eq!(count, rows.len() as i64);
        assert_eq!(far, rows.iter().map(|row| row.6).fold(0.0, f64::max));
        assert_eq!(Some(first), rows.iter().map(|row| row.4).min());
        assert!(
            (mean - rows.iter().map(|row| row.6).sum::<f64>() / rows.len() as f64).abs() < 1e-6
        );
        Ok(())
    }

    async fn batches(&self) -> Outcome<()> {
        let text = format!(
            "UPDATE {} SET dest = ? WHERE {WHERE_KEY} AND day = ? AND flight = ?",
            self.table
        );
        let update = self.session.prepare(text).await?;
        let read = self
            .session
            .prepare(self.select(&format!("WHERE {WHERE_KEY} AND day = ? AND flight = ?")))
            .await?;
        for (kind, dest) in [(BatchType::Unlogged, "AAA"), (BatchType::Logged, "BBB")] {
            let some: Vec<_> = self.flights.rows.iter().step_by(501).collect();
            let mut batch = Batch::new(kind);
            some.iter().for_each(|_| batch.append_statement(update.clone()));
            let values: Vec<_> =
                some.iter().map(|row| (dest, &row.0, &row.1, row.2, row.3, row.4)).collect();
            self.session.batch(&batch, values).await?;
            for row in some {
                let key = (&row.0, &row.1, row.2, row.3, row.4);
                let answer = self.session.execute_unpaged(&read, key).await?.into_rows_result()?;
                assert_eq!(answer.single_row::<Flight>()?.5, dest);
            }
        }
        Ok(())
    }
}
