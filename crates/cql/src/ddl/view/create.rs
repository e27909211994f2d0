//! Executes CREATE MATERIALIZED VIEW.

use std::sync::Arc;

use espalier_mutation::schema::{
    ColumnDefinition, ColumnKind, KeyspaceMetadata, TableBuilder, TableMetadata, ViewDefinition,
};
use espalier_storage::guardrails::Limit;
use espalier_types::CqlType;
use hashbrown::HashSet;

use super::{
    super::{
        Context, Outcome, already_exists, check_table_name, contains_duration,
        create_table::table_id,
        guardrails,
        options::{find_property, new_options},
        unchanged_if, unreadable,
    },
    condition::{plan_where, where_text},
};
use crate::{
    ChangeKind, ChangeTarget, Result,
    grammar::ast::{BindMarkers, CreateView, ExpressionKind, Name, Selection},
    term::Preparation,
};

/// Executes CREATE MATERIALIZED VIEW.
///
/// # Errors
/// Views are switched off, the base table does not exist or cannot have views, the view exists and
/// the statement lacks IF NOT EXISTS, or its columns, key, conditions or options are invalid.
pub(in super::super) fn create(
    context: &Context<'_>,
    statement: &CreateView<'_>,
    markers: &BindMarkers<'_>,
) -> Outcome {
    let (name, base_name) = (statement.name.name.as_str(), statement.base.name.as_str());
    let keyspace_name = context.keyspace_name(&statement.name)?;
    if let Some(other) = &statement.base.keyspace
        && other.as_str() != keyspace_name
    {
        let message = "Cannot create a materialized view on a table in a different keyspace";
        return Err(context.invalid(other.position, message));
    }
    if !markers.is_empty() {
        let message = "Bind variables are not allowed in CREATE MATERIALIZED VIEW statements";
        return Err(context.invalid(statement.position, message));
    }
    if context.node.is_some_and(|node| !node.features.materialized_views_enabled) {
        let message = "Materialized views are disabled. Enable in cassandra.yaml to use.";
        return Err(context.invalid(statement.position, message));
    }
    let keyspace = context.changeable_keyspace(&statement.name)?;
    let found = keyspace.tables.get(base_name).filter(|table| !table.is_view());
    let base = found.ok_or_else(|| {
        let position = statement.base.position();
        context.invalid(position, format!("Base table '{base_name}' doesn't exist"))
    })?;
    if let Some(other) = keyspace.tables.get(name) {
        if !other.is_view() {
            let message = format!(
                "Cannot create materialized view '{name}' - a table with the same name already exists"
            );
            return Err(context.invalid(statement.name.position(), message));
        }
        return unchanged_if(statement.if_not_exists, already_exists(&keyspace.name, name));
    }
    if let Some(table) = keyspace.unreadable.tables.get(name) {
        return Err(unreadable("Table", &keyspace.name, name, &table.reason));
    }
    check_base(context, statement, base)?;
    let declaration = Declaration { context, statement, base };
    let selected = declaration.selected()?;
    declaration.check_key(&selected)?;
    let definition = declaration.definition(markers)?;
    let table = declaration.build(keyspace, &selected, definition)?;
    let mut views = base.views.clone();
    views.push(name.to_string());
    let mut changed_keyspace = keyspace.as_ref().clone();
    let altered = base.rebuild().views(views).build();
    changed_keyspace.tables.insert(base_name.to_string(), Arc::new(altered));
    changed_keyspace.tables.insert(name.to_string(), Arc::new(table));
    context.with_keyspace(changed_keyspace, ChangeKind::Created, ChangeTarget::Table, name)
}

/// Checks that a table can have one more view.
fn check_base(
    context: &Context<'_>,
    statement: &CreateView<'_>,
    base: &TableMetadata,
) -> Result<()> {
    let refuse = |message: String| Err(context.invalid(statement.base.position(), message));
    let name = statement.name.name.as_str();
    if base.is_counter() {
        return refuse("Materialized views are not supported on counter tables".into());
    }
    if base.is_compact() {
        return refuse("Materialized views of compact tables are not supported".into());
    }
    guardrails::judge(context, &statement.options.properties)?;
    if let Some(guard) = context.guard() {
        let what = format!("{name} on table {}", base.name);
        guard.check(Limit::MaterializedViewsPerTable, base.views.len() + 1, &what)?;
    }
    if base.options.gc_grace_seconds == 0 {
        return refuse(format!(
            "Cannot create materialized view '{name}' for base table '{}' with gc_grace_seconds of 0, since this value \
             is used to TTL undelivered updates. Setting gc_grace_seconds too low might cause undelivered updates to \
             expire before being replayed.",
            base.name
        ));
    }
    Ok(())
}

