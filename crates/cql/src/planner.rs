//! Planning: parses a statement's text and plans it against a schema.

use std::{
    borrow::Cow,
    sync::{Arc, atomic::AtomicU64},
};

use espalier_mutation::schema::{Schema, TableId, TableMetadata};
use espalier_runtime::{spawn_blocking_if_long, sync::Semaphore, trace_event};
use espalier_types::CqlType;

use crate::{
    Error, Result,
    auth::{Need, access::needs_of, obfuscate},
    batch::{PlannedBatch, check_statements},
    grammar::{
        self, SyntaxError,
        ast::{
            BindMarkers, DropObject, Expression, Modification, ObjectKind, Parsed, QualifiedName,
            Statement,
        },
    },
    metadata::{BindMetadata, ColumnSpec, ResultMetadata, statement_id},
    modify::plan_modification,
    prepared::{Plan, Prepared, PreparedCache},
    select::plan_select,
    term::{Preparation, Term, prepare_term},
    transaction::plan_transaction,
};

/// Parses and plans a statement.
///
/// # Errors
/// The text is not CQL or has more than 65,535 bind markers, the node does not support the
/// statement, or the statement does not fit the schema or may not change its table.
pub fn plan(text: &str, keyspace: Option<&str>, schema: &Arc<Schema>) -> Result<Prepared> {
    trace_event!("Parsing {}", obfuscate(text));
    let parsed = grammar::parse(text).map_err(|error| without_password(error, text))?;
    trace_event!("Preparing statement");
    if parsed.bind_markers.len() > usize::from(u16::MAX) {
        return Err(Error::invalid("Too many bind markers: at most 65535"));
    }
    let tables = Vec::new();
    let (uses_session_keyspace, timeout, parts) = (false, None, 0);
    let mut planner =
        Planner { text, keyspace, schema, tables, uses_session_keyspace, timeout, parts };
    let (plan, markers, key) = planner.statement(&parsed)?;
    let Planner { tables, uses_session_keyspace, timeout, parts, .. } = planner;
    let needs = needs_of(&plan, &parsed.statement, keyspace, schema);
    let keyspace = keyspace.filter(|_| uses_session_keyspace || !plan.names_tables());
    let result = match &plan {
        Plan::Select(select) => select.metadata.clone(),
        Plan::Transaction(transaction) => transaction.metadata(),
        _ => Arc::new(ResultMetadata::default()),
    };
    Ok(Prepared {
        id: statement_id(keyspace, text),
        text: text.to_string(),
        keyspace: keyspace.map(str::to_string),
        bind: BindMetadata { columns: markers, partition_key_indices: key },
        result,
        timeout,
        plan,
        parts,
        result_changed: false,
        schema: Arc::downgrade(schema),
        tables,
        depends_on_schema: needs_owner(&parsed.statement),
        changes_roles: needs.iter().any(Need::changes_roles),
        needs,
        passed: AtomicU64::new(0),
    })
}

/// Minimum length of a text, in bytes, that a helper thread plans. Arbitrary: the shard plans a
/// shorter text in a few milliseconds (estimated).
const LONG_TEXT: usize = 64 * 1024;

thread_local! {
    /// The permit to work on a long text. A shard works on one long text at a time.
    static LONG_TEXTS: Semaphore = Semaphore::new(1);
}

/// Parses and plans a statement as [`plan`] does. A long text, such as a batch of many thousand
/// statements, is planned on a helper thread, so that other clients of the shard do not wait for
/// it. The trace of the statement then lacks the events of its planning.
///
/// # Errors
/// As [`plan`].
pub async fn plan_apart(
    text: &str,
    keyspace: Option<&str>,
    schema: &Arc<Schema>,
) -> Result<Prepared> {
    if text.len() < LONG_TEXT {
        return plan(text, keyspace, schema);
    }
    let (text, keyspace, schema) =
        (text.to_owned(), keyspace.map(str::to_owned), Arc::clone(schema));
    let bytes = text.len();
    // Boxed, so that the futures of other statements stay small.
    Box::pin(run_apart(bytes, move || plan(&text, keyspace.as_deref(), &schema))).await
}

/// Returns the statement with that id. Plans it again if it is stale, a long text as [`plan_apart`]
/// does. If the statement no longer fits the schema, removes it from the cache, so that the next
/// look-up of the id costs nothing. The schema may change while this look-up waits, so it leaves a
/// plan in the cache that was made meanwhile.
pub async fn plan_again(
    cache: &Arc<PreparedCache>,
    id: [u8; 16],
    schema: &Arc<Schema>,
) -> Option<Arc<Prepared>> {
    let stale = cache.get(&id)?;
    if stale.is_fresh(schema) {
        return Some(stale);
    }
    trace_event!("The schema has changed: the statement must be prepared again");
    let (bytes, cache, schema) = (stale.text.len(), Arc::clone(cache), Arc::clone(schema));
    let planned = move || {
        // Another look-up may have planned or removed the statement while this one waited.
        let found = cache.get(&id)?;
        if found.is_fresh(&schema) {
            return Some(found);
        }
        if let Ok(planned) = plan(&stale.text, stale.keyspace.as_deref(), &schema) {
            return Some(cache.replace(&stale, planned));
        }
        cache.remove(&stale);
        None
    };
    run_apart(bytes, planned).await
}

