//! The restriction to one row by its full primary key: `=` and a marker or a constant for each
//! column. Most statements of most applications have this restriction. Its values are borrowed, not
//! copied.
//!
//! An invalid value (a null, an unset value, an empty key of one column, a length beyond the
//! limits) yields no key here. The general path then applies the rules for such values and returns
//! the errors.

use espalier_mutation::{DecoratedKeyRef, put_composite_component, schema::TableMetadata};
use smallvec::SmallVec;

use super::{Alternatives, ClusteringRestriction, PartitionRestriction, Restrictions};
use crate::{
    options::Value,
    restrictions::check_key_length,
    term::{BorrowedBound, Term},
};

/// The values of a clustering, one for each clustering column.
pub type PointClustering<'v> = SmallVec<[Option<&'v [u8]>; 4]>;

/// The terms of a full primary key.
#[derive(Clone, Debug)]
pub struct PointKey {
    partition: Box<[Term]>,
    clustering: Box<[Term]>,
}

impl Restrictions {
    /// Returns the key if the restrictions consist of a full primary key and nothing else, and if
    /// each term can be borrowed.
    pub fn point(&self, table: &TableMetadata) -> Option<PointKey> {
        let single = |alternatives: &Alternatives| match alternatives {
            Alternatives::Terms(terms) => match terms.as_slice() {
                [term] if term.is_borrowable() => Some(term.clone()),
                _ => None,
            },
            Alternatives::List(_) => None,
        };
        let PartitionRestriction::Keys(columns) = &self.partition else { return None };
        let partition: Box<[Term]> = columns.iter().map(single).collect::<Option<_>>()?;
        let clustering = self.clustering.iter().map(|restriction| match restriction {
            ClusteringRestriction::Values(alternatives) => single(alternatives),
            _ => None,
        });
        let clustering: Box<[Term]> = clustering.collect::<Option<_>>()?;
        let is_whole = partition.len() == table.partition_key_columns().len()
            && clustering.len() == table.clustering_columns().len()
            && self.filters.is_empty();
        is_whole.then_some(PointKey { partition, clustering })
    }
}

impl PointKey {
    /// Returns the term of a partition key column.
    pub fn partition_term(&self, position: usize) -> Option<&Term> {
        self.partition.get(position)
    }

    /// Returns the term of a clustering column.
    pub fn clustering_term(&self, position: usize) -> Option<&Term> {
        self.clustering.get(position)
    }

    /// Returns the partition key. `buffer` receives a key of several columns.
    #[inline]
    pub fn partition<'v>(
        &'v self,
        values: &'v [Value],
        buffer: &'v mut Vec<u8>,
    ) -> Option<DecoratedKeyRef<'v>> {
        let key = match &*self.partition {
            [term] => term.borrow_value(values).filter(|value| !value.is_empty())?,
            terms => {
                buffer.clear();
                for term in terms {
                    let value = term.borrow_value(values)?;
                    check_key_length(value.len()).ok()?;
                    put_composite_component(value, buffer);
                }
                buffer.as_slice()
            }
        };
        check_key_length(key.len()).ok()?;
        Some(DecoratedKeyRef::new(key))
    }

    /// Returns the clustering, if its length is within the limit.
    #[inline]
    pub fn clustering<'v>(&'v self, values: &'v [Value]) -> Option<PointClustering<'v>> {
        let mut clustering = PointClustering::new();
        let mut length = 0;
        for term in &self.clustering {
            let value = term.borrow_value(values)?;
            length += value.len();
            clustering.push(Some(value));
        }
        check_key_length(length).ok()?;
        Some(clustering)
    }
}

impl Term {
    #[inline]
    fn borrow_value<'v>(&'v self, values: &'v [Value]) -> Option<&'v [u8]> {
        match self.borrow(values) {
            Some(BorrowedBound::Value(value)) => Some(value),
            _ => None,
        }
    }
}
