//! The admin API over its socket.

use std::{net::SocketAddr, time::Duration};

use bytes::BytesMut;
use cassandra_protocol::frame::Opcode;
use espalier_runtime::{net::TcpStream, time::sleep};

use super::bounds::wait_for;
use super::client::MODES;
use super::node::with_node;

/// Sends one request on a connection of its own and returns status and body of the answer.
pub async fn ask(address: SocketAddr, method: &str, target: &str) -> (u16, String) {
    let stream = TcpStream::connect(address).await.unwrap();
    let request =
        format!("{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.into_bytes()).await.0.unwrap();
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(64 * 1024);
        let (result, back) = stream.read(buffer).await;
        buffer = back;
        if result.unwrap() == 0 {
            break;
        }
    }
    let text = String::from_utf8(buffer.to_vec()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Returns the number in the first line of `/metrics` that begins with `name`.
pub async fn metric(address: SocketAddr, name: &str) -> u64 {
    let (_, text) = ask(address, "GET", "/metrics").await;
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn metrics_count_requests_and_connections_of_all_shards() {
    with_node(
        2,
        |_| {},
        |node| async move {
            let mut clients = vec![node.client(MODES[0]).await, node.client(MODES[0]).await];
            for client in &mut clients {
                client.ask(client.request(0, Opcode::Options, vec![])).await;
            }
            let (status, text) = ask(node.admin, "GET", "/metrics").await;
            assert_eq!(status, 200);
            for shard in 0..2 {
                for line in [
                    format!("scylla_transport_current_connections{{shard=\"{shard}\"}} 1\n"),
                    format!(
                        "scylla_transport_cql_requests_count{{shard=\"{shard}\",kind=\"OPTIONS\"}} 1\n"
                    ),
                    format!(
                        "scylla_transport_cql_requests_count{{shard=\"{shard}\",kind=\"STARTUP\"}} 1\n"
                    ),
                ] {
                    assert!(text.contains(&line), "{line}{text}");
                }
            }
            assert!(text.contains("# TYPE scylla_transport_cql_requests_count counter\n"));
        },
    );
}

#[test]
fn admin_api_paths_answer_with_their_status() {
    with_node(
        1,
        |_| {},
        |node| async move {
            let node = &node;
            let get = |target| ask(node.admin, "GET", target);
            assert_eq!(get("/storage_service/native_transport").await, (200, "true".into()));
            assert_eq!(get("/storage_service/operation_mode").await, (200, "\"NORMAL\"".into()));
            assert_eq!(get("/nothing").await.0, 404);
            assert_eq!(get("/compaction_manager/nothing").await.0, 404);
            let flushed = ask(node.admin, "POST", "/storage_service/flush").await;
            assert_eq!(flushed, (200, String::new()), "a flush of all keyspaces");
            for path in ["/storage_service/flush", "/compaction_manager/stop_compaction"] {
                assert_eq!(get(path).await.0, 405, "{path} needs POST");
            }
            for path in [
                "/gossiper/nothing",
                "/snitch/nothing",
                "/cache_service/metrics/row/nothing",
                "/cache_service/metrics/key/entries",
                "/column_family/metrics/nothing/system:local",
                "/storage_service/load/nothing",
            ] {
                assert_eq!(get(path).await.0, 404, "{path}");
            }
            for path in ["/metrics", "/compaction_manager/stop_compaction"] {
                assert_eq!(ask(node.admin, "DELETE", path).await.0, 405);
            }
            assert_eq!(
                ask(node.admin, "POST", "/storage_service/keyspace_compaction/ks").await.0,
                400
            );
        },
    );
}

#[test]
fn a_keyspace_is_flushed_on_demand() {
    with_node(
        2,
        |_| {},
        |node| async move {
            let mut client = node.client(MODES[0]).await;
            client
                .must(
                    "CREATE KEYSPACE ks WITH replication = \
                 {'class': 'SimpleStrategy', 'replication_factor': 1}",
                )
                .await;
            client.must("CREATE TABLE ks.t (k int PRIMARY KEY, v text)").await;
            for key in 0..20 {
                client.must(&format!("INSERT INTO ks.t (k, v) VALUES ({key}, 'x')")).await;
            }
            let node = &node;
            let post = |target| ask(node.admin, "POST", target);
            let flushes = async || {
                metric(node.admin, "espalier_flushes{shard=\"0\"}").await
                    + metric(node.admin, "espalier_flushes{shard=\"1\"}").await
            };
            let wrong = post("/storage_service/keyspace_flush/ks?table=t").await;
            assert!(wrong.0 == 400 && wrong.1.contains("'table'"), "{wrong:?}");
            // A flush of a keyspace also flushes the schema. The test flushes the schema first, so
            // that the flush of `ks.t` counts no tables of the schema.
            let schema = "/storage_service/keyspace_flush/system_schema";
            assert_eq!(post(schema).await, (200, String::new()));
            let before = flushes().await;
            assert_eq!(post("/storage_service/keyspace_flush/ks?cf=t").await, (200, String::new()));
            assert_eq!(flushes().await, before + 2);
            assert_eq!(post("/storage_service/keyspace_flush/nothing").await.0, 400);
            assert_eq!(post("/storage_service/keyspace_flush/ks?cf=t,nothing").await.0, 400);
            let (_, keyspaces) = ask(node.admin, "GET", "/storage_service/keyspaces").await;
            assert!(keyspaces.contains("\"ks\""), "{keyspaces}");
            let (_, tables) = ask(node.admin, "GET", "/column_family/name").await;
            assert!(tables.contains("\"ks:t\""), "{tables}");
            let rows = super::client::Client::rows(client.ask_query("SELECT v FROM ks.t").await);
            assert_eq!(rows.len(), 20);
        },
    );
}

#[test]
fn caches_are_dropped_on_demand() {
    with_node(
        2,
        |_| {},
        |node| async move {
            let mut client = node.client(MODES[0]).await;
            client
                .must(
                    "CREATE KEYSPACE ks WITH replication = \
                 {'class': 'SimpleStrategy', 'replication_factor': 1}",
                )
                .await;
            client.must("CREATE TABLE ks.t (k int PRIMARY KEY, v text)").await;
            for key in 0..20 {
                client.must(&format!("INSERT INTO ks.t (k, v) VALUES ({key}, 'x')")).await;
            }
            assert_eq!(ask(node.admin, "POST", "/storage_service/keyspace_flush/ks").await.0, 200);
            let mut read = async || {
                for key in 0..20 {
                    let text = format!("SELECT v FROM ks.t WHERE k = {key}");
                    let rows = super::client::Client::rows(client.ask_query(&text).await);
                    assert_eq!(rows.len(), 1);
                }
            };
            let held = async |name: &str| {
                metric(node.admin, &format!("{name}{{shard=\"0\"}}")).await
                    + metric(node.admin, &format!("{name}{{shard=\"1\"}}")).await
            };
            read().await;
            for name in ["scylla_cache_rows", "espalier_page_cache_bytes"] {
                assert!(held(name).await > 0, "{name}");
            }
            let dropped = ask(node.admin, "POST", "/system/drop_sstable_caches").await;
            assert_eq!(dropped, (200, String::new()));
            assert_eq!(held("espalier_page_cache_bytes").await, 0);
            // The cache releases the memory of rows in steps.
            let are_gone = async || held("scylla_cache_rows").await == 0;
            assert!(wait_for(are_gone).await, "rows stay in the cache");
            let misses = held("scylla_cache_reads_with_misses").await;
            read().await;
            assert_eq!(held("scylla_cache_reads_with_misses").await, misses + 20);
            assert!(held("scylla_cache_rows").await > 0);
        },
    );
}

#[test]
fn a_table_is_scrubbed_on_demand() {
    with_node(
        2,
        |_| {},
        |node| async move {
            let mut client = node.client(MODES[0]).await;
            client
                .must(
                    "CREATE KEYSPACE ks WITH replication = \
                 {'class': 'SimpleStrategy', 'replication_factor': 1}",
                )
                .await;
            client.must("CREATE TABLE ks.t (k int PRIMARY KEY, v text)").await;
            for key in 0..20 {
                client.must(&format!("INSERT INTO ks.t (k, v) VALUES ({key}, 'x')")).await;
            }
            let node = &node;
            let scrub = async |method: &str, rest: &str| {
                let target = format!("/storage_service/keyspace_scrub/{rest}");
                ask(node.admin, method, &target).await
            };
            let snapshots = async || ask(node.admin, "GET", "/storage_service/snapshots").await.1;
            assert_eq!(ask(node.admin, "POST", "/storage_service/keyspace_flush/ks").await.0, 200);
            let done = (200, "0".to_owned());
            assert_eq!(scrub("GET", "ks").await, done);
            assert_eq!(scrub("POST", "ks?cf=t&scrub_mode=VALIDATE").await, done);
            assert_eq!(scrub("GET", "ks?cf=t&scrub_mode=SKIP&disable_snapshot=true").await, done);
            let counts = "{\"status\":0,\"partitions\":20,\"left_out_partitions\":0}".to_owned();
            let skip = "ks?scrub_mode=SKIP&disable_snapshot=true&counts=true";
            assert_eq!(scrub("GET", skip).await, (200, counts));
            assert_eq!(snapshots().await, "[]");
            assert_eq!(scrub("GET", "ks?scrub_mode=SKIP&quarantine_mode=INCLUDE").await, done);
            let kept = snapshots().await;
            assert!(
                kept.contains("\"key\":\"pre-scrub-") && kept.contains("\"cf\":\"t\""),
                "{kept}"
            );
            for wrong in ["nothing", "ks?cf=nothing", "ks?scrub_mode=FIX", "ks?table=t"] {
                assert_eq!(scrub("GET", wrong).await.0, 400, "{wrong}");
            }
            let segregate = scrub("GET", "ks?scrub_mode=SEGREGATE").await;
            assert!(segregate.0 == 400 && segregate.1.contains("SKIP is"), "{segregate:?}");
            let rows = super::client::Client::rows(client.ask_query("SELECT v FROM ks.t").await);
            assert_eq!(rows.len(), 20);
        },
    );
}

#[test]
fn only_the_snapshots_that_are_named_are_removed() {
    with_node(
        2,
        |_| {},
        |node| async move {
            let mut client = node.client(MODES[0]).await;
            client
                .must(
                    "CREATE KEYSPACE ks WITH replication = \
                 {'class': 'SimpleStrategy', 'replication_factor': 1}",
                )
                .await;
            for table in ["t", "u", "v"] {
                client.must(&format!("CREATE TABLE ks.{table} (k int PRIMARY KEY, v text)")).await;
            }
            let path = "/storage_service/snapshots";
            let made = ask(node.admin, "POST", &format!("{path}?tag=monday&kn=ks")).await;
            assert_eq!(made, (200, String::new()));
            let listed = async || ask(node.admin, "GET", path).await.1;
            let all = listed().await;
            for (wrong, message) in [
                ("tag=", "'tag' is empty"),
                ("tag=monday&kn=", "'kn' is empty"),
                ("tag=monday&kn=ks&cf=", "'cf' is empty"),
                ("kn=,", "'kn' is empty"),
                ("tag=sunday", "There is no snapshot sunday"),
                ("tag=monday&kn=no", "there is no keyspace no"),
                ("tag=monday&kn=ks&cf=t,no", "There is no table no in ks"),
            ] {
                let refused = ask(node.admin, "DELETE", &format!("{path}?{wrong}")).await;
                assert!(refused.0 == 400 && refused.1.contains(message), "{wrong}: {refused:?}");
                assert_eq!(listed().await, all, "{wrong}");
            }
            let some = ask(node.admin, "DELETE", &format!("{path}?tag=monday&kn=ks&cf=t,u")).await;
            assert_eq!(some, (200, String::new()));
            let left = listed().await;
            assert!(left.contains("\"cf\":\"v\"") && !left.contains("\"cf\":\"t\""), "{left}");
            assert_eq!(ask(node.admin, "DELETE", path).await, (200, String::new()));
            assert_eq!(listed().await, "[]");
        },
    );
}

#[test]
fn the_tables_that_a_node_starts_from_stay_as_they_are() {
    with_node(
        1,
        |_| {},
        |node| async move {
            let kept = "/storage_service/snapshots?tag=kept&kn=system_schema,system";
            assert_eq!(ask(node.admin, "POST", kept).await, (200, String::new()));
            for (method, target) in [
                (
                    "POST",
                    "/storage_service/restore?keyspace=system_schema&table=columns&snapshot=kept",
                ),
                ("POST", "/storage_service/restore?keyspace=system&table=local&snapshot=kept"),
                ("POST", "/storage_service/sstables/system_schema?cf=tables&path=/backup"),
                ("POST", "/storage_service/sstables/system?cf=local"),
                ("GET", "/storage_service/keyspace_scrub/system_schema?scrub_mode=SKIP"),
                ("GET", "/storage_service/keyspace_scrub/system?cf=local&scrub_mode=SKIP"),
            ] {
                let refused = ask(node.admin, method, target).await;
                let is_reported = refused.1.contains("is not possible in keyspace system");
                assert!(refused.0 == 400 && is_reported, "{target}: {refused:?}");
            }
            let validated = "/storage_service/keyspace_scrub/system_schema?scrub_mode=VALIDATE";
            assert_eq!(ask(node.admin, "GET", validated).await, (200, "0".into()));
        },
    );
}

#[test]
fn a_key_that_no_partition_can_have_is_refused() {
    with_node(
        1,
        |_| {},
        |node| async move {
            let mut client = node.client(MODES[0]).await;
            client
                .must(
                    "CREATE KEYSPACE ks WITH replication = \
                 {'class': 'SimpleStrategy', 'replication_factor': 1}",
                )
                .await;
            client.must("CREATE TABLE ks.t (name text PRIMARY KEY, v int)").await;
            client.must("CREATE TABLE ks.n (number int PRIMARY KEY, v int)").await;
            client.must("CREATE TABLE ks.p (a int, b text, PRIMARY KEY ((a, b)))").await;
            let explain = async |parameters: &str| {
                let target = format!("/cache_service/row_cache/explain/ks?{parameters}");
                ask(node.admin, "GET", &target).await
            };
            for (parameters, complaint) in [
                (
                    "cf=t&key=",
                    "The key is empty, and no partition has such a key: this needs key=VALUE, with the text that name is",
                ),
                ("cf=n&key=", "with the int that number is"),
                ("cf=p&key=", "needs a, b, with colons between"),
                ("cf=t", "key=KEY"),
            ] {
                let (status, said) = explain(parameters).await;
                assert!(status == 400 && said.contains(complaint), "{parameters}: {said}");
            }
            for parameters in ["cf=t&key=x", "cf=n&key=1", "cf=p&key=1:"] {
                let (status, said) = explain(parameters).await;
                assert!(status == 200 && said.contains("\"unknown\""), "{parameters}: {said}");
            }
        },
    );
}

#[test]
fn explaining_the_cache_of_a_virtual_table_is_refused() {
    with_node(
        1,
        |_| {},
        |node| async move {
            let explain = "/cache_service/row_cache/explain/system_views?cf=settings&key=x";
            let (status, said) = ask(node.admin, "GET", explain).await;
            assert!(status == 400 && said.contains("is a virtual table"), "{status}: {said}");
        },
    );
}

#[test]
fn the_node_is_all_of_the_ring() {
    with_node(
        2,
        |_| {},
        |node| async move {
            let node = &node;
            let get = async |target| {
                let (status, said) = ask(node.admin, "GET", target).await;
                assert_eq!(status, 200, "{target}: {said}");
                said
            };
            let address = node.address.ip();
            let (_, host_id) = ask(node.admin, "GET", "/storage_service/hostid/local").await;
            let token = "\"-9223372036854775808\"";
            for (path, expected) in [
                ("/gossiper/endpoint/live", format!("[\"{address}\"]")),
                ("/gossiper/endpoint/down", "[]".into()),
                ("/storage_service/nodes/leaving", "[]".into()),
                (
                    "/storage_service/host_id",
                    format!("[{{\"key\":\"{address}\",\"value\":{host_id}}}]"),
                ),
                ("/storage_service/tokens", format!("[{token}]")),
                (
                    "/storage_service/tokens_endpoint",
                    format!("[{{\"key\":{token},\"value\":\"{address}\"}}]"),
                ),
                (
                    "/storage_service/ownership/system",
                    format!("[{{\"key\":\"{address}\",\"value\":\"1.0\"}}]"),
                ),
                ("/snitch/datacenter", "\"datacenter1\"".into()),
                ("/snitch/rack", "\"rack1\"".into()),
            ] {
                assert_eq!(get(path).await, expected, "{path}");
            }
            for path in [
                "/storage_service/load",
                "/storage_service/generation_number",
                "/cache_service/metrics/row/requests",
            ] {
                assert!(get(path).await.parse::<u64>().is_ok(), "{path}");
            }
            let uptime = async || get("/system/uptime_ms").await.parse::<u64>().unwrap();
            let before = uptime().await;
            sleep(Duration::from_millis(20)).await;
            assert!(uptime().await >= before + 20);
            let unknown = ask(node.admin, "GET", "/storage_service/ownership/no").await;
            assert!(unknown.0 == 400 && unknown.1.contains("Keyspace no"), "{unknown:?}");
        },
    );
}

#[test]
fn the_throughput_of_compactions_is_changed() {
    with_node(
        2,
        |_| {},
        |node| async move {
            let path = "/storage_service/compaction_throughput";
            let get = || ask(node.admin, "GET", path);
            let post =
                async |query: &str| ask(node.admin, "POST", &format!("{path}?{query}")).await;
            assert_eq!(get().await, (200, "0".into()));
            assert_eq!(post("value=64").await, (200, String::new()));
            assert_eq!(get().await, (200, "64".into()));
            for wrong in ["value=", "value=-1", "value=1.5", "mebibytes=3", ""] {
                assert_eq!(post(wrong).await.0, 400, "{wrong}");
            }
            assert_eq!(get().await, (200, "64".into()));
        },
    );
}

#[test]
fn statistics_of_a_table_are_asked_for_together_or_one_by_one() {
    with_node(
        2,
        |_| {},
        |node| async move {
            let get = async |target: &str| ask(node.admin, "GET", target).await;
            let (status, all) = get("/column_family/statistics").await;
            assert_eq!(status, 200);
            assert!(all.contains("{\"ks\":\"system\",\"cf\":\"local\","), "{all}");
            let metric = async |rest: &str| get(&format!("/column_family/metrics/{rest}")).await;
            assert_eq!(metric("live_ss_table_count/system:peers").await, (200, "0".into()));
            for wrong in ["live_ss_table_count/system:no", "live_ss_table_count/system"] {
                assert_eq!(metric(wrong).await.0, 400, "{wrong}");
            }
            let unknown = metric("no/system:peers").await;
            assert!(unknown.0 == 404 && unknown.1.contains("live_ss_table_count, "), "{unknown:?}");
        },
    );
}
