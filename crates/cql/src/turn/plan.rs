//! Evaluates the rows and conditions of a request with the values of one execution.

use std::sync::Arc;

use espalier_mutation::{
    Clustering, ClusteringSlices, DecoratedKey,
    schema::{ColumnDefinition, ColumnId, ColumnKind, TableMetadata},
};
use espalier_runtime::maybe_yield;
use espalier_storage::{ReadCommand, ReadLimits, ReadTarget, TurnRows};
use espalier_types::byte_comparable::{TERMINATOR, encode_ordered_clustering};
use hashbrown::{HashMap, HashSet};

use super::{ReadRows, TurnRequest};
use crate::{
    Error, Result,
    condition::{BoundCondition, Condition},
    current_row::{CurrentRow, FrozenColumns, RowView},
    modify::{Operation, PlannedModification},
    term::Evaluation,
};

/// The first words of all errors for conditions of one row that exclude each other.
pub const EXCLUSIVE_CONDITIONS: &str = "Cannot mix IF ";

/// A request with the rows and conditions of one execution.
pub struct TurnPlan<'r> {
    pub table: &'r Arc<TableMetadata>,
    pub key: DecoratedKey,
    pub statements: Vec<PlannedStatement<'r>>,
    /// The conditions of the static row.
    pub static_conditions: Option<RowConditions<'r>>,
    /// The conditions of rows, in clustering order.
    pub conditions: Vec<(Clustering, RowConditions<'r>)>,
    /// The index of each row in the unsorted `conditions`, by the row's ordered bytes.
    index_of_row: HashMap<Vec<u8>, usize>,
    shown_statics: ShownStatics,
    pub is_conditional: bool,
    pub is_batch: bool,
    /// True if a statement names rows, or each partition of the table is one row.
    pub names_rows: bool,
    /// True if an answer has all columns, because a statement has `IF [NOT] EXISTS`.
    pub answers_all_columns: bool,
    /// The time in seconds since 1970. Data that expires up to then is not visible.
    pub now_s: u32,
}

/// The static columns that conditions and the answer see, as in Cassandra.
enum ShownStatics {
    /// All of them, because a conditional statement of the request writes one.
    All,
    /// The columns that a condition tests.
    Tested(HashSet<ColumnId>),
}

/// A statement with its target.
pub struct PlannedStatement<'r> {
    pub modification: &'r PlannedModification,
    pub target: WriteTarget,
    /// The rows that the statement names.
    pub slices: Arc<ClusteringSlices>,
}

/// The rows that a statement changes, besides its static columns.
pub enum WriteTarget {
    Static,
    Row(Clustering),
    /// A range of rows. Only a DELETE without a condition may name one.
    Range,
}

/// The conditions of one row.
pub enum RowConditions<'r> {
    Exists,
    NotExists,
    Columns(Vec<BoundCondition<'r>>),
}

impl<'r> TurnPlan<'r> {
    /// Evaluates the values of a request.
    ///
    /// # Errors
    /// A value is invalid, a clustering column has an IN, conditions of one row exclude each other,
    /// or the request has no statements.
    pub async fn of(request: &'r TurnRequest, key: DecoratedKey) -> Result<Self> {
        let first = request.statements.first();
        let first = first.ok_or_else(|| Error::invalid("a batch without statements"))?;
        let mut plan = TurnPlan {
            table: &first.modification()?.table,
            key,
            statements: Vec::with_capacity(request.statements.len()),
            static_conditions: None,
            conditions: Vec::new(),
            index_of_row: HashMap::new(),
            shown_statics: ShownStatics::Tested(HashSet::new()),
            is_conditional: false,
            is_batch: request.is_batch,
            names_rows: false,
            answers_all_columns: false,
            now_s: request.clocks.now_s,
        };
        for statement in &request.statements {
            maybe_yield().await;
            let modification = statement.modification()?;
            let evaluation = request.evaluation(statement);
            // The caller has evaluated the key.
            let slices = modification.slices(&evaluation)?;
            let target = write_target(request, modification, &slices)?;
            plan.add_condition(modification, &target, &evaluation)?;
            plan.statements.push(PlannedStatement { modification, target, slices });
        }
        plan.names_rows = plan.table.clustering_columns().is_empty()
            || plan
                .statements
                .iter()
                .any(|statement| !statement.modification.restrictions.clustering.is_empty());
        let comparator = plan.table.comparator();
        plan.conditions
            .sort_by(|(left, _), (right, _)| comparator.compare(left.position(), right.position()));
        Ok(plan)
    }

