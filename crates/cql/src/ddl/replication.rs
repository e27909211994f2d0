//! Checks and completes the `replication` of a keyspace, as Cassandra does.
//!
//! `NetworkTopologyStrategy` names data centers. Cassandra refuses unknown data centers. By default
//! (`allow_unknown_data_centers`), this node accepts them, so that a cluster's schema can be
//! copied. For the same purpose it accepts ScyllaDB's `EverywhereStrategy`.

use std::collections::BTreeMap;

use espalier_runtime::log_limit::{LogLimit, Quoted};
use espalier_storage::system::DATA_CENTER;

use super::Context;
use crate::{Error, Result};

/// Cassandra's `default_keyspace_rf`.
const DEFAULT_FACTOR: &str = "1";
const FACTOR: &str = "replication_factor";
const PACKAGE: &str = "org.apache.cassandra.locator.";

thread_local! {
    /// Limits the log lines about unknown data centers to ten a minute on each shard (arbitrary).
    static UNKNOWN_DATA_CENTERS: LogLimit = const { LogLimit::at_most(10) };
}

/// Checks the replication of a keyspace, and completes it.
///
/// # Errors
/// The class is missing, unknown or reserved, an option is unknown or no number of replicas, or no
/// data center is left.
pub(super) fn check(
    context: &Context<'_>,
    keyspace: &str,
    replication: &mut BTreeMap<String, String>,
) -> Result<()> {
    let Some(class) = replication.remove("class") else {
        return Err(Error::configuration("Missing replication strategy class"));
    };
    let simple = class.strip_prefix(PACKAGE).unwrap_or(&class);
    match simple {
        "SimpleStrategy" => check_simple(keyspace, replication)?,
        "NetworkTopologyStrategy" => check_topology(context, keyspace, replication)?,
        "EverywhereStrategy" => {
            replication.values().try_for_each(|factor| check_factor(factor))?;
        }
        // A schema file may contain system keyspaces.
        "LocalStrategy" if context.node.is_none() => {}
        "LocalStrategy" => {
            return Err(Error::invalid(
                "Unable to use given strategy class: LocalStrategy is reserved for internal use.",
            ));
        }
        "OldNetworkTopologyStrategy" => {
            return Err(Error::configuration(
                "The support for the OldNetworkTopologyStrategy has been removed in C* version 4.0. \
                 The keyspace strategy should be switch to NetworkTopologyStrategy",
            ));
        }
        _ => {
            let package = if class.contains('.') { "" } else { PACKAGE };
            return Err(Error::configuration(format!(
                "Unable to find replication strategy class '{package}{class}'"
            )));
        }
    }
    replication.insert("class".into(), format!("{PACKAGE}{simple}"));
    Ok(())
}

fn check_simple(keyspace: &str, options: &mut BTreeMap<String, String>) -> Result<()> {
    if let Some(factor) = options.get(FACTOR) {
        check_factor(factor)?;
    }
    if let Some(name) = options.keys().find(|name| *name != FACTOR) {
        return Err(Error::configuration(format!(
            "Unrecognized strategy option {{{name}}} passed to SimpleStrategy for keyspace {keyspace}"
        )));
    }
    options.entry(FACTOR.into()).or_insert_with(|| DEFAULT_FACTOR.into());
    Ok(())
}

