//! Statements are prepared and executed here: one processor on each shard, over that shard's `Database`.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use espalier_mutation::{
    Clustering, ClusteringSlice, ClusteringSlices, DecoratedKey, Direction, Mutation, Row,
    schema::{TableId, TableMetadata},
};
use espalier_runtime::{time, trace_event};
use espalier_storage::{
    ColumnSelection, CommitTicket, Database, ReadCommand, ReadLimits, ReadTarget, StorageError,
    system::is_virtual,
};
use smallvec::SmallVec;

use crate::{
    ClientState, Error, ErrorCode, ErrorDetail, QueryOptions, QueryResult, Result, Rows, Value,
    Values,
    batch::{BatchUpdates, check_statements},
    ddl, describe,
    grammar::ast::BatchKind,
    look_ahead::{Ahead, look_ahead},
    metadata::statement_id,
    modify::{Clocks, PlannedModification, PointOutcome},
    planner,
    prepared::{BoundedStatements, MAXIMUM_STATEMENT_BYTES, Plan, Prepared, PreparedCache},
    restrictions::PointKey,
    select::{self, PlannedSelect},
    term::{Evaluation, bind_values, borrow_values},
};

/// Executes statements on one shard. Cheap to clone; not `Send`.
#[derive(Clone)]
pub struct QueryProcessor {
    inner: Rc<Inner>,
}

struct Inner {
    database: Database,
    shared: Arc<PreparedCache>,
    local: RefCell<BoundedStatements>,
    /// For partition keys of several columns, while a statement is executed without giving way.
    key_buffer: RefCell<Vec<u8>>,
}

/// The answer of the fast path.
pub enum Now {
    /// Done.
    Done(Result<QueryResult>),
    /// Done: a read of at most one row. Its columns are [`Prepared::result`].
    Row {
        /// Whether there is such a row, encoded in the buffer that was given for it.
        found: bool,
    },
    /// A write that is applied; the client is answered (with `Void`) once the ticket resolves.
    AfterSync(CommitTicket),
    /// Something must be waited for: use [`QueryProcessor::execute`].
    MustWait,
}

/// A BATCH message of the protocol.
pub struct Batch<'a> {
    /// Logged, unlogged or counter.
    pub kind: BatchKind,
    /// Its statements.
    pub statements: Vec<BatchStatement<'a>>,
}

/// A statement of a BATCH message.
pub struct BatchStatement<'a> {
    /// Text, or a prepared statement.
    pub statement: BatchedStatement<'a>,
    /// Its bound values.
    pub values: Values<'a>,
}

/// What a BATCH message names.
pub enum BatchedStatement<'a> {
    /// A statement to be planned now.
    Text(&'a str),
    /// A prepared one.
    Prepared(Arc<Prepared>),
}

impl From<StorageError> for Error {
    fn from(error: StorageError) -> Self {
        Error::new(error_code(&error), error.to_string())
    }
}

fn error_code(error: &StorageError) -> ErrorCode {
    match error {
        StorageError::MutationTooLarge { .. }
        | StorageError::UnknownTable(_)
        | StorageError::UnknownTableName { .. } => ErrorCode::Invalid,
        StorageError::MemtablesFull { .. }
        | StorageError::CommitLogFull { .. }
        | StorageError::TooManyUnfinishedBatches { .. } => ErrorCode::Overloaded,
        StorageError::CommitLogWrite(_) => ErrorCode::WriteFailure,
        _ => ErrorCode::ServerError,
    }
}

impl QueryProcessor {
    /// A processor over a shard's database; `shared` is the same on all shards.
    pub fn new(database: Database, shared: Arc<PreparedCache>) -> Self {
        let (local, key_buffer) = (RefCell::default(), RefCell::default());
        Self { inner: Rc::new(Inner { database, shared, local, key_buffer }) }
    }

    /// The database below.
    pub fn database(&self) -> &Database {
        &self.inner.database
    }

