//! Commands of Cassandra's nodetool that this nodetool does not have, with what to use instead.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Commands of Cassandra 5.0 that an operator of one node may look for, each with its counterpart
/// here.
const COUNTERPARTS: &[(&str, &str)] = &[
    ("clientstats", "SELECT * FROM system_views.clients lists the clients"),
    ("describecluster", "nodetool status shows the node, DESCRIBE CLUSTER in cqlsh the cluster"),
    ("describering", RING),
    ("disablebinary", BINARY),
    ("drain", "SIGTERM stops the node cleanly: it answers running requests and flushes"),
    ("enablebinary", BINARY),
    ("garbagecollect", "nodetool compact removes deleted rows that are past gc_grace_seconds"),
    ("gcstats", "the node has no garbage collector; nodetool info shows its memory"),
    ("getconcurrency", POOLS),
    ("getlogginglevels", LOGGING),
    ("netstats", "no data streams between nodes; system_views.clients lists the connections"),
    ("proxyhistograms", "the metrics at /metrics of the admin API have histograms of latencies"),
    ("rebuild_index", "DROP INDEX and CREATE INDEX build an index anew"),
    ("refresh", "nodetool import adds SSTables to a table"),
    ("ring", RING),
    ("setlogginglevel", LOGGING),
    ("stopdaemon", "SIGTERM stops the node cleanly"),
    ("tablehistograms", "the metrics at /metrics have latencies, nodetool tablestats the sizes"),
    ("cfhistograms", "the metrics at /metrics have latencies, nodetool tablestats the sizes"),
    (
        "toppartitions",
        "the node does not sample partitions; nodetool settraceprobability traces requests",
    ),
    ("tpstats", POOLS),
    (
        "verify",
        "nodetool scrub -m validate checks the files, espalier sstable verify without a node",
    ),
];
const RING: &str = "the node owns the whole ring; nodetool status shows it";
const BINARY: &str = "the node serves CQL from its start to its end; SIGTERM stops it cleanly";
const LOGGING: &str = "--log or RUST_LOG set the levels at the start, such as --log debug";
const POOLS: &str = "there are no pools of threads; the metrics are at /metrics of the admin API";

/// Commands of Cassandra's nodetool about several nodes, or about several copies of the data.
const OF_CLUSTERS: &[&str] = &[
    "abortbootstrap",
    "abortdecommission",
    "assassinate",
    "bootstrap",
    "checktokenmetadata",
    "decommission",
    "disablegossip",
    "disablehandoff",
    "enablegossip",
    "enablehandoff",
    "failuredetector",
    "getendpoints",
    "getseeds",
    "gossipinfo",
    "join",
    "listpendinghints",
    "move",
    "pausehandoff",
    "rebuild",
    "reloadseeds",
    "removenode",
    "repair",
    "repair_admin",
    "replaybatchlog",
    "resumehandoff",
    "statusgossip",
    "statushandoff",
    "truncatehints",
];

/// Returns clap's error, or a more helpful one if the command is one of Cassandra's nodetool.
pub fn explain(error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let counterpart = COUNTERPARTS.iter().find(|(known, _)| known == name);
    let advice = match counterpart {
        Some((_, advice)) => advice,
        None if OF_CLUSTERS.contains(&name.as_str()) => "the node stores one copy of its data",
        None => return error,
    };
    let message = format!("nodetool {name} is not in Espalier: {advice}\n");
    clap::Error::raw(ErrorKind::InvalidSubcommand, message)
}