/// If this node's data center has no factor, sets it to `replication_factor`. Without
/// `replication_factor`, sets it to the default if the statement names no data center. Warns of
/// unknown data centers or refuses them, and removes the data centers with a factor of 0.
fn check_topology(
    context: &Context<'_>,
    keyspace: &str,
    options: &mut BTreeMap<String, String>,
) -> Result<()> {
    let factor = options.remove(FACTOR);
    let unknown: Vec<String> =
        options.keys().filter(|name| *name != DATA_CENTER).cloned().collect();
    options.values().try_for_each(|factor| check_factor(factor))?;
    if let Some(Err(error)) = factor.as_deref().map(check_factor) {
        return Err(if options.is_empty() { without_data_center() } else { error });
    }
    let default = if options.is_empty() { Some(DEFAULT_FACTOR.into()) } else { None };
    if factor.is_some() {
        keep_data_centers(context, keyspace, options);
    }
    if let Some(factor) = factor.or(default) {
        options.entry(DATA_CENTER.into()).or_insert(factor);
    }
    let is_allowed = context.node.is_none_or(|node| node.features.allow_unknown_data_centers);
    if let Some(name) = unknown.first() {
        if !is_allowed || name.is_empty() {
            return Err(Error::configuration(format!(
                "Unrecognized strategy option {{{name}}} passed to NetworkTopologyStrategy for keyspace {keyspace}"
            )));
        }
        let names = unknown.join(", ");
        if let Some(left_out) = UNKNOWN_DATA_CENTERS.with(|limit| limit.due("data centers")) {
            tracing::warn!(
                keyspace,
                data_centers = %Quoted(&names),
                left_out,
                "keyspace is replicated to unknown data centers, which has no effect here: \
                 allow_unknown_data_centers: false refuses them"
            );
        }
        if let Some(guard) = context.guard() {
            guard.warn(format!(
                "Keyspace {keyspace} is replicated to unknown data centers ({names}), which has no effect on this node"
            ));
        }
    }
    options.retain(|_, factor| !factor.trim_start_matches('0').is_empty());
    if options.is_empty() {
        return Err(without_data_center());
    }
    Ok(())
}

/// Keeps the data centers of an altered keyspace, because `replication_factor` concerns only the
/// data centers that the keyspace does not have yet, as in Cassandra.
fn keep_data_centers(
    context: &Context<'_>,
    keyspace: &str,
    options: &mut BTreeMap<String, String>,
) {
    let old = context.schema.keyspace(keyspace).map(|keyspace| &keyspace.replication);
    for (name, factor) in old.into_iter().flatten() {
        if name != "class" && name != FACTOR {
            options.entry(name.clone()).or_insert_with(|| factor.clone());
        }
    }
}

fn without_data_center() -> Error {
    Error::configuration("Configuration for at least one datacenter must be present")
}

/// Checks a number of replicas.
fn check_factor(factor: &str) -> Result<()> {
    match factor.parse::<i32>() {
        Ok(0..) => Ok(()),
        Ok(_) => Err(Error::configuration(format!(
            "Replication factor must be non-negative, found {factor}"
        ))),
        Err(_) if factor.contains('/') => {
            Err(Error::configuration("Transient replication is not enabled on this node"))
        }
        Err(_) => Err(Error::configuration(format!("For input string: \"{factor}\""))),
    }
}

#[cfg(test)]
mod tests {
    use espalier_mutation::schema::Schema;
    use espalier_storage::StorageConfiguration;

    use super::super::{NodeSettings, apply};

    #[test]
    fn a_setting_refuses_unknown_data_centers() {
        let mut configuration = StorageConfiguration::new("node");
        let schema = Schema::new(Default::default(), uuid::Uuid::nil());
        let create = |configuration: &StorageConfiguration, options: &str| {
            let text = format!(
                "CREATE KEYSPACE k WITH replication = {{'class': 'NetworkTopologyStrategy', {options}}}"
            );
            apply(&text, None, &schema, Some(&NodeSettings::of(configuration)))
                .map_err(|error| error.message)
        };
        assert!(create(&configuration, "'datacenter1': 1, 'dc9': 2").is_ok());
        configuration.schema_features.allow_unknown_data_centers = false;
        assert_eq!(
            create(&configuration, "'datacenter1': 1, 'dc9': 2").err().as_deref(),
            Some(
                "Unrecognized strategy option {dc9} passed to NetworkTopologyStrategy for keyspace k"
            )
        );
        assert!(create(&configuration, "'datacenter1': 1").is_ok());
        assert!(create(&configuration, "'replication_factor': 1").is_ok());
    }
}