    /// Prepares a statement, or finds it prepared.
    pub fn prepare(&self, text: &str, client: &ClientState) -> Result<Arc<Prepared>> {
        let keyspace = client.keyspace.as_deref();
        if text.len() > MAXIMUM_STATEMENT_BYTES {
            return Err(Error::invalid(format!(
                "Prepared statement of size {} bytes is larger than allowed maximum of {} MB",
                text.len(),
                MAXIMUM_STATEMENT_BYTES >> 20
            )));
        }
        let id = statement_id(keyspace, text);
        if let Some(prepared) = self.prepared(&id) {
            trace_event!("Prepared statement found in the cache");
            return Ok(prepared);
        }
        trace_event!("Prepared statement not found in the cache");
        let prepared = Arc::new(planner::plan(text, keyspace, &self.inner.database.schema())?);
        self.keep(&prepared);
        Ok(prepared)
    }

    fn keep(&self, prepared: &Arc<Prepared>) {
        self.inner.shared.insert(prepared.clone());
        self.inner.local.borrow_mut().insert(prepared.clone());
    }

    /// The statement with that id if any shard knows it, however old its plan is: for those who only look at it.
    pub fn known(&self, id: &[u8]) -> Option<Arc<Prepared>> {
        let id: [u8; 16] = id.try_into().ok()?;
        let local = self.inner.local.borrow().get(&id).cloned();
        local.or_else(|| self.inner.shared.get(&id))
    }

    /// The statement with that id if this shard has it, planned against the schema as it is: for those who look ahead.
    pub fn planned(&self, id: &[u8]) -> Option<Arc<Prepared>> {
        let id: [u8; 16] = id.try_into().ok()?;
        let local = self.inner.local.borrow();
        let is_fresh = |prepared: &&Arc<Prepared>| {
            self.inner.database.with_schema(|schema| prepared.is_fresh(schema))
        };
        local.get(&id).filter(is_fresh).cloned()
    }

    /// The statement with that id, planned against the schema as it is. `None` if it is unknown or its table is gone.
    pub fn prepared(&self, id: &[u8]) -> Option<Arc<Prepared>> {
        if let Some(prepared) = self.planned(id) {
            return Some(prepared);
        }
        let id: [u8; 16] = id.try_into().ok()?;
        trace_event!("Prepared statement not found in the cache of this shard");
        let schema = self.inner.database.schema();
        let prepared = self.inner.shared.get(&id)?;
        if prepared.is_fresh(&schema) {
            self.inner.local.borrow_mut().insert(prepared.clone());
            return Some(prepared);
        }
        trace_event!("Preparing the statement anew: the schema has changed");
        let mut replanned =
            planner::plan(&prepared.text, prepared.keyspace.as_deref(), &schema).ok()?;
        replanned.result_changed =
            prepared.result_changed || prepared.result.id != replanned.result.id;
        let replanned = Arc::new(replanned);
        self.keep(&replanned);
        Some(replanned)
    }

    /// Plans and executes a statement.
    pub async fn query(
        &self,
        text: &str,
        client: &mut ClientState,
        options: &QueryOptions<'_>,
    ) -> Result<QueryResult> {
        let keyspace = options.keyspace.map(str::to_string).or_else(|| client.keyspace.clone());
        let schema = self.inner.database.schema();
        let prepared = Arc::new(planner::plan(text, keyspace.as_deref(), &schema)?);
        if let Plan::Use(keyspace) = &prepared.plan {
            client.keyspace = Some(keyspace.clone());
        }
        self.run(&prepared, keyspace, options).await
    }

    /// Executes a prepared statement.
    pub async fn execute(
        &self,
        prepared: &Arc<Prepared>,
        client: &ClientState,
        options: &QueryOptions<'_>,
    ) -> Result<QueryResult> {
        let keyspace = prepared.keyspace.clone().or_else(|| client.keyspace.clone());
        self.run(prepared, keyspace, options).await
    }

