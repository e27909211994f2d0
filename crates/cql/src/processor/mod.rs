//! The query processor: prepares and executes statements. Each shard has one, over that shard's
//! `Node`.

mod disk_usage;
mod error;
mod modify;
mod now;
mod schema_change;
mod serial;
mod timeout;
mod turn_requests;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use espalier_mutation::schema::{TableId, TableMetadata};
use espalier_runtime::{current_shard, time, trace_event};
use espalier_storage::{Node, system::is_virtual};

use self::turn_requests::{first_error, turn_request, turn_statements};
pub use self::{
    error::unprepared,
    modify::{Batch, BatchStatement, BatchedStatement},
    now::{APPLIED, Now},
};
use crate::{
    ClientState, Error, ErrorCode, QueryOptions, QueryResult, Result,
    auth::{self, Auth, Login},
    consistency, describe,
    guard::{self, Guard},
    internal_query,
    metadata::statement_id,
    modify::Clocks,
    planner,
    prepared::{BoundedStatements, MAX_STATEMENT_BYTES, Plan, Prepared, PreparedCache},
    select,
    term::{Evaluation, bind_values, check_count},
    transaction::{self, TransactionRequest},
};

/// Executes statements on one shard. Cheap to clone; not `Send`.
#[derive(Clone)]
pub struct QueryProcessor {
    inner: Rc<Inner>,
}

struct Inner {
    database: Node,
    auth: Arc<Auth>,
    shared: Arc<PreparedCache>,
    local: RefCell<BoundedStatements>,
    /// Scratch space for composite partition keys. No statement borrows it across a yield.
    key_buffer: RefCell<Vec<u8>>,
    /// The used percentage of the disk, and the time at which it was read.
    disk_usage: Cell<Option<(time::Instant, u8)>>,
}

impl QueryProcessor {
    /// Creates a processor over a shard's database. All shards pass the same `shared`.
    pub fn new(database: Node, shared: Arc<PreparedCache>) -> Self {
        Self::with_auth(database, shared, Arc::default())
    }

    /// Creates a processor that checks the permissions of its clients. All shards pass the same
    /// `auth`.
    pub fn with_auth(database: Node, shared: Arc<PreparedCache>, auth: Arc<Auth>) -> Self {
        let shards = current_shard().map_or(1, |shard| shard.count);
        let local = RefCell::new(BoundedStatements::of_shard(shards));
        let key_buffer = RefCell::default();
        let disk_usage = Cell::new(None);
        let inner = Inner { database, auth, shared, local, key_buffer, disk_usage };
        Self { inner: Rc::new(inner) }
    }

    /// Returns the state of authentication.
    pub fn auth(&self) -> &Arc<Auth> {
        &self.inner.auth
    }

    /// Returns the shard's database.
    pub fn database(&self) -> &Node {
        &self.inner.database
    }

    /// Prepares a statement, or returns it from the cache.
    ///
    /// # Errors
    /// The text is too long, is not CQL, or does not fit the schema, or a guardrail refuses it.
    pub fn prepare(&self, text: &str, client: &ClientState) -> Result<Arc<Prepared>> {
        if let Some(prepared) = self.cached(text, client)? {
            return Ok(prepared);
        }
        let schema = self.inner.database.store().schema();
        self.keep_new(planner::plan(text, client.keyspace.as_deref(), &schema), client)
    }

