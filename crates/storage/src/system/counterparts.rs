//! System tables of Cassandra, most of which this node does not fill. A member of a ring fills
//! `paxos`, and builds of materialized views fill `view_builds_in_progress` and
//! `view_build_status`. Tables of `system_auth` hold the roles. Drivers, tools and applications can
//! read and write all these tables, and find Cassandra's columns.

use super::SYSTEM_KEYSPACE;

/// Keyspace of roles and permissions. Its tables are empty unless the settings enable log-ins.
pub(super) const AUTH_KEYSPACE: &str = "system_auth";
/// Keyspace that Cassandra's nodes share: histories of repairs, denied partitions, builds of views.
pub(super) const DISTRIBUTED_KEYSPACE: &str = "system_distributed";

/// Tables of `system`.
pub(super) const SYSTEM_COUNTERPARTS: &[(&str, &str)] = &[
    ("available_ranges", "keyspace_name text pk, ranges set<blob>"),
    (
        "available_ranges_v2",
        "keyspace_name text pk, full_ranges set<blob>, transient_ranges set<blob>",
    ),
    (
        "paxos",
        "row_key blob pk, cf_id uuid ck, in_progress_ballot timeuuid,  \
         in_progress_read_ballot timeuuid, most_recent_commit blob,  \
         most_recent_commit_at timeuuid, most_recent_commit_version int, proposal blob,  \
         proposal_ballot timeuuid, proposal_version int",
    ),
    (
        "paxos_repair_history",
        "keyspace_name text pk, table_name text ck,  \
         points frozen<list<frozen<tuple<blob, timeuuid>>>>",
    ),
    ("peer_events", "peer inet pk, hints_dropped map<timeuuid, int>"),
    ("peer_events_v2", "peer inet pk, peer_port int ck, hints_dropped map<timeuuid, int>"),
    (
        "repairs",
        "parent_id timeuuid pk, cfids set<uuid>, coordinator inet, coordinator_port int,  \
         last_update timestamp, participants set<inet>, participants_wp set<text>,  \
         ranges set<blob>, repaired_at timestamp, started_at timestamp, state int",
    ),
    (
        "sstable_activity",
        "keyspace_name text pk, columnfamily_name text pk, generation int pk,  \
         rate_120m double, rate_15m double",
    ),
    (
        "sstable_activity_v2",
        "keyspace_name text pk, table_name text pk, id text pk, rate_120m double,  \
         rate_15m double",
    ),
    (
        "top_partitions",
        "keyspace_name text pk, table_name text ck, top_type text ck, last_update timestamp,  \
         top frozen<list<frozen<tuple<text, bigint>>>>",
    ),
    (
        "transferred_ranges",
        "operation text pk, keyspace_name text pk, peer inet ck, ranges set<blob>",
    ),
    (
        "transferred_ranges_v2",
        "operation text pk, keyspace_name text pk, peer inet ck, peer_port int ck,  \
         ranges set<blob>",
    ),
    (
        "view_builds_in_progress",
        "keyspace_name text pk, view_name text ck, start_token text ck, end_token text ck,  \
         keys_built bigint, last_token text",
    ),
];

/// Tables of `system_auth`.
pub(super) const AUTH: &[(&str, &str)] = &[
    ("cidr_groups", "cidr_group text pk, cidrs frozen<set<frozen<tuple<inet, smallint>>>>"),
    ("cidr_permissions", "role text pk, cidr_groups frozen<set<text>>"),
    ("identity_to_role", "identity text pk, role text"),
    ("network_permissions", "role text pk, dcs frozen<set<text>>"),
    ("resource_role_permissons_index", "resource text pk, role text ck"),
    ("role_members", "role text pk, member text ck"),
    ("role_permissions", "role text pk, resource text ck, permissions set<text>"),
    (
        "roles",
        "role text pk, can_login boolean, is_superuser boolean, member_of set<text>,  \
         salted_hash text",
    ),
];

