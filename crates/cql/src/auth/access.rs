//! Computes the permissions that a statement needs, for the planner.

use espalier_mutation::schema::{ColumnDefinition, Schema, TableMetadata};

use super::AUTH_KEYSPACE;
use super::permission::Permission;
use super::resource::Resource;
use crate::ddl::find_index;
use crate::grammar;
use crate::grammar::ast::{AnnotateTarget, Name, ObjectKind, QualifiedName, Statement};
use crate::modify::PlannedModification;
use crate::prepared::Plan;
use crate::select::PlannedSelect;
use crate::transaction::PlannedTransaction;

/// One requirement of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// A permission on a resource or on a resource that contains it.
    Permission(Permission, Resource),
    /// UNMASK or SELECT_MASKED on a table, because WHERE or IF restricts these masked columns.
    QueryMasked(Resource, Vec<String>),
    /// The superuser status; the text is the error for other clients.
    Superuser(&'static str),
}

impl Need {
    /// Returns whether a statement with this need writes to a table of roles and permissions.
    pub(crate) fn changes_roles(&self) -> bool {
        matches!(self, Self::Permission(Permission::Modify, resource)
            if resource.keyspace() == Some(AUTH_KEYSPACE))
    }

    /// Returns the need of a query. SELECT on a table permits to read its views.
    fn of_read(table: &TableMetadata) -> Self {
        Self::Permission(Permission::Select, resource_of_reads(table))
    }

    /// Returns the need of a statement whose conditions are on these masked columns.
    fn to_query(table: &TableMetadata, masked: Vec<String>) -> Option<Self> {
        (!masked.is_empty()).then(|| Self::QueryMasked(resource_of_reads(table), masked))
    }

    fn of_table(permission: Permission, table: &TableMetadata) -> Self {
        let resource = Resource::Table(table.keyspace.clone(), table.name.clone());
        Self::Permission(permission, resource)
    }
}

/// Returns the table whose permissions decide what a role reads: the base table of a view.
pub(super) fn resource_of_reads(table: &TableMetadata) -> Resource {
    let name = table.view.as_ref().map_or(&table.name, |view| &view.base_name);
    Resource::Table(table.keyspace.clone(), name.clone())
}

/// Returns the needs of a plan in the order of the checks. Statements about roles do their own
/// checks.
pub(crate) fn needs_of(
    plan: &Plan,
    statement: &Statement<'_>,
    keyspace: Option<&str>,
    schema: &Schema,
) -> Vec<Need> {
    match plan {
        Plan::Select(select) => selection(select),
        Plan::Modification(statement) => modification(statement),
        Plan::Batch(batch) => batch.statements.iter().flat_map(modification).collect(),
        Plan::Transaction(transaction) => transaction_needs(transaction),
        Plan::Truncate(id) => {
            let table = schema.table_by_id(*id);
            table.map(|table| Need::of_table(Permission::Modify, table)).into_iter().collect()
        }
        Plan::Schema => schema_change(statement, keyspace, schema),
        Plan::Use(_) | Plan::Describe | Plan::Role { .. } => Vec::new(),
    }
}

fn selection(select: &PlannedSelect) -> Vec<Need> {
    let mut needs = vec![Need::of_read(&select.table)];
    needs.extend(Need::to_query(&select.table, select.restricted_masks.clone()));
    needs
}

/// Returns the needs of a modification. A conditional write and a write to a table with views need
/// SELECT, too, because they read rows. The writes to the views need MODIFY on each view.
///
/// The outcome of a condition shows whether a row with this primary key exists, so the masked
/// columns of the key count as queried, as do those of the condition. Cassandra requires only
/// SELECT for a condition, and shows the values of masked columns.
fn modification(statement: &PlannedModification) -> Vec<Need> {
    let table = &statement.table;
    let mut needs = vec![Need::of_table(Permission::Modify, table)];
    if !statement.condition.is_none() || table.has_views() {
        needs.push(Need::of_table(Permission::Select, table));
    }
    let view = |name: &String| Resource::Table(table.keyspace.clone(), name.clone());
    let views = table.views.iter().map(view);
    needs.extend(views.map(|view| Need::Permission(Permission::Modify, view)));
    if !statement.condition.is_none() && table.has_masks() {
        let conditions = statement.condition.columns();
        let is_tested = |column: &ColumnDefinition| {
            column.is_primary_key()
                || conditions.iter().any(|one| one.target.column().name == column.name)
        };
        let masked = table.columns().iter().filter(|column| table.mask_of(column).is_some());
        let tested = masked.filter(|column| is_tested(column));
        needs.extend(Need::to_query(table, tested.map(|one| one.name.clone()).collect()));
    }
    needs
}

