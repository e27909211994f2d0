//! Prints `SELECT`.

use std::fmt::{self, Write};

use super::Printer;
use crate::grammar::ast::{Expression, Ordering, Select, Selection, Selector};

impl<W: Write> Printer<'_, W> {
    pub(super) fn select(&mut self, select: &Select<'_>) -> fmt::Result {
        self.text("SELECT ")?;
        self.text_if(select.json, "JSON ")?;
        self.text_if(select.distinct, "DISTINCT ")?;
        self.selection(&select.selection)?;
        self.with_qualified_name(" FROM ", &select.table)?;
        self.where_clause(&select.where_clause)?;
        if !select.group_by.is_empty() {
            self.text(" GROUP BY ")?;
            self.separated(", ", &select.group_by, Self::expression)?;
        }
        if !select.order_by.is_empty() {
            self.text(" ORDER BY ")?;
            self.separated(", ", &select.order_by, Self::ordering)?;
        }
        self.option(" PER PARTITION LIMIT ", &select.per_partition_limit)?;
        self.option(" LIMIT ", &select.limit)?;
        self.text_if(select.allow_filtering, " ALLOW FILTERING")?;
        self.text_if(select.bypass_cache, " BYPASS CACHE")?;
        self.option(" USING TIMEOUT ", &select.timeout)
    }

    pub(super) fn selection(&mut self, selection: &Selection<'_>) -> fmt::Result {
        match selection {
            Selection::All => self.text("*"),
            Selection::Selectors(selectors) => self.separated(", ", selectors, Self::selector),
        }
    }

    fn selector(&mut self, selector: &Selector<'_>) -> fmt::Result {
        self.expression(&selector.expression)?;
        selector.alias.iter().try_for_each(|alias| self.with_name(" AS ", alias))
    }

    fn ordering(&mut self, ordering: &Ordering<'_>) -> fmt::Result {
        self.name(&ordering.column)?;
        self.option(" ANN OF ", &ordering.nearest_to)?;
        self.text_if(ordering.descending, " DESC")
    }

    /// Prints `introduction` and the expression, if there is one.
    pub(super) fn option(
        &mut self,
        introduction: &str,
        expression: &Option<Expression<'_>>,
    ) -> fmt::Result {
        expression.iter().try_for_each(|expression| self.with_expression(introduction, expression))
    }
}