    fn add_condition(
        &mut self,
        modification: &'r PlannedModification,
        target: &WriteTarget,
        evaluation: &Evaluation<'_>,
    ) -> Result<()> {
        match &modification.condition {
            Condition::None => return Ok(()),
            Condition::NotExists => {
                self.answers_all_columns = true;
                self.add_to_row(target, RowConditions::NotExists)?;
            }
            Condition::Exists => {
                self.answers_all_columns = true;
                self.add_to_row(target, RowConditions::Exists)?;
            }
            Condition::Columns(columns) => {
                let (mut of_row, mut of_static) = (Vec::new(), Vec::new());
                for condition in columns {
                    let is_static = condition.target.column().kind == ColumnKind::Static;
                    let list = if is_static { &mut of_static } else { &mut of_row };
                    list.push(condition.bind(evaluation)?);
                }
                if !of_row.is_empty() {
                    self.add_to_row(target, RowConditions::Columns(of_row))?;
                }
                if !of_static.is_empty() {
                    self.add_to_row(&WriteTarget::Static, RowConditions::Columns(of_static))?;
                }
            }
        }
        self.is_conditional = true;
        if writes_static(modification) {
            self.shown_statics = ShownStatics::All;
        } else if let ShownStatics::Tested(tested) = &mut self.shown_statics {
            let columns = modification.condition.columns().iter();
            let columns = columns.map(|condition| condition.target.column());
            let statics = columns.filter(|column| column.kind == ColumnKind::Static);
            tested.extend(statics.map(|column| column.id));
        }
        Ok(())
    }

    /// Adds conditions to those that the row has already.
    fn add_to_row(&mut self, row: &WriteTarget, new: RowConditions<'r>) -> Result<()> {
        let WriteTarget::Row(clustering) = row else {
            match &mut self.static_conditions {
                Some(present) => present.add(new)?,
                none => *none = Some(new),
            }
            return Ok(());
        };
        let types = &self.table.comparator().types;
        let mut path = Vec::new();
        encode_ordered_clustering(types, &clustering.values, TERMINATOR, &mut path);
        let index = *self.index_of_row.entry(path).or_insert(self.conditions.len());
        match self.conditions.get_mut(index) {
            Some((_, present)) => present.add(new)?,
            None => self.conditions.push((clustering.clone(), new)),
        }
        Ok(())
    }

    /// Returns the rows on which the request takes its turn.
    pub fn turn_rows(&self) -> TurnRows {
        let mut rows = TurnRows::new(self.table, self.key.borrowed());
        for (clustering, _) in &self.conditions {
            rows.add_row(self.table, clustering);
        }
        for statement in &self.statements {
            match &statement.target {
                WriteTarget::Static => {}
                WriteTarget::Row(clustering) => rows.add_row(self.table, clustering),
                WriteTarget::Range => rows.add_all_rows(),
            }
        }
        if self.static_conditions.is_some() || self.writes_static() {
            rows.add_static_row();
        }
        rows
    }

    fn writes_static(&self) -> bool {
        let mut statements = self.statements.iter();
        statements.any(|statement| writes_static(statement.modification))
    }

    /// Returns whether conditions and the answer see a static column.
    pub fn shows_static(&self, column: &ColumnDefinition) -> bool {
        match &self.shown_statics {
            ShownStatics::All => true,
            ShownStatics::Tested(tested) => tested.contains(&column.id),
        }
    }