fn transaction_needs(transaction: &PlannedTransaction) -> Vec<Need> {
    let mut needs = Vec::new();
    for read in transaction.selects() {
        needs.push(Need::of_read(&read.table));
        // References and conditions could probe a masked value.
        if read.table.has_masks() {
            needs.push(Need::of_table(Permission::Unmask, &read.table));
        }
    }
    needs.extend(transaction.updates.iter().flat_map(modification));
    needs
}

/// Returns the need of a change of a view: ALTER of its base table.
fn of_view(schema: &Schema, keyspace: Option<String>, name: &QualifiedName<'_>) -> Option<Need> {
    let keyspace = keyspace?;
    let view = schema.table(&keyspace, name.name.as_str())?.view.as_ref()?;
    let base = Resource::Table(keyspace, view.base_name.clone());
    Some(Need::Permission(Permission::Alter, base))
}

/// Returns the needs of a schema statement that is applied to this schema. A text that is not CQL
/// has none, because its execution fails.
pub(crate) fn needs_of_schema_change(
    text: &str,
    keyspace: Option<&str>,
    schema: &Schema,
) -> Vec<Need> {
    let parsed = grammar::parse(text);
    parsed.map_or_else(|_| Vec::new(), |parsed| schema_change(&parsed.statement, keyspace, schema))
}

fn schema_change(statement: &Statement<'_>, keyspace: Option<&str>, schema: &Schema) -> Vec<Need> {
    let owner = |name: &QualifiedName<'_>| name.keyspace_or(keyspace).map(str::to_owned);
    let all_tables = |permission, name| {
        owner(name).map(|keyspace| Need::Permission(permission, Resource::AllTables(keyspace)))
    };
    let table = |permission, name: &QualifiedName<'_>| {
        let resource = |keyspace| Resource::Table(keyspace, name.name.as_str().to_owned());
        owner(name).map(|keyspace| Need::Permission(permission, resource(keyspace)))
    };
    let of_keyspace = |permission, name: &Name<'_>| {
        Some(Need::Permission(permission, Resource::Keyspace(name.as_str().to_owned())))
    };
    let need = match statement {
        Statement::CreateKeyspace(_) => {
            Some(Need::Permission(Permission::Create, Resource::AllKeyspaces))
        }
        Statement::AlterKeyspace(statement) => of_keyspace(Permission::Alter, &statement.name),
        Statement::DropKeyspace(statement) => of_keyspace(Permission::Drop, &statement.name),
        Statement::CreateTable(statement) => all_tables(Permission::Create, &statement.name),
        Statement::AlterTable(statement) => table(Permission::Alter, &statement.name),
        Statement::DropTable(statement) => table(Permission::Drop, &statement.name),
        Statement::CreateType(statement) => all_tables(Permission::Create, &statement.name),
        Statement::AlterType(statement) => all_tables(Permission::Alter, &statement.name),
        Statement::DropType(statement) => all_tables(Permission::Drop, &statement.name),
        Statement::DropObject(statement) => match &statement.kind {
            ObjectKind::Trigger { .. } => {
                Some(Need::Superuser("Only superusers are allowed to perfrom DROP TRIGGER queries"))
            }
            // An index belongs to a table, on which ALTER is needed.
            ObjectKind::Index => owner(&statement.name).and_then(|keyspace| {
                let index = statement.name.name.as_str();
                let (table, _) = find_index(schema.keyspace(&keyspace)?, index)?;
                Some(Need::of_table(Permission::Alter, table))
            }),
            // A view belongs to its base table.
            ObjectKind::MaterializedView => {
                of_view(schema, owner(&statement.name), &statement.name)
            }
            // The node has no user-defined functions and aggregates to drop.
            _ => None,
        },
        Statement::CreateIndex(statement) => table(Permission::Alter, &statement.table),
        Statement::CreateView(statement) => owner(&statement.name).map(|keyspace| {
            let base = statement.base.name.as_str().to_owned();
            Need::Permission(Permission::Alter, Resource::Table(keyspace, base))
        }),
        Statement::AlterView(statement) => of_view(schema, owner(&statement.name), &statement.name),
        Statement::Annotate(statement) => match &statement.target {
            AnnotateTarget::Keyspace(name) => of_keyspace(Permission::Alter, name),
            AnnotateTarget::Table(name) | AnnotateTarget::Column(name, _) => {
                table(Permission::Alter, name)
            }
            AnnotateTarget::Type(name) | AnnotateTarget::Field(name, _) => {
                all_tables(Permission::Alter, name)
            }
        },
        Statement::CreateTableLike(statement) => {
            return table(Permission::Select, &statement.source)
                .into_iter()
                .chain(all_tables(Permission::Create, &statement.name))
                .collect();
        }
        _ => Some(Need::Superuser("Only superusers are allowed to perform this statement")),
    };
    need.into_iter().collect()
}
