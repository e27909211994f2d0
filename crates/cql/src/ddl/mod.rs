//! Schema statements: CREATE, ALTER and DROP of keyspaces, tables, types, indexes and materialized
//! views, COMMENT ON and SECURITY LABEL ON.
//!
//! [`apply`] computes the new schema from the text of a statement and the old schema, and changes
//! nothing itself. Storage runs one schema change at a time: it calls [`apply`], writes the
//! difference to the schema tables and publishes the new schema to all shards.

mod alter_table;
mod annotate;
mod clustering_order;
mod compact_table;
mod constraint;
mod copy_table;
mod create_index;
mod create_table;
mod drop_object;
mod events;
mod guardrails;
mod index_class;
mod keyspace;
mod mask;
mod option_values;
mod options;
mod protected;
mod replication;
mod scylla_options;
mod text_index;
mod type_check;
mod user_type;
mod vector_index;
mod view;

pub(crate) use create_index::find as find_index;
pub(crate) use scylla_options::describe as describe_scylla_option;
pub(crate) use type_check::contains_duration;

use std::sync::{Arc, Mutex, PoisonError};

use espalier_mutation::schema::{KeyspaceMetadata, Schema, TableMetadata};
use espalier_runtime::random;
use espalier_storage::{
    Guardrails, MemtableConfigurations, Node, SchemaFeatures, StorageConfiguration, Warnings,
};
use futures_util::future::LocalBoxFuture;

use crate::{
    ChangeKind, ChangeTarget, Error, ErrorCode, ErrorDetail, QueryResult, Result, SchemaChange,
    grammar::{
        self,
        ast::{Name, Position, QualifiedName, Statement},
    },
    guard::Guard,
};

pub use espalier_storage::system::is_system_keyspace;
pub use protected::is_replicated_system_keyspace;

/// The new schema and the change, or `None` if the statement leaves the schema unchanged.
type Outcome = Result<Option<(Schema, SchemaChange)>>;

/// Executes a schema statement. Returns `None`, and changes nothing, if `is_permitted` returns
/// false for the schema to which the statement would be applied. Other changes may precede the
/// statement, so the schema may differ from the one of its planning.
///
/// # Errors
/// [`apply`] refuses the statement, or the storage cannot write the new schema or install it on all
/// shards.
pub fn execute<'a>(
    database: &'a Node,
    text: &'a str,
    keyspace: Option<&'a str>,
    guard: Guard<'a>,
    is_permitted: impl FnOnce(&Schema) -> bool + Send + 'a,
) -> LocalBoxFuture<'a, Result<Option<QueryResult>>> {
    Box::pin(async move {
        let (text, keyspace) = (text.to_string(), keyspace.map(str::to_string));
        let node = NodeSettings {
            is_exempt: guard.is_exempt,
            ..NodeSettings::of(database.store().configuration())
        };
        let report = Arc::new(Mutex::new(Report::default()));
        let reported = report.clone();
        let changed = database
            .change_schema(move |schema: &Schema| -> Result<Option<Schema>, Option<Error>> {
                if !is_permitted(schema) {
                    return Err(None);
                }
                let outcome = apply(&text, keyspace.as_deref(), schema, Some(&node));
                let mut reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
                reported.warnings = node.warnings.take();
                Ok(outcome?.map(|(schema, change)| {
                    reported.change = Some(change);
                    schema
                }))
            })
            .await;
        let report = std::mem::take(&mut *report.lock().unwrap_or_else(PoisonError::into_inner));
        report.warnings.into_iter().for_each(|text| guard.warn(text));
        let changed = match changed? {
            Ok(changed) => changed,
            Err(None) => return Ok(None),
            Err(Some(error)) => return Err(error),
        };
        Ok(Some(match report.change {
            Some(change) if changed => QueryResult::SchemaChange(change),
            _ => QueryResult::Void,
        }))
    })
}

/// The outcome of a schema statement in addition to the new schema.
#[derive(Default)]
struct Report {
    change: Option<SchemaChange>,
    warnings: Vec<String>,
}

/// The settings of a node that schema statements depend on, and the warnings of one statement.
pub struct NodeSettings {
    memtables: MemtableConfigurations,
    features: SchemaFeatures,
    guardrails: Arc<Guardrails>,
    warnings: Warnings,
    /// True if the client is exempt from guardrails, as a superuser is.
    is_exempt: bool,
}

