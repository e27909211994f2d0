//! The choice of indexes for a WHERE clause, by the rules of Cassandra 5.0.
//!
//! A legacy index serves one equality, CONTAINS or CONTAINS KEY, if the primary key serves all
//! other conditions. Storage-attached indexes also serve ranges ([`has_ranges`]), and several of
//! them serve several conditions together. A SASI index serves the conditions on its column that
//! its options allow. Conditions that neither the primary key nor the indexes serve need ALLOW
//! FILTERING.

use espalier_mutation::schema::{ColumnKind, IndexMetadata, IndexPart, TableMetadata, TermIndex};
use espalier_types::CqlType;

use super::{
    super::{
        ClusteringRestriction, Filter, FilterOperator, PartitionRestriction,
        index::{IndexPlan, PlannedTerm, PlannedValues, indexed_type},
    },
    SortedRelations,
    refusal::is_in,
};
use crate::grammar::ast::{
    ComparisonOperator as Operator, Predicate, Relation, RelationTarget, WhereClause,
};

/// Returns whether an index serves a relation.
pub(super) fn serves(
    table: &TableMetadata,
    index: &IndexMetadata,
    relation: &Relation<'_>,
) -> bool {
    let (name, is_element) = match &relation.target {
        RelationTarget::Column(name) => (name, false),
        RelationTarget::Element(name, _) => (name, true),
        _ => return false,
    };
    if name.as_str() != index.column {
        return false;
    }
    let Some(column) = index.column_of(table) else { return false };
    // An index on vectors serves only the order by similarity.
    if index.vector_options(table).is_some() {
        return false;
    }
    if index.is_sasi() {
        let Some(terms) = index.term_index(table).filter(|_| !is_element) else { return false };
        return serves_terms(&terms, &relation.predicate);
    }
    match (index.part, &relation.predicate) {
        (IndexPart::Entries, Predicate::Compare(Operator::Equal, _)) => is_element,
        _ if is_element => false,
        (IndexPart::Simple | IndexPart::Full, Predicate::Compare(Operator::Equal, _)) => true,
        (IndexPart::Simple | IndexPart::Full, Predicate::In(values)) => !is_in(values),
        (
            IndexPart::Simple,
            Predicate::Compare(
                Operator::Less
                | Operator::LessOrEqual
                | Operator::Greater
                | Operator::GreaterOrEqual,
                _,
            )
            | Predicate::Between(..),
        ) => index.is_storage_attached() && has_ranges(&column.column_type),
        (IndexPart::Values, Predicate::Contains(_))
        | (IndexPart::Keys, Predicate::ContainsKey(_)) => true,
        _ => false,
    }
}

/// Returns whether a SASI index serves a condition. The pattern of a LIKE may still be of a kind
/// that the index does not serve.
fn serves_terms(terms: &TermIndex, predicate: &Predicate<'_>) -> bool {
    match predicate {
        Predicate::Compare(Operator::Equal, _) => terms.serves_equality(),
        Predicate::In(values) => !is_in(values) && terms.serves_equality(),
        Predicate::Compare(
            Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual,
            _,
        )
        | Predicate::Between(..) => terms.serves_ranges(),
        Predicate::Like(_) => terms.has_terms(),
        _ => false,
    }
}

/// Returns the properties of the index that serves a LIKE of a column.
pub(super) fn like_index(table: &TableMetadata, column: &str) -> Option<TermIndex> {
    terms_on(table, column).map(|(_, terms)| terms)
}

/// Returns whether a storage-attached index serves ranges of a type, such as numbers, times and
/// addresses. The types are those of Cassandra.
fn has_ranges(column_type: &CqlType) -> bool {
    !matches!(
        column_type,
        CqlType::Text
            | CqlType::Ascii
            | CqlType::Boolean
            | CqlType::Uuid
            | CqlType::List { .. }
            | CqlType::Set { .. }
            | CqlType::Map { .. }
            | CqlType::Tuple(_)
            | CqlType::UserDefined { .. }
    )
}

/// Returns whether some index serves a relation.
pub(super) fn is_served(table: &TableMetadata, relation: &Relation<'_>) -> bool {
    table.indexes.iter().any(|index| serves(table, index, relation))
}

/// The indexes that a clause could use, before it is planned.
pub(super) struct IndexChoice<'c> {
    pub(super) table: &'c TableMetadata,
    pub(super) clause: &'c WhereClause<'c>,
    /// True if an index serves any relation of the clause, or the order.
    pub has_any: bool,
    /// True if an index on vectors serves the order.
    is_nearest: bool,
}