    async fn run(
        &self,
        prepared: &Arc<Prepared>,
        keyspace: Option<String>,
        options: &QueryOptions<'_>,
    ) -> Result<QueryResult> {
        let database = &self.inner.database;
        if let Some(rows) = self.read_point_with_waits(prepared, options).await {
            return rows.map(QueryResult::Rows);
        }
        let values = bind_values(&prepared.bind.columns, options.values)?;
        let now_us = time::now_micros();
        let evaluation = Evaluation { values: &values, now_us };
        let clocks = clocks(options, now_us);
        match &prepared.plan {
            Plan::Select(select) => {
                let rows =
                    select::execute(select, database, &evaluation, options, clocks.now_s).await?;
                Ok(QueryResult::Rows(rows))
            }
            Plan::Modification(statement) => {
                self.modify(statement, &evaluation, clocks).await?;
                Ok(QueryResult::Void)
            }
            Plan::Batch(batch) => {
                let timestamp_us = batch.timestamp_us(&evaluation, clocks.timestamp_us)?;
                let clocks = Clocks { timestamp_us, ..clocks };
                let mut updates = BatchUpdates::default();
                let mut is_counter = false;
                for statement in &batch.statements {
                    is_counter |= statement.table.is_counter();
                    let rows = self.current_rows(statement, &evaluation, clocks.now_s).await?;
                    updates.add(statement, &evaluation, clocks, &|key, clustering| {
                        find(&rows, key, clustering)
                    })?;
                }
                self.apply_batch(batch.kind, is_counter, updates.into_mutation()).await?;
                Ok(QueryResult::Void)
            }
            Plan::Use(keyspace) => Ok(QueryResult::SetKeyspace(keyspace.clone())),
            Plan::Truncate(table) => self.truncate(*table).await,
            Plan::Schema => ddl::execute(database, &prepared.text, keyspace.as_deref()).await,
            Plan::Describe => {
                let (schema, cluster) = (database.schema(), self.cluster_name().await);
                describe::execute(&schema, cluster, &prepared.text, keyspace.as_deref(), options)
            }
        }
    }

    async fn truncate(&self, id: TableId) -> Result<QueryResult> {
        let database = &self.inner.database;
        let schema = database.schema();
        if let Some(table) = schema.table_by_id(id).filter(|table| is_virtual(&table.keyspace)) {
            let TableMetadata { keyspace, name, .. } = &**table;
            return Err(Error::invalid(format!(
                "Truncation is not supported by table {keyspace}.{name}"
            )));
        }
        let truncated = database.truncate(id).await;
        truncated.map_err(|error| Error::new(ErrorCode::TruncateError, error.to_string()))?;
        Ok(QueryResult::Void)
    }

    /// What `system.local` calls the cluster, if the node has introduced itself.
    async fn cluster_name(&self) -> Option<String> {
        const TEXT: &str = "SELECT cluster_name FROM system.local WHERE key = 'local'";
        let database = &self.inner.database;
        let planned = planner::plan(TEXT, None, &database.schema()).ok()?;
        let Plan::Select(select) = &planned.plan else { return None };
        let evaluation = Evaluation { values: &[], now_us: time::now_micros() };
        let options = QueryOptions::default();
        let rows = select::execute(
            select,
            database,
            &evaluation,
            &options,
            now_s_or(&options, time::now_seconds),
        );
        let content = rows.await.ok()?.content;
        let name = content.get(4..).filter(|name| !name.is_empty())?;
        String::from_utf8(name.to_vec()).ok()
    }

    async fn modify(
        &self,
        statement: &PlannedModification,
        evaluation: &Evaluation<'_>,
        clocks: Clocks,
    ) -> Result<()> {
        let rows = self.current_rows(statement, evaluation, clocks.now_s).await?;
        let updates = statement
            .updates(evaluation, clocks, &|key, clustering| find(&rows, key, clustering))?;
        if statement.table.is_counter() {
            return self.apply_counters(updates).await;
        }
        let updates: Vec<_> = updates.into_iter().filter(|update| !update.is_empty()).collect();
        if updates.is_empty() {
            return Ok(());
        }
        Ok(self.inner.database.apply(Mutation { updates }).await?)
    }