/// Tables of `system_distributed`.
pub(super) const DISTRIBUTED: &[(&str, &str)] = &[
    (
        "parent_repair_history",
        "parent_id timeuuid pk, columnfamily_names set<text>, exception_message text,  \
         exception_stacktrace text, finished_at timestamp, keyspace_name text,  \
         options map<text, text>, requested_ranges set<text>, started_at timestamp,  \
         successful_ranges set<text>",
    ),
    ("partition_denylist", "ks_name text pk, table_name text pk, key blob ck"),
    (
        "repair_history",
        "keyspace_name text pk, columnfamily_name text pk, id timeuuid ck, coordinator inet,  \
         coordinator_port int, exception_message text, exception_stacktrace text,  \
         finished_at timestamp, parent_id timeuuid, participants set<inet>,  \
         participants_v2 set<text>, range_begin text, range_end text, started_at timestamp,  \
         status text",
    ),
    ("view_build_status", "keyspace_name text pk, view_name text pk, host_id uuid ck, status text"),
];

/// Returns Cassandra's comment of a stored system table.
pub(super) fn comment_of_counterpart(keyspace: &str, name: &str) -> &'static str {
    match (keyspace, name) {
        (SYSTEM_KEYSPACE, "IndexInfo") => "built column indexes",
        (SYSTEM_KEYSPACE, "available_ranges" | "available_ranges_v2") => {
            "available keyspace/ranges during bootstrap/replace that are ready to be served"
        }
        (SYSTEM_KEYSPACE, "batches") => "batches awaiting replay",
        (SYSTEM_KEYSPACE, "built_views") => "built views",
        (SYSTEM_KEYSPACE, "compaction_history") => "week-long compaction history",
        (SYSTEM_KEYSPACE, "local") => "information about the local node",
        (SYSTEM_KEYSPACE, "paxos") => "in-progress paxos proposals",
        (SYSTEM_KEYSPACE, "paxos_repair_history") => "paxos repair history",
        (SYSTEM_KEYSPACE, "peer_events" | "peer_events_v2") => "events related to peers",
        (SYSTEM_KEYSPACE, "peers" | "peers_v2") => "information about known peers in the cluster",
        (SYSTEM_KEYSPACE, "prepared_statements") => "prepared statements",
        (SYSTEM_KEYSPACE, "repairs") => "repairs",
        (SYSTEM_KEYSPACE, "size_estimates") => {
            "per-table primary range size estimates, table is deprecated in favor of table_estimates"
        }
        (SYSTEM_KEYSPACE, "sstable_activity" | "sstable_activity_v2") => {
            "historic sstable read rates"
        }
        (SYSTEM_KEYSPACE, "table_estimates") => "per-table range size estimates",
        (SYSTEM_KEYSPACE, "top_partitions") => "Stores the top partitions",
        (SYSTEM_KEYSPACE, "transferred_ranges" | "transferred_ranges_v2") => {
            "record of transferred ranges for streaming operation"
        }
        (SYSTEM_KEYSPACE, "view_builds_in_progress") => "views builds current progress",
        (AUTH_KEYSPACE, "cidr_groups") => "cidr groups to cidrs mapping",
        (AUTH_KEYSPACE, "cidr_permissions") => "user cidr permissions",
        (AUTH_KEYSPACE, "identity_to_role") => "mtls authorized identities lookup table",
        (AUTH_KEYSPACE, "network_permissions") => "user network permissions",
        (AUTH_KEYSPACE, "resource_role_permissons_index") => {
            "index of db roles with permissions granted on a resource"
        }
        (AUTH_KEYSPACE, "role_members") => "role memberships lookup table",
        (AUTH_KEYSPACE, "role_permissions") => "permissions granted to db roles",
        (AUTH_KEYSPACE, "roles") => "role definitions",
        (DISTRIBUTED_KEYSPACE, "partition_denylist") => {
            "Partition keys which have been denied access"
        }
        (DISTRIBUTED_KEYSPACE, "repair_history" | "parent_repair_history") => "Repair history",
        (DISTRIBUTED_KEYSPACE, "view_build_status") => "Materialized View build status",
        _ => "",
    }
}