/// The columns, the key and the conditions as the statement declares them.
struct Declaration<'s> {
    context: &'s Context<'s>,
    statement: &'s CreateView<'s>,
    base: &'s Arc<TableMetadata>,
}

impl<'s> Declaration<'s> {
    fn name(&self) -> &'s str {
        self.statement.name.name.as_str()
    }

    /// Returns the columns of the SELECT.
    fn selected(&self) -> Result<Vec<&'s ColumnDefinition>> {
        let mut selected = Vec::new();
        match &self.statement.selection {
            Selection::All => selected.extend(self.base.columns()),
            Selection::Selectors(selectors) => {
                for selector in selectors {
                    let expression = &selector.expression;
                    if let Some(alias) = &selector.alias {
                        return Err(self.context.invalid(
                            expression.position,
                            format!(
                                "Cannot use aliases when defining a materialized view (got {expression} as {alias})"
                            ),
                        ));
                    }
                    let ExpressionKind::Column(name) = &expression.kind else {
                        return Err(self.context.invalid(
                            expression.position,
                            format!(
                                "Can only select columns by name when defining a materialized view (got {expression})"
                            ),
                        ));
                    };
                    let column = self.base.column(name.as_str()).ok_or_else(|| {
                        let TableMetadata { keyspace, name: table, .. } = self.base.as_ref();
                        self.context.invalid(
                            name.position,
                            format!("Undefined column name {name} in table {keyspace}.{table}"),
                        )
                    })?;
                    if !selected.iter().any(|other: &&ColumnDefinition| other.id == column.id) {
                        selected.push(column);
                    }
                }
            }
        }
        if let Some(column) = selected.iter().find(|column| column.kind == ColumnKind::Static) {
            return Err(self.context.invalid(
                self.statement.position,
                format!(
                    "Cannot include static column '{}' in materialized view '{}'",
                    column.name,
                    self.name()
                ),
            ));
        }
        Ok(selected)
    }

    fn key_names(&self) -> impl Iterator<Item = &'s Name<'s>> {
        let key = &self.statement.primary_key;
        key.partition.iter().chain(&key.clustering)
    }

    /// Checks the primary key of the view.
    fn check_key(&self, selected: &[&ColumnDefinition]) -> Result<()> {
        let view = self.name();
        let mut seen = HashSet::new();
        for name in self.key_names() {
            let column = selected.iter().find(|column| column.name == name.as_str());
            let column = column.ok_or_else(|| {
                self.context.invalid(
                    name.position,
                    format!(
                        "Unknown column '{name}' referenced in PRIMARY KEY for materialized view '{view}'"
                    ),
                )
            })?;
            if !seen.insert(name.as_str()) {
                return Err(self.context.invalid(
                    name.position,
                    format!("Duplicate column '{name}' in PRIMARY KEY clause for materialized view '{view}'"),
                ));
            }
            check_type(column).map_err(|message| self.context.invalid(name.position, message))?;
        }
        self.check_order()?;
        let key = self.base.columns().iter().filter(|column| column.is_primary_key());
        let missing: Vec<&str> =
            key.map(|column| column.name.as_str()).filter(|name| !seen.contains(name)).collect();
        if !missing.is_empty() {
            return Err(self.context.invalid(
                self.statement.primary_key.position,
                format!(
                    "Cannot create materialized view '{view}' without primary key columns {} from base table '{}'",
                    missing.join(", "),
                    self.base.name
                ),
            ));
        }
        let is_regular = |name: &&Name<'_>| {
            self.base.column(name.as_str()).is_some_and(|column| !column.is_primary_key())
        };
        let others: Vec<&str> = self.key_names().filter(is_regular).map(Name::as_str).collect();
        if others.len() > 1 {
            return Err(self.context.invalid(
                self.statement.primary_key.position,
                format!(
                    "Cannot include more than one non-primary key column in materialized view primary key (got {})",
                    others.join(", ")
                ),
            ));
        }
        Ok(())
    }

    /// Checks CLUSTERING ORDER BY, which must name all clustering columns.
    fn check_order(&self) -> Result<()> {
        let order = &self.statement.options.clustering_order;
        for (index, (name, _)) in order.iter().enumerate() {
            if order[..index].iter().any(|(other, _)| other == name) {
                return Err(self.context.invalid(
                    name.position,
                    format!(
                        "Duplicate column '{name}' in CLUSTERING ORDER BY clause for view '{}'",
                        self.name()
                    ),
                ));
            }
        }
        let Some((first, _)) = order.first() else { return Ok(()) };
        let named: Vec<&Name<'_>> = order.iter().map(|(name, _)| name).collect();
        let clustering: Vec<&Name<'_>> = self.statement.primary_key.clustering.iter().collect();
        if named != clustering {
            let message = "Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive";
            return Err(self.context.invalid(first.position, message));
        }
        Ok(())
    }

    /// Plans the WHERE clause.
    fn definition(&self, markers: &BindMarkers<'_>) -> Result<ViewDefinition> {
        let (base, clause) = (self.base, &self.statement.where_clause);
        let is_token = |relation: &&crate::grammar::ast::Relation<'_>| {
            matches!(relation.target, crate::grammar::ast::RelationTarget::Token(_))
        };
        if let Some(relation) = clause.relations.iter().find(is_token) {
            let message = "Cannot use token relation when defining a materialized view";
            return Err(self.context.invalid(relation.position, message));
        }
        if let Some(custom) = clause.custom.first() {
            return Err(self.context.invalid(
                custom.position,
                format!(
                    "WHERE clause for materialized view '{}' cannot contain custom index expressions",
                    self.name()
                ),
            ));
        }
        let mut preparation =
            Preparation::of_table(self.context.text, self.context.schema, base, markers);
        let planned = plan_where(&mut preparation, base, clause)?;
        let is_free = |name: &&str| !planned.restricted.iter().any(|other| other == name);
        let free: Vec<&str> = self.key_names().map(Name::as_str).filter(is_free).collect();
        if !free.is_empty() {
            return Err(self.context.invalid(
                self.statement.primary_key.position,
                format!(
                    "Primary key columns {} must be restricted with 'IS NOT NULL' or otherwise",
                    free.join(", ")
                ),
            ));
        }
        let is_regular =
            |name: &&String| base.column(name).is_some_and(|column| !column.is_primary_key());
        let restricted: Vec<&str> =
            planned.by_value.iter().filter(is_regular).map(String::as_str).collect();
        if !restricted.is_empty() {
            return Err(self.context.invalid(
                self.statement.position,
                format!(
                    "Non-primary key columns can only be restricted with 'IS NOT NULL' (got: {} restricted illegally)",
                    restricted.join(",")
                ),
            ));
        }
        Ok(ViewDefinition {
            base: base.id,
            base_name: base.name.clone(),
            includes_all_columns: matches!(self.statement.selection, Selection::All),
            where_clause: where_text(clause),
            conditions: planned.conditions,
        })
    }

    fn build(
        &self,
        keyspace: &KeyspaceMetadata,
        selected: &[&ColumnDefinition],
        definition: ViewDefinition,
    ) -> Result<TableMetadata> {
        let statement = self.statement;
        let properties = &statement.options.properties;
        let unignored = guardrails::unignored(self.context, properties);
        let options = new_options(self.context, &unignored)?;
        if let Some(property) = find_property(unignored, "default_time_to_live") {
            return Err(self.context.invalid(
                property.name.position,
                "Cannot set default_time_to_live for a materialized view. Data in a materialized view always expire at \
                 the same time than the corresponding data in the parent table.",
            ));
        }
        check_table_name(&keyspace.name, self.name())?;
        let id = table_id(self.context, properties)?;
        let mut builder = TableBuilder::new(keyspace.name.as_str(), self.name(), id);
        let key = &statement.primary_key;
        let of_base = |name: &Name<'_>| self.base.column(name.as_str());
        for column in key.partition.iter().filter_map(of_base) {
            builder = builder.partition_key(&column.name, column.column_type.clone());
        }
        for column in key.clustering.iter().filter_map(of_base) {
            let mut order = statement.options.clustering_order.iter();
            let given = order.find(|(name, _)| name.as_str() == column.name);
            let reversed = given.map_or(column.reversed, |(_, descending)| *descending);
            builder = builder.clustering(&column.name, column.column_type.clone(), reversed);
        }
        for column in selected {
            if !self.key_names().any(|name| name.as_str() == column.name) {
                builder = builder.regular(&column.name, column.column_type.clone());
            }
        }
        for column in self.base.columns() {
            builder = builder.mask(&column.name, self.base.mask_of(column).cloned());
        }
        Ok(builder.options(options).view(definition).build())
    }
}

/// Refuses a column that cannot be in a primary key.
fn check_type(column: &ColumnDefinition) -> std::result::Result<(), String> {
    let ColumnDefinition { name, column_type, .. } = column;
    let shown = column_type.marshal_name();
    if column_type.is_multi_cell() {
        let kind = if column_type.is_collection() { "collection" } else { "user-defined" };
        return Err(format!(
            "Invalid non-frozen {kind} type '{shown}' for PRIMARY KEY column '{name}'"
        ));
    }
    if matches!(column_type, CqlType::Counter) {
        return Err(format!("counter type is not supported for PRIMARY KEY column '{name}'"));
    }
    if contains_duration(column_type) {
        return Err(format!("duration type is not supported for PRIMARY KEY column '{name}'"));
    }
    Ok(())
}