    async fn apply_counters(&self, updates: Vec<espalier_mutation::PartitionUpdate>) -> Result<()> {
        for update in updates {
            let deletes = !update.deletion.is_live() || !update.range_tombstones.is_empty();
            let counts = update.static_row.iter().chain(&update.rows).any(|row| {
                !row.columns.is_empty() && row.columns.iter().any(|(_, data)| {
                matches!(data, espalier_mutation::ColumnData::Simple(cell) if !cell.is_tombstone())
            })
            });
            if counts {
                self.inner.database.apply_counters(update).await?;
            } else if deletes || !update.is_empty() {
                self.inner.database.apply(Mutation { updates: vec![update] }).await?;
            }
        }
        Ok(())
    }

    async fn apply_batch(
        &self,
        kind: BatchKind,
        is_counter: bool,
        mutation: Mutation,
    ) -> Result<()> {
        if mutation.updates.is_empty() {
            return Ok(());
        }
        if is_counter {
            return self.apply_counters(mutation.updates).await;
        }
        match kind {
            BatchKind::Logged if mutation.updates.len() > 1 => {
                Ok(self.inner.database.apply_logged_batch(mutation).await?)
            }
            _ => Ok(self.inner.database.apply(mutation).await?),
        }
    }

    /// Executes a BATCH message.
    pub async fn batch(
        &self,
        batch: Batch<'_>,
        client: &ClientState,
        options: &QueryOptions<'_>,
    ) -> Result<QueryResult> {
        let now_us = time::now_micros();
        let clocks = clocks(options, now_us);
        let keyspace = options.keyspace.or(client.keyspace.as_deref());
        let schema = self.inner.database.schema();
        let mut planned = Vec::with_capacity(batch.statements.len());
        for statement in &batch.statements {
            planned.push(match &statement.statement {
                BatchedStatement::Text(text) => Arc::new(planner::plan(text, keyspace, &schema)?),
                BatchedStatement::Prepared(prepared) => prepared.clone(),
            });
        }
        let modification = |prepared: &Arc<Prepared>| match &prepared.plan {
            Plan::Modification(_) => Ok(()),
            _ => Err(Error::invalid(
                "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.",
            )),
        };
        planned.iter().try_for_each(modification)?;
        let statements = planned.iter().filter_map(|prepared| match &prepared.plan {
            Plan::Modification(statement) => Some(statement.as_ref()),
            _ => None,
        });
        let is_counter = check_statements(batch.kind, statements.clone(), false)?;
        let mut updates = BatchUpdates::default();
        for ((prepared, statement), sent) in planned.iter().zip(statements).zip(&batch.statements) {
            let values = bind_values(&prepared.bind.columns, sent.values)?;
            let evaluation = Evaluation { values: &values, now_us };
            let rows = self.current_rows(statement, &evaluation, clocks.now_s).await?;
            updates.add(statement, &evaluation, clocks, &|key, clustering| {
                find(&rows, key, clustering)
            })?;
        }
        self.apply_batch(batch.kind, is_counter, updates.into_mutation()).await?;
        Ok(QueryResult::Void)
    }

    /// Everything that needs no waiting, at once. `row` is for the row of [`Now::Row`]; what was in it is lost.
    pub fn execute_now(
        &self,
        prepared: &Arc<Prepared>,
        _client: &ClientState,
        options: &QueryOptions<'_>,
        row: &mut Vec<u8>,
    ) -> Now {
        match &prepared.plan {
            Plan::Modification(statement) => match self.write_point(prepared, statement, options) {
                PointOutcome::Done(outcome) => acknowledged(outcome),
                PointOutcome::MustWait => Now::MustWait,
                PointOutcome::General => self.modify_now(prepared, statement, options),
            },
            Plan::Select(select) => match self.read_point(prepared, select, options, row) {
                Some(Ok(found)) => Now::Row { found },
                Some(Err(error)) => Now::Done(Err(error)),
                None => Now::MustWait,
            },
            _ => Now::MustWait,
        }
    }

    /// Whether there is a use in telling [`QueryProcessor::look_ahead`] of an execution.
    pub fn can_look_ahead(&self, prepared: &Prepared) -> bool {
        row_ahead(prepared)
            .is_some_and(|(table, ..)| self.inner.database.is_worth_looking_ahead(table))
    }