    /// Prepares a statement as [`Self::prepare`] does. Waits only if the text is long, because a
    /// helper thread plans it then.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub async fn prepare_apart(&self, text: &str, client: &ClientState) -> Result<Arc<Prepared>> {
        if let Some(prepared) = self.cached(text, client)? {
            return Ok(prepared);
        }
        let schema = self.inner.database.store().schema();
        let planned = planner::plan_apart(text, client.keyspace.as_deref(), &schema).await;
        self.keep_new(planned, client)
    }

    /// Returns the statement with that text if a cache has a plan of it for the current schema.
    ///
    /// # Errors
    /// The text is too long for a prepared statement.
    fn cached(&self, text: &str, client: &ClientState) -> Result<Option<Arc<Prepared>>> {
        let keyspace = client.keyspace.as_deref();
        if text.len() > MAX_STATEMENT_BYTES {
            return Err(Error::invalid(format!(
                "Prepared statement of size {} bytes is larger than allowed maximum of {} MB",
                text.len(),
                MAX_STATEMENT_BYTES >> 20
            )));
        }
        // A statement that names all its keyspaces is cached under an id without the session's
        // keyspace.
        let unbound = self.planned(&statement_id(None, text));
        let unbound = unbound.filter(|prepared| keyspace.is_none() || prepared.plan.names_tables());
        let of_keyspace = || self.planned(&statement_id(keyspace, text));
        let found = unbound.or_else(of_keyspace);
        if found.is_some() {
            trace_event!("Prepared statement found in the cache");
        } else {
            trace_event!("Prepared statement not found in the cache");
        }
        Ok(found)
    }

    /// Checks a new plan against the guardrails, and adds it to the caches.
    fn keep_new(&self, planned: Result<Prepared>, client: &ClientState) -> Result<Arc<Prepared>> {
        let guardrails = &self.inner.database.store().configuration().guardrails;
        let guard = Guard { guardrails, warnings: None, is_exempt: is_exempt(client) };
        let prepared = self.inner.shared.insert(Self::guarded(planned, guard)?);
        self.inner.local.borrow_mut().insert(prepared.clone());
        Ok(prepared)
    }

    /// Checks a new plan against the guardrails.
    fn guarded(planned: Result<Prepared>, guard: Guard<'_>) -> Result<Prepared> {
        let prepared = planned.map_err(|error| guard::explain_filtering(error, guard))?;
        guard::check_prepared(&prepared.plan, guard)?;
        Ok(prepared)
    }

    /// Returns the statement with that id if the cache of this shard or of the process has it. The
    /// plan may be stale, so use the result only to inspect the statement.
    pub fn known(&self, id: &[u8]) -> Option<Arc<Prepared>> {
        let id: [u8; 16] = id.try_into().ok()?;
        let local = self.inner.local.borrow().get(&id).cloned();
        local.or_else(|| self.inner.shared.get(&id))
    }

    /// Returns the statement with that id if the cache of this shard or of the process has its plan
    /// for the current schema. This function never plans a statement, so it is cheap enough for
    /// look-ahead.
    pub fn planned(&self, id: &[u8]) -> Option<Arc<Prepared>> {
        let id: [u8; 16] = id.try_into().ok()?;
        let is_fresh = |prepared: &&Arc<Prepared>| {
            self.inner.database.store().with_schema(|schema| prepared.is_fresh(schema))
        };
        if let Some(prepared) = self.inner.local.borrow().get(&id).filter(is_fresh) {
            return Some(prepared.clone());
        }
        self.planned_elsewhere(&id)
    }

    /// Returns what [`Self::planned`] returns if the cache of this shard has no plan for the
    /// current schema. A part of [`Self::planned`] would make that function larger, and each
    /// EXECUTE calls it.
    #[cold]
    fn planned_elsewhere(&self, id: &[u8; 16]) -> Option<Arc<Prepared>> {
        trace_event!("Prepared statement not found in the cache of this shard");
        self.planned_in_process(id)
    }

    /// Returns the statement if the cache of the process has its plan for the current schema, and
    /// adds the plan to the cache of this shard.
    fn planned_in_process(&self, id: &[u8; 16]) -> Option<Arc<Prepared>> {
        let prepared = self.inner.shared.get(id)?;
        if !self.inner.database.store().with_schema(|schema| prepared.is_fresh(schema)) {
            return None;
        }
        self.inner.local.borrow_mut().insert(prepared.clone());
        Some(prepared)
    }

    /// Returns the statement with that id, planned against the current schema, or `None` if the id
    /// is unknown or the statement no longer fits the schema. Waits only if a long text has to be
    /// planned again.
    pub async fn prepared(&self, id: &[u8]) -> Option<Arc<Prepared>> {
        if let Some(prepared) = self.planned(id) {
            return Some(prepared);
        }
        let id: [u8; 16] = id.try_into().ok()?;
        let schema = self.inner.database.store().schema();
        // Boxed, so that the futures of other statements stay small.
        let planned = Box::pin(planner::plan_again(&self.inner.shared, id, &schema)).await;
        // The cache of the process has this plan now, or a newer one if the schema changed
        // meanwhile. It has none if the statement no longer fits the schema.
        if let Some(newest) = self.planned_in_process(&id) {
            return Some(newest);
        }
        let mut local = self.inner.local.borrow_mut();
        match &planned {
            Some(prepared) => drop(local.insert(prepared.clone())),
            None => drop(local.remove(&id)),
        }
        planned
    }

    /// Plans a statement, to be executed with [`Self::execute`]. Waits only if the text is long.
    ///
    /// # Errors
    /// The text is not CQL or does not fit the schema, a guardrail refuses it, or there are too few
    /// or too many values.
    pub async fn plan(
        &self,
        text: &str,
        client: &ClientState,
        options: &QueryOptions<'_>,
    ) -> Result<Arc<Prepared>> {
        let keyspace = options.keyspace.or(client.keyspace.as_deref());
        let options = QueryOptions { is_exempt: is_exempt(client), ..*options };
        let schema = self.inner.database.store().schema();
        let planned = planner::plan_apart(text, keyspace, &schema).await;
        let prepared = Self::guarded(planned, Guard::of(&self.inner.database, &options))?;
        check_count(&prepared.bind.columns, options.values, |expected, given| {
            format!("Invalid amount of bind variables: expected {expected}, got {given}")
        })?;
        Ok(Arc::new(prepared))
    }

    /// Plans and executes a statement. `USE` changes the keyspace of `client`.
    ///
    /// # Errors
    /// Any error of [`Self::plan`] or [`Self::execute`].
    pub async fn query(
        &self,
        text: &str,
        client: &mut ClientState,
        options: &QueryOptions<'_>,
    ) -> Result<QueryResult> {
        let prepared = self.plan(text, client, options).await?;
        let result = self.execute(&prepared, client, options).await?;
        if let QueryResult::SetKeyspace(keyspace) = &result {
            client.keyspace = Some(keyspace.clone());
        }
        Ok(result)
    }

    /// Executes a prepared statement.
    ///
    /// # Errors
    /// The client may not execute the statement, a guardrail refuses it, the consistency level, a
    /// bound value or the paging state is invalid, a function has no result, the result is too
    /// large, the turn does not come in time, the time of USING TIMEOUT passes, a statement about
    /// the schema or roles does not fit them, or the storage fails.
    pub async fn execute(
        &self,
        prepared: &Arc<Prepared>,
        client: &ClientState,
        options: &QueryOptions<'_>,
    ) -> Result<QueryResult> {
        // A schema statement runs in the keyspace of its preparation, for which its permissions
        // were determined.
        let session = client.keyspace.as_ref().filter(|_| !matches!(prepared.plan, Plan::Schema));
        let keyspace = prepared.keyspace.as_ref().or(session).cloned();
        let login = client.login.as_deref();
        if let Some(login) = login {
            self.authorize(login, prepared).await?;
        }
        let options = &QueryOptions { is_exempt: is_exempt(client), ..*options };
        // A write to the tables of roles has no timeout, because it must end before the roles are
        // read again.
        let result = match prepared.timeout.as_ref().filter(|_| !prepared.changes_roles) {
            None => self.run(prepared, login, keyspace, options).await,
            Some(timeout) => {
                Box::pin(self.run_within(timeout, prepared, login, keyspace, options)).await
            }
        };
        if prepared.changes_roles {
            self.inner.auth.roles_changed();
        }
        result
    }

    /// Checks whether a client may execute a statement.
    ///
    /// # Errors
    /// Error 0x2100 if the client may not execute it, or the storage fails.
    async fn authorize(&self, login: &Login, prepared: &Prepared) -> Result<()> {
        match login.check_now(prepared) {
            Some(checked) => checked,
            None => Box::pin(login.check(&self.inner.database, prepared)).await,
        }
    }

    async fn run(
        &self,
        prepared: &Arc<Prepared>,
        login: Option<&Login>,
        keyspace: Option<String>,
        options: &QueryOptions<'_>,
    ) -> Result<QueryResult> {
        let database = &self.inner.database;
        let guard = Guard::of(database, options);
        guard::check_plan(&prepared.plan, options, guard)?;
        self.check_disk_usage(&prepared.plan, guard).await?;
        consistency::check(&prepared.plan, options)?;
        let applies_masks = self.applies_masks(&prepared.plan, login);
        let options = &QueryOptions { applies_masks, ..*options };
        if !consistency::is_serial(options.consistency)
            && !applies_masks
            && !guard.guardrails.guards_reads()
            && let Some(rows) = self.read_point_with_waits(prepared, options).await
        {
            return rows.map(QueryResult::Rows);
        }
        let now_us = time::now_micros();
        let values = match bind_values(&prepared.bind.columns, options.values) {
            Ok(values) => values,
            Err(invalid) => {
                return Err(Box::pin(first_error(prepared, options, now_us, invalid)).await);
            }
        };
        let evaluation = Evaluation { values: &values, now_us, references: &[] };
        let clocks = clocks(options, now_us);
        if let Some(statements) = turn_statements(prepared, &values) {
            let is_batch = matches!(prepared.plan, Plan::Batch(_));
            let request = turn_request(statements, is_batch, options, now_us);
            return Box::pin(self.take_turn(request, guard)).await;
        }
        self.run_plan(prepared, login, keyspace, options, &evaluation, clocks).await
    }

    /// Executes a statement for which [`turn_statements`] returns `None`.
    async fn run_plan(
        &self,
        prepared: &Arc<Prepared>,
        login: Option<&Login>,
        keyspace: Option<String>,
        options: &QueryOptions<'_>,
        evaluation: &Evaluation<'_>,
        clocks: Clocks,
    ) -> Result<QueryResult> {
        let database = &self.inner.database;
        let guard = Guard::of(database, options);
        match &prepared.plan {
            Plan::Select(select) => {
                let rows = if consistency::is_serial(options.consistency) {
                    let rows = self.read_serially(select, evaluation, options, clocks.now_s);
                    Box::pin(rows).await?
                } else {
                    select::execute(select, database, evaluation, options, clocks.now_s).await?
                };
                Ok(QueryResult::Rows(rows))
            }
            Plan::Modification(statement) => {
                self.modify(statement, evaluation, clocks, guard).await?;
                Ok(QueryResult::Void)
            }
            Plan::Batch(batch) => {
                let timestamp_us = batch.timestamp_us(evaluation, clocks.timestamp_us)?;
                let clocks = Clocks { timestamp_us, ..clocks };
                let statements = batch.statements.iter().map(|statement| (statement, *evaluation));
                self.write_batch(batch.kind, statements, clocks, guard).await
            }
            Plan::Transaction(_) => {
                let request = TransactionRequest {
                    prepared: prepared.clone(),
                    values: evaluation.values.into(),
                    now_s: clocks.now_s,
                    has_own_now: options.now_s.is_some(),
                    now_us: evaluation.now_us,
                    is_exempt: guard.is_exempt,
                };
                let executed = Box::pin(transaction::execute(database, request)).await;
                executed.map_err(Error::of_conditional)
            }
            Plan::Use(keyspace) => Ok(QueryResult::SetKeyspace(keyspace.clone())),
            // In boxes, because these futures are the largest. Without boxes, the future of every
            // request would be as large.
            Plan::Truncate(table) => Box::pin(self.truncate(*table)).await,
            Plan::Schema => {
                Box::pin(self.change_schema(prepared, login, keyspace.as_deref(), options)).await
            }
            Plan::Role { .. } => {
                let (text, keyspace) = (&prepared.text, keyspace.as_deref());
                let executed = auth::execute(database, &self.inner.auth, text, keyspace, login);
                let (result, warnings) = Box::pin(executed).await;
                if let Some(collected) = options.warnings {
                    collected.extend(warnings);
                }
                result
            }
            Plan::Describe => {
                let (schema, cluster) =
                    (database.store().schema(), Box::pin(self.cluster_name()).await);
                describe::execute(&schema, cluster, &prepared.text, keyspace.as_deref(), options)
            }
        }
    }

    /// Returns whether the answer to this client shows masks in place of the values of masked
    /// columns.
    fn applies_masks(&self, plan: &Plan, login: Option<&Login>) -> bool {
        let table = match plan {
            Plan::Select(select) if select.masked_selectors.is_some() => &select.table,
            Plan::Modification(statement) => &statement.table,
            // Only a conditional batch returns rows, and all its statements have the same table.
            Plan::Batch(batch) => match batch.statements.first() {
                Some(statement) => &statement.table,
                None => return false,
            },
            _ => return false,
        };
        self.masks_table(table, login)
    }

    /// Returns whether masks hide columns of a table from a client.
    pub(super) fn masks_table(&self, table: &TableMetadata, login: Option<&Login>) -> bool {
        table.has_masks()
            && self
                .inner
                .database
                .store()
                .configuration()
                .schema_features
                .dynamic_data_masking_enabled
            && login.is_some_and(|login| !login.unmasks(table))
    }

    async fn truncate(&self, id: TableId) -> Result<QueryResult> {
        let database = &self.inner.database;
        let schema = database.store().schema();
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

    /// Returns the cluster's name as `system.local` has it, if the node has written that row.
    async fn cluster_name(&self) -> Option<String> {
        const TEXT: &str = "SELECT cluster_name FROM system.local WHERE key = 'local'";
        let names = internal_query::read_texts(&self.inner.database, TEXT, &[]).await.ok()?;
        names.into_iter().find(|name| !name.is_empty())
    }
}

/// Returns whether a client is exempt from guardrails, because it has logged in as a superuser.
fn is_exempt(client: &ClientState) -> bool {
    client.login.as_ref().is_some_and(|login| login.is_superuser())
}

#[inline]
fn now_s_or(options: &QueryOptions<'_>, read_clock: impl FnOnce() -> i64) -> u32 {
    match options.now_s.and_then(|now| u32::try_from(now).ok()) {
        Some(now_s) => now_s,
        None => u32::try_from(read_clock()).unwrap_or(u32::MAX - 3),
    }
}

/// Derives the clocks of a statement from one reading of the clock.
#[inline]
fn clocks(options: &QueryOptions<'_>, now_us: i64) -> Clocks {
    Clocks {
        timestamp_us: options
            .timestamp_us
            .unwrap_or_else(|| time::next_timestamp_micros_at(now_us)),
        now_s: now_s_or(options, || now_us.div_euclid(1_000_000)),
    }
}
