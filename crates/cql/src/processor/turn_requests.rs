//! Makes the requests of statements that take a turn.

use std::sync::Arc;

use super::clocks;
use crate::{
    Error, QueryOptions, Value,
    prepared::{Plan, Prepared},
    term::bind_valid_values,
    turn::{self, TurnRequest, TurnStatement},
};

/// Returns the statements, with their values, if they must take a turn: a conditional statement or
/// batch, or one statement without IN that changes a list by index or value.
pub(super) fn turn_statements(
    prepared: &Arc<Prepared>,
    values: &[Value],
) -> Option<Vec<TurnStatement>> {
    let count = match &prepared.plan {
        Plan::Modification(statement) => {
            let takes_turn = statement.takes_turn()
                && (prepared.is_conditional() || !statement.restrictions.has_in());
            takes_turn.then_some(1)?
        }
        Plan::Batch(batch) => batch.is_conditional().then_some(batch.statements.len())?,
        _ => return None,
    };
    let values: Arc<[Value]> = values.into();
    let statement =
        |index| TurnStatement { prepared: prepared.clone(), index, values: values.clone() };
    Some((0..count).map(statement).collect())
}

/// Makes the request of statements that take a turn.
pub(super) fn turn_request(
    statements: Vec<TurnStatement>,
    is_batch: bool,
    options: &QueryOptions<'_>,
    now_us: i64,
) -> TurnRequest {
    TurnRequest {
        statements,
        is_batch,
        clocks: clocks(options, now_us),
        has_own_now: options.now_s.is_some(),
        now_us,
        is_exempt: options.is_exempt,
        applies_masks: options.applies_masks,
    }
}

/// Returns the error of a statement with an invalid value. A conditional batch may have another
/// error, which Cassandra reports first.
#[cold]
pub(super) async fn first_error(
    prepared: &Arc<Prepared>,
    options: &QueryOptions<'_>,
    now_us: i64,
    invalid: Error,
) -> Error {
    let Ok(values) = bind_valid_values(&prepared.bind.columns, options.values) else {
        return invalid;
    };
    let is_batch = matches!(prepared.plan, Plan::Batch(_));
    match turn_statements(prepared, &values).filter(|_| is_batch) {
        Some(statements) => {
            let request = turn_request(statements, is_batch, options, now_us);
            turn::first_error(&request, invalid).await
        }
        None => invalid,
    }
}