    /// Fetches the memory that statements of single rows will take, side by side: for those who have several to execute. Other
    /// statements, and errors, are for their execution.
    pub fn look_ahead(&self, requests: &[(&Prepared, Values<'_>)]) {
        let mut buffer = self.inner.key_buffer.borrow_mut();
        let rows = requests.iter().filter_map(|(prepared, values)| {
            let (table, key, is_write) = row_ahead(prepared)?;
            let values = borrow_values(&prepared.bind.columns, *values)?;
            Some(Ahead { table, key, values, is_write })
        });
        look_ahead(&self.inner.database, &rows.collect::<SmallVec<[_; 32]>>(), &mut buffer);
    }

    #[inline]
    fn read_point(
        &self,
        prepared: &Prepared,
        select: &PlannedSelect,
        options: &QueryOptions<'_>,
        row: &mut Vec<u8>,
    ) -> Option<Result<bool>> {
        let values = point_values(prepared, select, options)?;
        let now_s = now_s_or(options, time::now_seconds_coarse);
        let mut buffer = self.inner.key_buffer.borrow_mut();
        select::execute_point(select, &self.inner.database, values, now_s, &mut buffer, row)
    }

    async fn read_point_with_waits(
        &self,
        prepared: &Arc<Prepared>,
        options: &QueryOptions<'_>,
    ) -> Option<Result<Rows>> {
        let Plan::Select(select) = &prepared.plan else { return None };
        let values = point_values(prepared, select, options)?;
        let now_s = now_s_or(options, time::now_seconds_coarse);
        select::execute_point_with_waits(prepared, &self.inner.database, values, now_s).await
    }

    #[inline]
    fn write_point(
        &self,
        prepared: &Prepared,
        statement: &PlannedModification,
        options: &QueryOptions<'_>,
    ) -> PointOutcome {
        if statement.point.is_none() {
            return PointOutcome::General;
        }
        let Some(values) = borrow_values(&prepared.bind.columns, options.values) else {
            return PointOutcome::General;
        };
        let clocks = match options.timestamp_us {
            Some(timestamp_us) => {
                Clocks { timestamp_us, now_s: now_s_or(options, time::now_seconds_coarse) }
            }
            None => clocks(options, time::now_micros()),
        };
        let mut buffer = self.inner.key_buffer.borrow_mut();
        statement.write_point(&self.inner.database, values, clocks, &mut buffer)
    }

    fn modify_now(
        &self,
        prepared: &Prepared,
        statement: &PlannedModification,
        options: &QueryOptions<'_>,
    ) -> Now {
        if statement.needs_read() || statement.table.is_counter() {
            return Now::MustWait;
        }
        let updates = (|| {
            let values = bind_values(&prepared.bind.columns, options.values)?;
            let now_us = time::now_micros();
            let evaluation = Evaluation { values: &values, now_us };
            statement.updates(&evaluation, clocks(options, now_us), &|_, _| None)
        })();
        let mut updates = match updates {
            Ok(updates) => updates,
            Err(error) => return Now::Done(Err(error)),
        };
        updates.retain(|update| !update.is_empty());
        if updates.is_empty() {
            return Now::Done(Ok(QueryResult::Void));
        }
        match self.inner.database.try_apply(&Mutation { updates }) {
            None => Now::MustWait,
            Some(outcome) => acknowledged(outcome),
        }
    }

    /// The rows that list operations by index or value need to know.
    async fn current_rows(
        &self,
        statement: &PlannedModification,
        evaluation: &Evaluation<'_>,
        now_s: u32,
    ) -> Result<KnownRows> {
        let mut known = Vec::new();
        if !statement.needs_read() {
            return Ok(known);
        }
        let table: &Arc<TableMetadata> = &statement.table;
        let slices = Arc::new(statement.restrictions.slices(table, evaluation)?);
        let crate::restrictions::Partitions::Keys(keys) =
            statement.restrictions.partition.partitions(table, evaluation)?
        else {
            return Ok(known);
        };
        for key in keys {
            let command = read_rows(table, key.clone(), slices.clone(), now_s);
            for partition in self.inner.database.read(command).await?.partitions {
                known.extend(partition.static_row.map(|row| (key.clone(), None, row)));
                known.extend(
                    partition
                        .rows
                        .into_iter()
                        .map(|row| (key.clone(), Some(row.clustering.clone()), row)),
                );
            }
        }
        Ok(known)
    }
}

/// The values of a SELECT that can be answered as a point read, if they are as they should be.
#[inline]
fn point_values<'v>(
    prepared: &Prepared,
    select: &PlannedSelect,
    options: &QueryOptions<'v>,
) -> Option<&'v [Value]> {
    // A page of one row is full: the general path says where the next one would begin.
    if select.point.is_none() || options.paging_state.is_some() || options.page_size == Some(1) {
        return None;
    }
    borrow_values(&prepared.bind.columns, options.values)
}

