//! `USING TIMEOUT`, of ScyllaDB: the time after which the client gets an error instead of waiting.
//!
//! The shard drops the execution when the time is over, but work on other shards continues. As with
//! any timeout of a write, the write may have been applied.

use std::{sync::Arc, time::Duration};

use espalier_runtime::time;
use espalier_storage::TurnKind;
use espalier_types::duration::Duration as CqlDuration;

use super::QueryProcessor;
use crate::{
    Error, ErrorCode, ErrorDetail, QueryOptions, QueryResult, Result,
    auth::Login,
    prepared::{Plan, Prepared},
    term::{Bound, Evaluation, Term, bind_values},
};

impl QueryProcessor {
    /// Runs a statement for at most the time of its `USING TIMEOUT`.
    pub(super) async fn run_within(
        &self,
        timeout: &Term,
        prepared: &Arc<Prepared>,
        login: Option<&Login>,
        keyspace: Option<String>,
        options: &QueryOptions<'_>,
    ) -> Result<QueryResult> {
        let values = bind_values(&prepared.bind.columns, options.values)?;
        let now_us = time::now_micros();
        let evaluation = Evaluation { values: &values, now_us, references: &[] };
        let run = self.run(prepared, login, keyspace, options);
        match evaluate(timeout, &evaluation)? {
            None => run.await,
            Some(timeout) => match time::timeout(timeout, run).await {
                Ok(result) => result,
                Err(_) => Err(timed_out(prepared, timeout)),
            },
        }
    }
}

/// Returns the timeout, or `None` if it is unset.
///
/// # Errors
/// The timeout is null, malformed or negative, has days or months, or is not a whole number of
/// milliseconds.
fn evaluate(timeout: &Term, evaluation: &Evaluation<'_>) -> Result<Option<Duration>> {
    let bytes = match timeout.evaluate(evaluation)? {
        Bound::Unset => return Ok(None),
        Bound::Null => return Err(Error::invalid("Timeout value cannot be null")),
        Bound::Value(bytes) => bytes,
    };
    let CqlDuration { months, days, nanoseconds } =
        CqlDuration::decode(&bytes).map_err(Error::invalid_from)?;
    if months != 0 || days != 0 {
        return Err(Error::invalid("Timeout values cannot be expressed in days/months"));
    }
    let nanoseconds = u64::try_from(nanoseconds)
        .map_err(|_| Error::invalid("Timeout values must be non-negative"))?;
    if nanoseconds % 1_000_000 != 0 {
        return Err(Error::invalid(
            "Timeout values cannot have granularity finer than milliseconds",
        ));
    }
    Ok(Some(Duration::from_nanos(nanoseconds)))
}

/// Returns the error of a statement that has no outcome after `timeout`. A write may have been
/// applied nevertheless.
fn timed_out(prepared: &Prepared, timeout: Duration) -> Error {
    let (code, outcome) = match prepared.plan {
        Plan::Select(_) => (ErrorCode::ReadTimeout, ""),
        Plan::Truncate(_) => (ErrorCode::TruncateError, "; it may have been executed"),
        _ => (ErrorCode::WriteTimeout, "; it may have been executed"),
    };
    let is_conditional = prepared.is_conditional() || matches!(prepared.plan, Plan::Transaction(_));
    let kind = if is_conditional { TurnKind::Conditional } else { TurnKind::Write };
    let text = kind.timeout_text();
    let message = format!("{text}. The statement has taken {timeout:?} (USING TIMEOUT){outcome}");
    let detail = match code {
        ErrorCode::WriteTimeout => ErrorDetail::WriteTimeout { kind },
        _ => ErrorDetail::None,
    };
    Error { detail, ..Error::new(code, message) }
}