impl NodeSettings {
    /// Copies the settings from a configuration.
    pub fn of(configuration: &StorageConfiguration) -> Self {
        Self {
            memtables: configuration.memtables.configurations.clone(),
            features: configuration.schema_features,
            guardrails: configuration.guardrails.clone(),
            warnings: Warnings::default(),
            is_exempt: false,
        }
    }
}

/// Applies a schema statement to a schema. `node` is `None` if a tool reads a schema file without a
/// node.
///
/// # Errors
/// The text is not CQL or not a schema statement, users may not change the keyspace, a guardrail or
/// a setting of the node refuses the statement, or the statement does not fit the schema.
pub fn apply(
    text: &str,
    keyspace: Option<&str>,
    schema: &Schema,
    node: Option<&NodeSettings>,
) -> Outcome {
    let parsed = grammar::parse(text)?;
    let context = Context { text, keyspace, schema, node };
    protected::check(&context, &parsed.statement)?;
    guardrails::check(&context, &parsed.statement)?;
    mask::check_enabled(&context, &parsed.statement)?;
    let outcome = match &parsed.statement {
        Statement::CreateKeyspace(statement) => keyspace::create(&context, statement),
        Statement::AlterKeyspace(statement) => keyspace::alter(&context, statement),
        Statement::DropKeyspace(statement) => keyspace::drop(&context, statement),
        Statement::CreateTable(statement) => create_table::create(&context, statement),
        Statement::CreateTableLike(statement) => copy_table::create(&context, statement),
        Statement::AlterTable(statement) => alter_table::alter(&context, statement),
        Statement::DropTable(statement) => create_table::drop(&context, statement),
        Statement::CreateType(statement) => user_type::create(&context, statement),
        Statement::AlterType(statement) => user_type::alter(&context, statement),
        Statement::DropType(statement) => user_type::drop(&context, statement),
        Statement::CreateIndex(statement) => create_index::create(&context, statement),
        Statement::DropObject(statement) => drop_object::drop(&context, statement),
        Statement::Annotate(statement) => annotate::annotate(&context, statement),
        Statement::CreateView(statement) => view::create(&context, statement, &parsed.bind_markers),
        Statement::AlterView(statement) => view::alter(&context, statement),
        _ => Err(Error::new(ErrorCode::ServerError, "not a schema statement")),
    }?;
    Ok(outcome.map(|(changed, mut change)| {
        let changed = annotate::without_dropped(changed, &change.keyspace);
        change.further = events::further_changes(schema, &changed, &change);
        (changed, change)
    }))
}

/// The input that all schema statements share.
struct Context<'a> {
    text: &'a str,
    keyspace: Option<&'a str>,
    schema: &'a Schema,
    node: Option<&'a NodeSettings>,
}

impl Context<'_> {
    /// Creates an error 0x2200 with the place in the text.
    fn invalid(&self, position: Position, message: impl AsRef<str>) -> Error {
        Error::invalid_at(self.text, position, message)
    }

    /// Returns the guardrails of the node.
    fn guard(&self) -> Option<Guard<'_>> {
        let node = self.node?;
        let (guardrails, warnings) = (&*node.guardrails, Some(&node.warnings));
        Some(Guard { guardrails, warnings, is_exempt: node.is_exempt })
    }

    fn keyspace_name<'n>(&'n self, name: &'n QualifiedName<'_>) -> Result<&'n str> {
        name.keyspace_or(self.keyspace).ok_or_else(Error::no_keyspace)
    }

    /// Returns the keyspace of a name, if users may change it.
    fn changeable_keyspace(&self, name: &QualifiedName<'_>) -> Result<&Arc<KeyspaceMetadata>> {
        let keyspace = self.keyspace_name(name)?;
        check_changeable(keyspace)?;
        self.schema.keyspace(keyspace).ok_or_else(|| {
            self.invalid(name.position(), format!("Keyspace '{keyspace}' doesn't exist"))
        })
    }

    /// Returns the schema with a keyspace added or replaced, and the change of its object `name`,
    /// which is empty for the keyspace itself.
    fn with_keyspace(
        &self,
        keyspace: KeyspaceMetadata,
        change: ChangeKind,
        target: ChangeTarget,
        name: &str,
    ) -> Outcome {
        let change = changed(change, target, &keyspace.name, name);
        let mut keyspaces = self.schema.keyspaces.clone();
        keyspaces.insert(keyspace.name.clone(), Arc::new(keyspace));
        Ok(Some((Schema::new(keyspaces, random::uuid_v4()), change)))
    }

    /// Returns the schema with a table added to its keyspace or replaced there, and this change.
    fn with_table(
        &self,
        keyspace: &KeyspaceMetadata,
        table: TableMetadata,
        change: ChangeKind,
    ) -> Outcome {
        let (mut keyspace, name) = (keyspace.clone(), table.name.clone());
        keyspace.tables.insert(name.clone(), Arc::new(table));
        self.with_keyspace(keyspace, change, ChangeTarget::Table, &name)
    }
}