impl<'c> IndexChoice<'c> {
    pub fn new(table: &'c TableMetadata, clause: &'c WhereClause<'c>, is_nearest: bool) -> Self {
        let has_any =
            is_nearest || clause.relations.iter().any(|relation| is_served(table, relation));
        Self { table, clause, has_any, is_nearest }
    }

    fn of_kind(&self, kind: ColumnKind) -> impl Iterator<Item = &'c Relation<'c>> {
        let (table, relations) = (self.table, &self.clause.relations);
        relations.iter().filter(move |relation| kind_of(table, relation) == Some(kind))
    }

    /// Returns whether the statement reads by an index, and whether it needs filtering.
    pub fn judge(
        &self,
        partition: &PartitionRestriction,
        sorted: &SortedRelations<'_>,
    ) -> Judgement {
        let is_partial = !matches!(partition, PartitionRestriction::Keys(_))
            && partition.keys().is_none()
            && self.of_kind(ColumnKind::PartitionKey).next().is_some();
        let is_token = matches!(partition, PartitionRestriction::Token(_));
        let is_range = partition.keys().is_none();
        let mut uses_index = self.has_any && is_range && (is_partial || !is_token);
        let mut filtered: Vec<&Relation<'_>> = Vec::new();
        if uses_index || is_partial {
            filtered.extend(self.of_kind(ColumnKind::PartitionKey));
        }
        let is_of_clustering = |relation: &&Relation<'_>| {
            kind_of(self.table, relation) == Some(ColumnKind::Clustering)
        };
        let has_gap = sorted.filters.iter().any(is_of_clustering);
        uses_index |= has_gap && self.has_any;
        let clustering_is_served =
            self.of_kind(ColumnKind::Clustering).any(|relation| is_served(self.table, relation));
        uses_index |= is_range && clustering_is_served;
        if uses_index || has_gap || (is_range && !is_token) {
            filtered.extend(self.of_kind(ColumnKind::Clustering));
        }
        let mut others =
            self.of_kind(ColumnKind::Static).chain(self.of_kind(ColumnKind::Regular)).peekable();
        uses_index |= self.is_nearest || (others.peek().is_some() && self.has_any);
        filtered.extend(others);
        let is_judged = is_range || uses_index || has_gap;
        let needs_filtering = is_judged && !filtered.is_empty() && !self.are_served(&filtered);
        Judgement { uses_index, needs_filtering }
    }

    /// Returns whether one legacy or SASI index, or the storage-attached ones together, serve all
    /// relations.
    fn are_served(&self, relations: &[&Relation<'_>]) -> bool {
        let table = self.table;
        let (attached, alone): (Vec<_>, Vec<_>) =
            table.indexes.iter().partition(|index| index.is_storage_attached());
        let by_one = !self.is_nearest
            && alone.iter().any(|index| match relations {
                [relation] => serves(table, index, relation),
                // One index on a collection does not serve two conditions. Two conditions that a
                // SASI index serves are the bounds of a range.
                _ => {
                    index.is_sasi()
                        && relations.iter().all(|relation| serves(table, index, relation))
                }
            });
        by_one
            || relations
                .iter()
                .all(|relation| attached.iter().any(|index| serves(table, index, relation)))
    }
}

/// The result of [`IndexChoice::judge`].
pub(super) struct Judgement {
    pub uses_index: bool,
    pub needs_filtering: bool,
}

/// Returns the kind of the columns of a relation; `None` for a relation of tokens.
pub(super) fn kind_of(table: &TableMetadata, relation: &Relation<'_>) -> Option<ColumnKind> {
    if let RelationTarget::Token(_) = relation.target {
        return None;
    }
    let name = relation.target.names().first()?;
    table.column(name.as_str()).map(|column| column.kind)
}

/// Returns the index that can find rows by a condition on a part of a column. Its analysis decides
/// which texts are equal. As in Cassandra 5.0.9, a SASI index comes before a legacy one, and a
/// storage-attached index comes last.
pub(super) fn index_on<'t>(
    table: &'t TableMetadata,
    column: &str,
    part: IndexPart,
) -> Option<&'t IndexMetadata> {
    let serving = table.indexes.iter().filter(|index| {
        let is_same_part =
            index.part == part || (part == IndexPart::Simple && index.part == IndexPart::Full);
        let has_values = || index.term_index(table).is_none_or(|terms| terms.has_values());
        index.column == column
            && is_same_part
            && index.vector_options(table).is_none()
            && has_values()
    });
    // Among equals, this returns the first.
    serving.min_by_key(|index| (index.is_storage_attached(), !index.is_sasi()))
}

