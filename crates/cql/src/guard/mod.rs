//! Checks statements against the guardrails of the node.
//!
//! Before the execution of a statement, `statement` checks its features, page size and consistency
//! levels, and `products` checks the number of keys that the statement names. `values` checks the
//! values of a write before storage gets them.

mod products;
mod statement;
mod values;

use std::fmt::Display;

use espalier_storage::{
    Node,
    guardrails::{Feature, Guardrails, Limit, Names, Violation, Warnings},
};

pub use statement::{check_batch, check_plan, check_prepared, explain_filtering};

use crate::{Error, QueryOptions, Result};

/// The guardrails of the node, and the warnings of the request that consults them.
#[derive(Clone, Copy, Debug)]
pub struct Guard<'a> {
    /// The guardrails.
    pub guardrails: &'a Guardrails,
    /// The warnings; `None` drops them.
    pub warnings: Option<&'a Warnings>,
    /// True if the client is a superuser, to whom guardrails do not apply. Settings of the node
    /// itself, on tombstones, batches and USE, apply nevertheless, as in Cassandra.
    pub is_exempt: bool,
}

impl From<Violation> for Error {
    fn from(violation: Violation) -> Self {
        Error::invalid(violation.0)
    }
}

impl<'a> Guard<'a> {
    /// Returns the guardrails of the node for one request.
    pub fn of(database: &'a Node, options: &QueryOptions<'a>) -> Self {
        let guardrails = &database.store().configuration().guardrails;
        Self { guardrails, warnings: options.warnings, is_exempt: options.is_exempt }
    }

    /// Compares a value with the thresholds of a limit; `what` names the object that has the value.
    ///
    /// # Errors
    /// Error 0x2200 if the value is beyond the threshold for a refusal.
    pub fn check(&self, limit: Limit, value: impl TryInto<i64>, what: impl Display) -> Result<()> {
        if self.is_exempt {
            return Ok(());
        }
        let value = value.try_into().unwrap_or(i64::MAX);
        Ok(self.guardrails.check(limit, value, what, self.warnings)?)
    }

    /// Checks that a feature is enabled.
    ///
    /// # Errors
    /// Error 0x2200 if the feature is switched off.
    pub fn require(&self, feature: Feature) -> Result<()> {
        if self.is_exempt {
            return Ok(());
        }
        Ok(self.guardrails.require(feature, self.warnings)?)
    }

    /// Checks that a feature is enabled. Messages call the feature `what`.
    ///
    /// # Errors
    /// Error 0x2200 if the feature is switched off.
    pub fn require_as(&self, feature: Feature, what: &str) -> Result<()> {
        if self.is_exempt {
            return Ok(());
        }
        Ok(self.guardrails.require_as(feature, what, self.warnings)?)
    }

    /// Checks values, and returns the values that the caller must ignore.
    ///
    /// # Errors
    /// Error 0x2200 if a value is disallowed.
    pub fn judge(&self, names: Names, given: &[&str]) -> Result<Vec<String>> {
        if self.is_exempt {
            return Ok(Vec::new());
        }
        Ok(self.guardrails.judge(names, given, self.warnings)?)
    }

    /// Adds a warning that is not about a guardrail.
    pub fn warn(&self, text: impl Into<String>) {
        if let Some(warnings) = self.warnings {
            warnings.add(text.into());
        }
    }
}