/// The table and the key of the only row of a statement for which one may look ahead, and whether it writes.
fn row_ahead(prepared: &Prepared) -> Option<(&Arc<TableMetadata>, &PointKey, bool)> {
    match &prepared.plan {
        Plan::Select(select) if select.bypass_cache => None,
        Plan::Select(select) => Some((&select.table, select.point_key()?, false)),
        Plan::Modification(statement) => Some((&statement.table, statement.point_key()?, true)),
        _ => None,
    }
}

type KnownRows = Vec<(DecoratedKey, Option<Clustering>, Row)>;

fn find(rows: &KnownRows, key: &DecoratedKey, clustering: Option<&Clustering>) -> Option<Row> {
    rows.iter()
        .find(|(k, c, _)| k == key && c.as_ref() == clustering)
        .map(|(_, _, row)| row.clone())
}

fn read_rows(
    table: &Arc<TableMetadata>,
    key: DecoratedKey,
    slices: Arc<ClusteringSlices>,
    now_s: u32,
) -> ReadCommand {
    let _: Option<&ClusteringSlice> = slices.slices.first();
    ReadCommand {
        table: table.clone(),
        target: ReadTarget::Partition(key),
        slices,
        direction: Direction::Forward,
        columns: ColumnSelection::All,
        now_s,
        limits: ReadLimits::NONE,
        resume: None,
        bypass_cache: false,
    }
}

/// What a write that was applied is answered with, and when.
#[inline]
fn acknowledged(outcome: Result<CommitTicket, StorageError>) -> Now {
    match outcome {
        Ok(ticket) if ticket.is_acknowledged() => Now::Done(Ok(QueryResult::Void)),
        Ok(ticket) => Now::AfterSync(ticket),
        Err(error) => Now::Done(Err(error.into())),
    }
}

#[inline]
fn now_s_or(options: &QueryOptions<'_>, read_clock: impl FnOnce() -> i64) -> u32 {
    match options.now_s.and_then(|now| u32::try_from(now).ok()) {
        Some(now_s) => now_s,
        None => u32::try_from(read_clock()).unwrap_or(u32::MAX - 3),
    }
}

/// The clocks of a statement, from one reading.
#[inline]
fn clocks(options: &QueryOptions<'_>, now_us: i64) -> Clocks {
    Clocks {
        timestamp_us: options
            .timestamp_us
            .unwrap_or_else(|| time::next_timestamp_micros_at(now_us)),
        now_s: now_s_or(options, || now_us.div_euclid(1_000_000)),
    }
}

/// The error for an id that is not known.
pub fn unprepared(id: &[u8]) -> Error {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    Error {
        code: ErrorCode::Unprepared,
        message: format!(
            "Prepared query with ID {hex} not found (either the query was not prepared on this host (maybe the host has been restarted?) or you have prepared too many queries and it has been evicted from the internal cache)"
        ),
        detail: ErrorDetail::Unprepared { id: id.to_vec() },
    }
}

/// A bound value for tests and tools.
impl From<&'static [u8]> for Value {
    fn from(bytes: &'static [u8]) -> Self {
        Value::Bytes(bytes::Bytes::from_static(bytes))
    }
}