    /// Returns the columns with conditions in the order of the text, except that the static columns
    /// of each statement follow its other columns. A column may come twice.
    pub fn condition_columns(&self) -> impl Iterator<Item = &'r ColumnDefinition> {
        self.statements.iter().flat_map(|statement| {
            let conditions = statement.modification.condition.columns().iter();
            let columns = conditions.map(|condition| condition.target.column());
            let (statics, others): (Vec<_>, Vec<_>) =
                columns.partition(|column| column.kind == ColumnKind::Static);
            others.into_iter().chain(statics)
        })
    }

    /// Returns the read that finds the newest timestamp of the rows that the request writes.
    pub fn timestamp_read(&self) -> ReadCommand {
        let rows = self
            .statements
            .iter()
            .filter(|statement| !matches!(statement.target, WriteTarget::Static));
        let slices: Vec<_> =
            rows.flat_map(|statement| statement.slices.slices.iter().cloned()).collect();
        let rows = if slices.is_empty() { 0 } else { usize::MAX };
        let slices = if slices.is_empty() {
            ClusteringSlices::all()
        } else {
            ClusteringSlices::normalise(slices, self.table.comparator())
        };
        let limits = ReadLimits { rows, ..ReadLimits::NONE };
        let target = ReadTarget::Partition(self.key.clone());
        let all = ReadCommand::of_all(self.table.clone(), target, self.now_s);
        ReadCommand { slices: Arc::new(slices), limits, ..all }
    }

    /// Returns the rows that operations read before they write. `None` is the static row.
    pub fn rows_of_operations(&self) -> impl Iterator<Item = Option<&Clustering>> {
        self.statements.iter().flat_map(|statement| {
            let operations = statement.modification.operations.iter();
            operations.filter(|operation| operation.needs_read()).filter_map(|operation| {
                match &statement.target {
                    _ if operation.is_static() => Some(None),
                    WriteTarget::Row(clustering) => Some(Some(clustering)),
                    _ => None,
                }
            })
        })
    }

    /// Returns whether all conditions hold.
    ///
    /// # Errors
    /// As [`BoundCondition::holds`].
    pub async fn holds(&self, read: &ReadRows) -> Result<bool> {
        let row = |row: Option<_>| CurrentRow {
            table: self.table,
            partition_key: &[],
            static_row: read.static_row.as_ref(),
            row: row.map(RowView::Object),
        };
        if let Some(conditions) = &self.static_conditions
            && !conditions.hold(read.static_row.is_some(), &row(None)).await?
        {
            return Ok(false);
        }
        for (clustering, conditions) in &self.conditions {
            maybe_yield().await;
            let found = read.find(self.table, clustering);
            if !conditions.hold(found.is_some(), &row(found)).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn write_target(
    request: &TurnRequest,
    modification: &PlannedModification,
    slices: &ClusteringSlices,
) -> Result<WriteTarget> {
    let restrictions = &modification.restrictions;
    if modification.is_static_alone() {
        return Ok(WriteTarget::Static);
    }
    if restrictions.clustering_has_in() {
        return Err(request.refuse_in(modification, "clustering key columns"));
    }
    if !modification.names_rows() {
        return Ok(WriteTarget::Range);
    }
    match slices.slices.as_slice() {
        [only] => Ok(WriteTarget::Row(Clustering { values: only.start.values.clone() })),
        _ => Err(request.refuse_in(modification, "clustering key columns")),
    }
}

fn writes_static(statement: &PlannedModification) -> bool {
    statement.operations.iter().any(Operation::is_static)
}

impl RowConditions<'_> {
    /// Adds conditions on the same row.
    fn add(&mut self, new: Self) -> Result<()> {
        let message = match (self, new) {
            (Self::Exists, Self::Exists) | (Self::NotExists, Self::NotExists) => return Ok(()),
            (Self::Columns(present), Self::Columns(new)) => {
                present.extend(new);
                return Ok(());
            }
            (Self::Columns(_), Self::Exists) => {
                "Cannot mix IF conditions and IF EXISTS for the same row"
            }
            // Cassandra has this text also for IF conditions after IF EXISTS.
            (Self::Columns(_), Self::NotExists) | (_, Self::Columns(_)) => {
                "Cannot mix IF conditions and IF NOT EXISTS for the same row"
            }
            _ => "Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row",
        };
        Err(Error::invalid(message))
    }

    async fn hold(&self, exists: bool, row: &CurrentRow<'_>) -> Result<bool> {
        match self {
            Self::Exists => Ok(exists),
            Self::NotExists => Ok(!exists),
            Self::Columns(conditions) => {
                let mut frozen = FrozenColumns::default();
                for condition in conditions {
                    maybe_yield().await;
                    if !condition.holds(row, &mut frozen)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}
