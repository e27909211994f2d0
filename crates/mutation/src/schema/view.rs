//! Defines materialized views: which rows of a base table a view has.

use std::cmp::Ordering;

use bytes::Bytes;
use espalier_types::CqlType;

use super::{TableId, TableMetadata};

/// The definition of a materialized view. Its columns and options are those of its own table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewDefinition {
    /// The id of the base table.
    pub base: TableId,
    /// The name of the base table, which is in the keyspace of the view.
    pub base_name: String,
    /// True if the view was created with `SELECT *`, so that it gets columns that are added to the
    /// base table.
    pub includes_all_columns: bool,
    /// The conditions as CQL, without `WHERE`.
    pub where_clause: String,
    /// The conditions besides `IS NOT NULL`, which holds for all columns of the primary key.
    pub conditions: Vec<ViewCondition>,
}

/// A condition on columns of the view's primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewCondition {
    /// One column, or the columns of a tuple.
    pub columns: Vec<String>,
    /// The operator.
    pub operator: ViewOperator,
    /// The operands in serialised form, each with one value for each column. `IN` has any number of
    /// operands, other operators have one.
    pub operands: Vec<Vec<Bytes>>,
}

/// The operator of a [`ViewCondition`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ViewOperator {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

const OPERATORS: [(ViewOperator, &str); 6] = [
    (ViewOperator::Equal, "="),
    (ViewOperator::Less, "<"),
    (ViewOperator::LessOrEqual, "<="),
    (ViewOperator::Greater, ">"),
    (ViewOperator::GreaterOrEqual, ">="),
    (ViewOperator::In, "IN"),
];

impl ViewOperator {
    /// Returns the operator as the schema tables store it.
    pub fn symbol(self) -> &'static str {
        OPERATORS.iter().find(|(operator, _)| *operator == self).map_or("", |(_, symbol)| symbol)
    }

    /// Returns the operator of that symbol.
    pub fn from_symbol(symbol: &str) -> Option<Self> {
        OPERATORS.iter().find(|(_, known)| *known == symbol).map(|(operator, _)| *operator)
    }
}

impl ViewCondition {
    /// Returns whether the values of the columns satisfy the condition. `types` and `values` are
    /// those of [`Self::columns`].
    pub fn holds(&self, types: &[&CqlType], values: &[&[u8]]) -> bool {
        let compare = |operand: &Vec<Bytes>| {
            let pairs = types.iter().zip(values).zip(operand);
            let mut orders =
                pairs.map(|((column_type, value), wanted)| column_type.compare(value, wanted));
            orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        };
        if self.operator == ViewOperator::In {
            return self.operands.iter().any(|operand| compare(operand).is_eq());
        }
        self.operands.iter().all(|operand| {
            let order = compare(operand);
            match self.operator {
                ViewOperator::Equal | ViewOperator::In => order.is_eq(),
                ViewOperator::Less => order.is_lt(),
                ViewOperator::LessOrEqual => order.is_le(),
                ViewOperator::Greater => order.is_gt(),
                ViewOperator::GreaterOrEqual => order.is_ge(),
            }
        })
    }
}

impl TableMetadata {
    /// Returns whether the table holds a materialized view.
    #[inline]
    pub fn is_view(&self) -> bool {
        self.view.is_some()
    }

    /// Returns whether the table has materialized views.
    #[inline]
    pub fn has_views(&self) -> bool {
        !self.views.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(value: i32) -> Bytes {
        Bytes::copy_from_slice(&value.to_be_bytes())
    }

    fn holds(operator: ViewOperator, operands: &[&[i32]], values: &[i32]) -> bool {
        let operands = operands.iter().map(|row| row.iter().copied().map(int).collect());
        let condition = ViewCondition {
            columns: vec!["c".into(); values.len()],
            operator,
            operands: operands.collect(),
        };
        let values: Vec<Bytes> = values.iter().copied().map(int).collect();
        let values: Vec<&[u8]> = values.iter().map(|value| &value[..]).collect();
        condition.holds(&vec![&CqlType::Int; values.len()], &values)
    }

    #[test]
    fn values_and_tuples_are_compared_in_the_order_of_their_types() {
        use ViewOperator::{Equal, Greater, GreaterOrEqual, In, Less, LessOrEqual};
        assert!(holds(Equal, &[&[3]], &[3]) && !holds(Equal, &[&[3]], &[-3]));
        assert!(holds(Greater, &[&[-1]], &[0]) && !holds(Greater, &[&[0]], &[0]));
        assert!(holds(GreaterOrEqual, &[&[0]], &[0]) && holds(LessOrEqual, &[&[0]], &[0]));
        assert!(holds(Less, &[&[0]], &[-7]) && !holds(Less, &[&[0]], &[7]));
        assert!(holds(In, &[&[1], &[2]], &[2]) && !holds(In, &[], &[2]));
        // A tuple is compared by its first difference.
        assert!(holds(Greater, &[&[1, 5]], &[2, 0]) && !holds(Greater, &[&[1, 5]], &[1, 5]));
    }

    #[test]
    fn symbols_name_their_operators() {
        for (operator, symbol) in OPERATORS {
            assert_eq!(ViewOperator::from_symbol(symbol), Some(operator));
            assert_eq!(operator.symbol(), symbol);
        }
        assert_eq!(ViewOperator::from_symbol("LIKE"), None);
    }
}