/// Returns no change if the statement has the IF EXISTS or IF NOT EXISTS that applies, otherwise
/// `error`.
fn unchanged_if(has_condition: bool, error: Error) -> Outcome {
    if has_condition { Ok(None) } else { Err(error) }
}

/// Returns the error of a statement on a table or type whose definition the node could not read at
/// its start.
fn unreadable(kind: &str, keyspace: &str, name: &str, reason: &str) -> Error {
    Error::invalid(format!(
        "{kind} '{keyspace}.{name}' exists, but this node cannot read it ({reason}); DROP {} removes its definition",
        kind.to_uppercase()
    ))
}

fn check_changeable(keyspace: &str) -> Result<()> {
    if is_system_keyspace(keyspace) {
        return Err(Error::new(
            ErrorCode::Unauthorized,
            format!("{keyspace} keyspace is not user-modifiable."),
        ));
    }
    Ok(())
}

/// Refuses a table name that is no valid directory name. The directory's name is the table's name
/// and id.
fn check_table_name(keyspace: &str, name: &str) -> Result<()> {
    let refuse = |reason| Error::configuration(format!("{keyspace}.{name}: Table name {reason}"));
    if !is_word(name) {
        return Err(refuse(format!(
            "must not be empty or not contain non-alphanumeric-underscore characters (got \"{name}\")"
        )));
    }
    check_length(name, 222).map_err(refuse)
}

/// Refuses a keyspace name that is no valid directory name.
fn check_keyspace_name(name: &str) -> Result<()> {
    let refuse = |reason| Error::invalid(format!("Keyspace name {reason}"));
    if !is_word(name) {
        return Err(refuse(format!(
            "must not be empty and must contain alphanumeric or underscore characters only (got \"{name}\")"
        )));
    }
    check_length(name, 48).map_err(refuse)
}

/// Maximum length of the names of columns, user types and fields, in bytes. It is below 2^16,
/// because keys of the schema tables and strings of the native protocol store their length in 16
/// bits.
const MAX_NAME_BYTES: usize = 1 << 15;

/// Refuses a name that is too long for the schema tables and for drivers.
fn check_name_length(text: &str, name: &Name<'_>) -> Result<()> {
    if name.as_str().len() <= MAX_NAME_BYTES {
        return Ok(());
    }
    let message = format!("A name may have at most {MAX_NAME_BYTES} bytes");
    Err(Error::invalid_at(text, name.position, message))
}

fn is_word(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn check_length(name: &str, maximum: usize) -> std::result::Result<(), String> {
    if name.len() <= maximum {
        return Ok(());
    }
    let length = name.len();
    Err(format!(
        "must not be more than {maximum} characters long (got {length} characters for \"{name}\")"
    ))
}

fn already_exists(keyspace: &str, table: &str) -> Error {
    let message = match table {
        "" => format!("Cannot add existing keyspace \"{keyspace}\""),
        table => {
            format!("Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\"")
        }
    };
    let detail = ErrorDetail::AlreadyExists { keyspace: keyspace.into(), table: table.into() };
    Error { code: ErrorCode::AlreadyExists, message, detail }
}

fn changed(change: ChangeKind, target: ChangeTarget, keyspace: &str, name: &str) -> SchemaChange {
    let (keyspace, name) = (keyspace.into(), name.into());
    SchemaChange { change, target, keyspace, name, further: Vec::new() }
}