/// Runs work on a statement's text of `bytes` bytes: on a helper thread if the text is long, so
/// that other clients of the shard do not wait for it.
pub async fn run_apart<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    spawn_blocking_if_long(bytes, LONG_TEXT, &LONG_TEXTS, work).await
}

/// Returns whether a statement needs a permission on the table to which its object belongs.
fn needs_owner(statement: &Statement<'_>) -> bool {
    use ObjectKind::{Index, MaterializedView};
    matches!(
        statement,
        Statement::DropObject(DropObject { kind: Index | MaterializedView, .. })
            | Statement::AlterView(_)
    )
}

/// Creates the error of a text that is not CQL. The error hides a text that may have a password.
fn without_password(error: SyntaxError, text: &str) -> Error {
    let error = Error::from(error);
    if matches!(obfuscate(text), Cow::Borrowed(_)) {
        return error;
    }
    let (place, _) = error.split_place();
    let place = place.map(|place| format!("line {place} ")).unwrap_or_default();
    let message =
        format!("{place}the statement is not CQL (its text is hidden, it may hold a password)");
    Error { message, ..error }
}

struct Planner<'a> {
    text: &'a str,
    keyspace: Option<&'a str>,
    schema: &'a Arc<Schema>,
    tables: Vec<(TableId, u64)>,
    /// True if a table name of the statement lacks its keyspace.
    uses_session_keyspace: bool,
    /// `USING TIMEOUT` of the statement.
    timeout: Option<Term>,
    /// See [`Prepared::parts`].
    parts: usize,
}

type Planned = (Plan, Vec<ColumnSpec>, Vec<u16>);

impl<'a> Planner<'a> {
    fn statement(&mut self, parsed: &'a Parsed<'a>) -> Result<Planned> {
        let plain = |plan| Ok((plan, Vec::new(), Vec::new()));
        match &parsed.statement {
            Statement::Select(select) => {
                let table = self.table(&select.table)?;
                let mut preparation = self.preparation(&table, &parsed.bind_markers);
                let planned = plan_select(&mut preparation, &table, select)?;
                self.timeout = plan_timeout(&mut preparation, select.timeout.as_ref())?;
                let key = preparation.key_indices(&table);
                Ok((Plan::Select(Box::new(planned)), self.finish(preparation)?, key))
            }
            Statement::Modification(statement) => {
                let table = self.table(statement.table())?;
                let mut preparation = self.preparation(&table, &parsed.bind_markers);
                let planned = plan_modification(&mut preparation, &table, statement)?;
                self.timeout = plan_timeout(&mut preparation, statement.using().timeout.as_ref())?;
                let key = preparation.key_indices(&table);
                Ok((Plan::Modification(Box::new(planned)), self.finish(preparation)?, key))
            }
            Statement::Batch(batch) => self.batch(batch, &parsed.bind_markers),
            Statement::Transaction(transaction) => {
                self.transaction(transaction, &parsed.bind_markers)
            }
            Statement::Use(statement) => {
                let keyspace = statement.keyspace.as_str();
                if self.schema.keyspace(keyspace).is_none() {
                    return Err(Error::invalid(format!("Keyspace '{keyspace}' does not exist")));
                }
                plain(Plan::Use(keyspace.to_string()))
            }
            Statement::Truncate(statement) => {
                let table = self.table(&statement.table)?;
                if table.is_view() {
                    return Err(Error::invalid(
                        "Cannot TRUNCATE materialized view directly; must truncate base table instead",
                    ));
                }
                let mut preparation = self.preparation(&table, &parsed.bind_markers);
                self.timeout = plan_timeout(&mut preparation, statement.timeout.as_ref())?;
                Ok((Plan::Truncate(table.id), self.finish(preparation)?, Vec::new()))
            }
            Statement::Describe(_) => plain(Plan::Describe),
            Statement::Role(statement) => plain(Plan::Role { is_list: statement.is_list() }),
            Statement::Unsupported(unsupported) => {
                Err(Error::invalid_at(self.text, unsupported.position, unsupported.to_string()))
            }
            Statement::CreateKeyspace(_)
            | Statement::AlterKeyspace(_)
            | Statement::DropKeyspace(_)
            | Statement::CreateTable(_)
            | Statement::CreateTableLike(_)
            | Statement::AlterTable(_)
            | Statement::DropTable(_)
            | Statement::CreateType(_)
            | Statement::AlterType(_)
            | Statement::DropType(_)
            | Statement::CreateIndex(_)
            | Statement::DropObject(_)
            | Statement::AlterView(_)
            | Statement::CreateView(_)
            | Statement::Annotate(_) => plain(Plan::Schema),
        }
    }

