//! The guardrail on the number of combinations that the INs of a statement name.

use espalier_storage::guardrails::Limit;
use espalier_types::collection;

use super::Guard;
use crate::{
    Result,
    restrictions::{Alternatives, ClusteringRestriction, Restrictions},
    term::{Bound, Evaluation},
};

impl Restrictions {
    /// Checks the products of the INs on the partition key and on clustering columns, the latter
    /// only without a clustering range. As in Cassandra, a value that is given twice counts twice.
    ///
    /// # Errors
    /// The INs name too many combinations, or a list that is bound as a whole cannot be evaluated.
    pub fn check_products(&self, evaluation: &Evaluation<'_>, guard: Guard<'_>) -> Result<()> {
        if !guard.guardrails.is_limited(Limit::InSelectCartesianProduct) {
            return Ok(());
        }
        if self.partition.has_in() {
            let columns = self.partition.keys().into_iter().flatten();
            check_product(columns, "partition key", evaluation, guard)?;
        }
        let is_range =
            |restriction: &ClusteringRestriction| restriction.equal_column_count().is_none();
        if !self.clustering_has_in() || self.clustering.iter().any(is_range) {
            return Ok(());
        }
        let columns = self.clustering.iter().filter_map(|restriction| match restriction {
            ClusteringRestriction::Values(alternatives)
            | ClusteringRestriction::Tuples { alternatives, .. } => Some(alternatives),
            ClusteringRestriction::Range { .. } => None,
        });
        check_product(columns, "clustering key", evaluation, guard)
    }
}

fn check_product<'a>(
    columns: impl Iterator<Item = &'a Alternatives>,
    what: &str,
    evaluation: &Evaluation<'_>,
    guard: Guard<'_>,
) -> Result<()> {
    let mut product: usize = 1;
    for alternatives in columns {
        product = product.saturating_mul(count(alternatives, evaluation)?);
        guard.check(Limit::InSelectCartesianProduct, product, what)?;
    }
    Ok(())
}

/// Returns the number of values; the execution reports a list that is null or malformed.
fn count(alternatives: &Alternatives, evaluation: &Evaluation<'_>) -> Result<usize> {
    Ok(match alternatives {
        Alternatives::Terms(terms) => terms.len(),
        Alternatives::List(term) => match term.evaluate(evaluation)? {
            Bound::Value(list) => collection::elements(&list).map_or(0, |elements| elements.len()),
            Bound::Null | Bound::Unset => 0,
        },
    })
}