/// Returns the index that lists the terms of a column, with its properties.
fn terms_on<'t>(table: &'t TableMetadata, column: &str) -> Option<(&'t IndexMetadata, TermIndex)> {
    let on_column = table.indexes.iter().filter(|index| index.column == column);
    let mut with_terms = on_column.filter_map(|index| Some((index, index.term_index(table)?)));
    with_terms.find(|(_, terms)| terms.has_terms())
}

/// Plans the terms to look up in each index that serves a planned restriction. An index may serve
/// conditions here for which [`serves`] is false, such as ranges and IN.
pub(super) fn plan_terms(
    table: &TableMetadata,
    clustering: &[ClusteringRestriction],
    filters: &[Filter],
) -> IndexPlan {
    let mut terms: Vec<PlannedTerm> = Vec::new();
    let mut add = |column: &str, part: IndexPart, values: PlannedValues| {
        let is_like = matches!(values, PlannedValues::Like(..));
        let index = if is_like {
            terms_on(table, column).map(|(index, _)| index)
        } else {
            index_on(table, column, part)
        };
        let Some(index) = index else { return };
        let Some(definition) = index.column_of(table) else { return };
        // Two bounds of a column are one range.
        if let PlannedValues::Range(bounds) = &values
            && let Some(PlannedTerm { values: PlannedValues::Range(present), .. }) =
                terms.iter_mut().find(|term| term.index == index.name)
        {
            present.extend(bounds.iter().cloned());
            return;
        }
        let value_type = indexed_type(&definition.column_type, index.part);
        let analysis = index.analysis(table);
        let is_range = matches!(values, PlannedValues::Range(_));
        // Analysed texts are not in the order of the texts.
        if !analysis.is_plain() && is_range {
            return;
        }
        // Suffixes have entries after those of the values, so an open range would find them, too.
        if is_range && index.term_index(table).is_some_and(|terms| terms.has_suffixes()) {
            return;
        }
        let (index, column) = (index.name.clone(), column.to_string());
        terms.push(PlannedTerm { index, column, value_type, analysis, values });
    };
    let columns = table.clustering_columns();
    let mut at = 0;
    for restriction in clustering {
        let Some(column) = columns.get(at) else { break };
        match restriction {
            ClusteringRestriction::Values(alternatives) => {
                add(&column.name, IndexPart::Simple, PlannedValues::In(alternatives.clone()));
                at += 1;
            }
            ClusteringRestriction::Tuples { columns, .. } => at += columns,
            ClusteringRestriction::Range { lower, upper, .. } => {
                let mut bounds = lower.iter().chain(upper);
                let has_bounds = lower.is_some() || upper.is_some();
                if has_bounds && bounds.all(|bound| !bound.is_tuple) {
                    let values = PlannedValues::of_bounds(lower.as_ref(), upper.as_ref());
                    add(&column.name, IndexPart::Simple, values);
                }
            }
        }
    }
    // An index finds the rows that have a value, not the rows without this value.
    for filter in filters.iter().filter(|filter| !filter.is_negated) {
        let column = &filter.column;
        let (part, values) = match (&filter.key, &filter.operator) {
            (Some(key), FilterOperator::Compare(Operator::Equal, term)) => {
                let CqlType::Map { key: key_type, .. } = &column.column_type else { continue };
                let key_type = key_type.as_ref().clone();
                (IndexPart::Entries, PlannedValues::Entry(key_type, key.clone(), term.clone()))
            }
            (Some(_), _) | (None, FilterOperator::Compare(Operator::NotEqual, _)) => continue,
            (None, FilterOperator::Compare(Operator::Equal, term)) => {
                (IndexPart::Simple, PlannedValues::Equal(term.clone()))
            }
            (None, FilterOperator::Compare(operator, term)) => {
                (IndexPart::Simple, PlannedValues::Range(vec![(*operator, term.clone())]))
            }
            (None, FilterOperator::In(alternatives)) => {
                (IndexPart::Simple, PlannedValues::In(alternatives.clone()))
            }
            (None, FilterOperator::Like(term, index)) => {
                (IndexPart::Simple, PlannedValues::Like(term.clone(), index.clone()))
            }
            (None, FilterOperator::Contains(term)) => {
                (IndexPart::Values, PlannedValues::Equal(term.clone()))
            }
            (None, FilterOperator::ContainsKey(term)) => {
                (IndexPart::Keys, PlannedValues::Equal(term.clone()))
            }
        };
        add(&column.name, part, values);
    }
    IndexPlan { terms }
}