    /// Starts the preparation of a statement's terms.
    fn preparation(&self, table: &TableMetadata, markers: &'a BindMarkers<'a>) -> Preparation<'a> {
        Preparation::of_table(self.text, self.schema, table, markers)
    }

    /// Ends the preparation of a statement's terms. Returns the metadata of its markers.
    fn finish(&mut self, preparation: Preparation<'a>) -> Result<Vec<ColumnSpec>> {
        self.parts = preparation.fields.get() + preparation.terms;
        preparation.into_markers()
    }

    fn table(&mut self, name: &QualifiedName<'_>) -> Result<Arc<TableMetadata>> {
        let table = find_table(self.keyspace, self.schema, name)?;
        self.uses_session_keyspace |= name.keyspace.is_none();
        self.tables.push((table.id, table.version));
        Ok(table)
    }

    /// Refuses a timeout of a statement inside a batch or transaction.
    fn refuse_timeout(&self, statement: &Modification<'_>) -> Result<()> {
        match &statement.using().timeout {
            None => Ok(()),
            Some(timeout) => Err(Error::invalid_at(self.text, timeout.position, TIMEOUT_INSIDE)),
        }
    }

    fn transaction(
        &mut self,
        transaction: &'a grammar::ast::Transaction<'a>,
        markers: &'a BindMarkers<'a>,
    ) -> Result<Planned> {
        transaction.updates.iter().try_for_each(|statement| self.refuse_timeout(statement))?;
        let (keyspace, table) = ("[txn]".into(), "[txn]".into());
        let mut preparation = Preparation::new(self.text, self.schema, keyspace, table, markers);
        let mut find_table = |name: &QualifiedName<'_>| self.table(name);
        let planned = plan_transaction(&mut preparation, transaction, &mut find_table)?;
        let markers = self.finish(preparation)?;
        Ok((Plan::Transaction(Box::new(planned)), markers, Vec::new()))
    }

    fn batch(
        &mut self,
        batch: &'a grammar::ast::Batch<'a>,
        markers: &'a BindMarkers<'a>,
    ) -> Result<Planned> {
        let owner: Arc<str> = "[batch]".into();
        let mut preparation =
            Preparation::new(self.text, self.schema, owner.clone(), owner.clone(), markers);
        let mut statements = Vec::with_capacity(batch.statements.len());
        let mut first_table: Option<Arc<TableMetadata>> = None;
        for statement in &batch.statements {
            self.refuse_timeout(statement)?;
            let table = self.table(statement.table())?;
            preparation.enter(&table);
            statements.push(plan_modification(&mut preparation, &table, statement)?);
            first_table.get_or_insert(table);
        }
        // The options of the batch belong to no table.
        (preparation.keyspace, preparation.table) = (owner.clone(), owner);
        self.timeout = plan_timeout(&mut preparation, batch.using.timeout.as_ref())?;
        if batch.using.time_to_live.is_some() {
            return Err(Error::invalid("Global TTL on the BATCH statement is not supported."));
        }
        let receiver = preparation.receiver("[timestamp]", &espalier_types::CqlType::Bigint);
        let timestamp = batch
            .using
            .timestamp
            .as_ref()
            .map(|timestamp| prepare_term(&mut preparation, timestamp, &receiver))
            .transpose()?;
        let key = first_table.filter(|table| preparation.is_bound_to_one_table(table));
        let key = key.map(|table| preparation.key_indices(&table)).unwrap_or_default();
        check_statements(batch.kind, statements.iter(), timestamp.is_some())?;
        let plan = PlannedBatch { kind: batch.kind, timestamp, statements };
        Ok((Plan::Batch(Box::new(plan)), self.finish(preparation)?, key))
    }
}

/// The refusal of a timeout of a statement in a batch or transaction.
pub const TIMEOUT_INSIDE: &str =
    "A statement in a batch or transaction cannot have a TIMEOUT of its own; give it to the batch";

/// Plans `USING TIMEOUT`.
fn plan_timeout(
    preparation: &mut Preparation<'_>,
    timeout: Option<&Expression<'_>>,
) -> Result<Option<Term>> {
    let receiver = preparation.receiver("[timeout]", &CqlType::Duration);
    timeout.map(|timeout| prepare_term(preparation, timeout, &receiver)).transpose()
}

/// Finds the table that a name means. The errors have Cassandra's text without a place, because
/// clients compare the whole text.
///
/// # Errors
/// Error 0x2200 if no keyspace is given, or if the keyspace or the table does not exist.
fn find_table(
    keyspace: Option<&str>,
    schema: &Schema,
    name: &QualifiedName<'_>,
) -> Result<Arc<TableMetadata>> {
    let owner = name.keyspace_or(keyspace).ok_or_else(Error::no_keyspace)?;
    let Some(found) = schema.keyspace(owner) else {
        return Err(Error::invalid(format!("keyspace {owner} does not exist")));
    };
    let table = found.tables.get(name.name.as_str());
    table.cloned().ok_or_else(|| Error::invalid(format!("table {} does not exist", name.name)))
}
