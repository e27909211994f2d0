//! CREATE, ALTER and DROP MATERIALIZED VIEW, and the changes that ALTER TABLE of a base table makes
//! to its views. The messages and the order of the checks are Cassandra's.

mod condition;
mod create;

use std::{borrow::Cow, sync::Arc};

use espalier_mutation::schema::{KeyspaceMetadata, TableMetadata, ViewDefinition};

use super::{
    Context, Outcome, check_changeable,
    drop_object::changeable,
    guardrails,
    options::{check_no_id, set_options},
    unchanged_if,
};
use crate::{
    ChangeKind, ChangeTarget,
    grammar::{
        self,
        ast::{AlterView, DropObject, Name, RelationTarget, Statement},
    },
};

use condition::where_text;
pub(super) use create::create;

/// Executes ALTER MATERIALIZED VIEW.
///
/// # Errors
/// The keyspace is not given or not changeable, the view does not exist and the statement lacks IF
/// EXISTS, or an option is invalid.
pub(super) fn alter(context: &Context<'_>, statement: &AlterView<'_>) -> Outcome {
    let keyspace = changeable(context, &statement.name)?;
    let name = statement.name.name.as_str();
    let found = context.schema.keyspace(keyspace).and_then(|owner| {
        let view = owner.tables.get(name).filter(|table| table.is_view())?;
        Some((owner, view))
    });
    let Some((owner, view)) = found else {
        let message = format!("Materialized view '{keyspace}.{name}' doesn't exist");
        let missing = context.invalid(statement.name.position(), message);
        return unchanged_if(statement.if_exists, missing);
    };
    check_no_id(&statement.properties)?;
    guardrails::judge(context, &statement.properties)?;
    let properties = guardrails::unignored(context, &statement.properties);
    let altered = set_options(context, view.options.clone(), &properties)?;
    let refuse = |message| Err(context.invalid(statement.position, message));
    if altered.gc_grace_seconds == 0 {
        return refuse(
            "Cannot alter gc_grace_seconds of a materialized view to 0, since this value is used to TTL undelivered \
             updates. Setting gc_grace_seconds too low might cause undelivered updates to expire before being replayed.",
        );
    }
    if altered.default_time_to_live > 0 {
        return refuse(
            "Forbidden default_time_to_live detected for a materialized view. Data in a materialized view always \
             expire at the same time than the corresponding data in the parent table. default_time_to_live must be \
             set to zero, see CASSANDRA-12868 for more information",
        );
    }
    if altered == view.options {
        return Ok(None);
    }
    context.with_table(owner, view.rebuild().options(altered).build(), ChangeKind::Updated)
}

/// Executes DROP MATERIALIZED VIEW; returns `None` if the view does not exist.
pub(super) fn drop(context: &Context<'_>, statement: &DropObject<'_>, keyspace: &str) -> Outcome {
    let name = statement.name.name.as_str();
    let Some(keyspace) = context.schema.keyspace(keyspace) else { return Ok(None) };
    let Some(view) = keyspace.tables.get(name) else { return Ok(None) };
    let Some(definition) = &view.view else { return Ok(None) };
    check_changeable(&keyspace.name)?;
    let mut changed_keyspace = keyspace.as_ref().clone();
    changed_keyspace.tables.remove(name);
    if let Some(base) = keyspace.tables.get(&definition.base_name) {
        let views = base.views.iter().filter(|view| *view != name).cloned().collect();
        let base = base.rebuild().views(views).build();
        changed_keyspace.tables.insert(base.name.clone(), Arc::new(base));
    }
    context.with_keyspace(changed_keyspace, ChangeKind::Dropped, ChangeTarget::Table, name)
}

/// Returns the keyspace with the views of a base table adapted to a change of the table. A view
/// with `SELECT *` gets new regular columns. Every view gets the new names and the masks of its
/// columns.
pub(super) fn follow(
    keyspace: &KeyspaceMetadata,
    base: &TableMetadata,
    altered: &TableMetadata,
) -> KeyspaceMetadata {
    let mut changed = keyspace.clone();
    for name in &base.views {
        let Some(view) = keyspace.tables.get(name) else { continue };
        let Some(definition) = &view.view else { continue };
        let mut builder = view.rebuild();
        let mut definition = ViewDefinition::clone(definition);
        for (old, new) in base.columns().iter().filter_map(|old| {
            let new = altered.column_by_id(old.id)?;
            (old.name != new.name).then_some((&old.name, &new.name))
        }) {
            builder = builder.update_columns(|column| {
                if column.name == *old {
                    column.name.clone_from(new);
                }
            });
            rename(view, &mut definition, old, new);
        }
        let added = altered.regular_columns().iter();
        for column in added.filter(|column| base.column_by_id(column.id).is_none()) {
            if definition.includes_all_columns {
                builder = builder.regular(&column.name, column.column_type.clone());
            }
        }
        for column in altered.columns() {
            builder = builder.mask(&column.name, altered.mask_of(column).cloned());
        }
        let followed = builder.view(definition).build();
        if followed.columns() != view.columns() || !followed.has_masks_of(view) {
            changed.tables.insert(name.clone(), Arc::new(followed));
        }
    }
    changed
}

/// Renames a column in the conditions and the WHERE clause of a view.
fn rename(view: &TableMetadata, definition: &mut ViewDefinition, old: &str, new: &str) {
    for condition in &mut definition.conditions {
        condition.columns.iter_mut().filter(|name| *name == old).for_each(|name| {
            *name = new.to_string();
        });
    }
    let text = format!("SELECT * FROM base WHERE {}", definition.where_clause);
    let parsed = grammar::parse(&text).inspect_err(|error| {
        tracing::warn!(
            %error,
            keyspace = view.keyspace,
            view = view.name,
            column = old,
            new_name = new,
            "stored WHERE clause of a materialized view is no CQL and keeps the old name of a \
             renamed column: the rows of the view are right, its description is wrong; drop \
             the view and create it again"
        );
    });
    let Ok(mut parsed) = parsed else { return };
    let Statement::Select(select) = &mut parsed.statement else { return };
    let rename = |name: &mut Name<'_>| {
        if name.as_str() == old {
            name.text = Cow::Owned(new.to_string());
        }
    };
    for relation in &mut select.where_clause.relations {
        match &mut relation.target {
            RelationTarget::Column(name) => rename(name),
            RelationTarget::Columns(names) => names.iter_mut().for_each(rename),
            _ => {}
        }
    }
    definition.where_clause = where_text(&select.where_clause);
}
