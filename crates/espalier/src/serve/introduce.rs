//! Writes `system.local`, the node's description of itself, which drivers read first.
//!
//! A node outside of a ring writes the row only if its content changes, so that restarts do not
//! pile up SSTables. A member of a ring writes the row at each start, because the member's
//! generation grows.

use std::sync::Arc;

use espalier_mutation::{Mutation, Row, Token};
use espalier_runtime::time;
use espalier_storage::system::{
    DATA_CENTER, LocalNode, RACK, TOKEN, generation_of, is_described_by, local_key, local_update,
    tokens_of, tokens_update,
};
use espalier_storage::{Node, ReadCommand, ReadTarget, StorageError};

use super::lead::Leadership;

/// The facts of `system.local` that a member of a ring announces.
pub struct Introduced {
    /// The generation of this start. In a ring, it is greater than the generation of each earlier
    /// start.
    pub generation: u32,
    /// The tokens that the node had before this start.
    pub saved_tokens: Vec<Token>,
}

/// Brings `system.local` and the schema tables of the system keyspaces up to date.
///
/// # Errors
/// Fails if storage cannot read or write the system tables.
pub async fn introduce(
    database: &Node,
    leadership: &Leadership,
) -> Result<Introduced, StorageError> {
    database.describe_system_keyspaces().await?;
    let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
    let row = stored(database, now_s).await?;
    // Peers accept a state only if it belongs to a later generation.
    let former = row.as_ref().and_then(generation_of).unwrap_or(0);
    let saved = row.as_ref().map(tokens_of).unwrap_or_default();
    let is_member = leadership.ring.is_some();
    let generation_s = if is_member { now_s.max(former.saturating_add(1)) } else { now_s };
    let local = LocalNode {
        host_id: database.store().host_id(),
        cluster_name: leadership.cluster_name.clone(),
        rpc_address: leadership.broadcast_address,
        rpc_port: leadership.addresses.cql.port(),
        schema_version: database.store().schema().version,
        generation_s,
        data_center: leadership.ring.as_ref().map_or(DATA_CENTER, |it| &it.data_center).to_owned(),
        rack: leadership.ring.as_ref().map_or(RACK, |it| &it.rack).to_owned(),
        tokens: shown_tokens(leadership.ring.as_ref().map(|ring| ring.tokens.as_slice()), &saved),
    };
    let saved_tokens = saved.iter().filter_map(|token| token.parse().ok().map(Token)).collect();
    let introduced = Introduced { generation: generation_s, saved_tokens };
    if !is_member && row.is_some_and(|row| is_described_by(&local, &row)) {
        return Ok(introduced);
    }
    let update = local_update(&local, time::next_timestamp_micros(), now_s);
    database.apply(Mutation { updates: vec![update] }).await?;
    Ok(introduced)
}

/// Saves the tokens with which the node has joined its ring.
///
/// # Errors
/// Fails if storage cannot write `system.local`.
pub async fn save_tokens(database: &Node, tokens: &[Token]) -> Result<(), StorageError> {
    let now_s = u32::try_from(time::now_seconds()).unwrap_or(0);
    let update = tokens_update(&as_text(tokens), time::next_timestamp_micros(), now_s);
    database.apply(Mutation { updates: vec![update] }).await
}

/// Returns the tokens that `system.local` shows before the node has joined. `configured` are the
/// tokens of the settings, if the node is a member of a ring.
///
/// `system.local` has the only copy of the saved tokens. They stay there until the node has joined,
/// because the node may start outside its ring, or with a wrong `initial_token`, with which it
/// cannot join.
fn shown_tokens(configured: Option<&[Token]>, saved: &[String]) -> Vec<String> {
    match configured {
        _ if !saved.is_empty() => saved.to_vec(),
        Some(tokens) => as_text(tokens),
        None => vec![TOKEN.to_owned()],
    }
}

fn as_text(tokens: &[Token]) -> Vec<String> {
    tokens.iter().map(|token| token.0.to_string()).collect()
}

/// Returns the row of `system.local`, if there is one.
async fn stored(database: &Node, now_s: u32) -> Result<Option<Row>, StorageError> {
    let schema = database.store().schema();
    let Some(table) = schema.table("system", "local") else { return Ok(None) };
    let target = ReadTarget::Partition(local_key());
    let command = ReadCommand::of_all(Arc::clone(table), target, now_s);
    let read = database.read(command).await?;
    Ok(read.partitions.into_iter().flat_map(|partition| partition.rows).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_the_settings_does_not_replace_a_saved_one() {
        let (saved, none) = (["5".to_owned()], []);
        let configured = [Token(7)];
        assert_eq!(shown_tokens(Some(&configured), &saved), ["5"]);
        assert_eq!(shown_tokens(Some(&configured), &none), ["7"]);
        assert_eq!(shown_tokens(Some(&[]), &saved), ["5"]);
        assert_eq!(shown_tokens(None, &saved), ["5"]);
        assert_eq!(shown_tokens(None, &none), [TOKEN]);
    }
}
