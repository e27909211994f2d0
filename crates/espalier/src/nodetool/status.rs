//! `nodetool status`: shows the ring, of which the admin API reports only this node.

use serde_json::Value;

use super::show::{all, columns, size, text};
use crate::admin_client::{NodeAddress, NodeError, Request, ask};

/// The ring in the answers of the admin API.
struct Ring {
    data_center: String,
    rack: String,
    /// Addresses of the live nodes.
    live: Value,
    /// Loads by address; `host_ids` and `ownership` are by address too.
    loads: Value,
    host_ids: Value,
    ownership: Value,
    /// Addresses by token.
    tokens: Value,
}

/// Returns the text that `nodetool status` prints. The node refuses a keyspace that does not exist.
///
/// # Errors
/// Fails if a request fails.
pub async fn status(node: &NodeAddress, keyspace: Option<&str>) -> Result<String, NodeError> {
    let ownership = Request::get("/storage_service/ownership");
    let ownership = match keyspace {
        Some(keyspace) => ownership.below(keyspace),
        None => ownership,
    };
    let ring = Ring {
        data_center: ask(node, &Request::get("/snitch/datacenter")).await?,
        rack: ask(node, &Request::get("/snitch/rack")).await?,
        live: ask(node, &Request::get("/gossiper/endpoint/live")).await?,
        loads: ask(node, &Request::get("/storage_service/load_map")).await?,
        host_ids: ask(node, &Request::get("/storage_service/host_id")).await?,
        ownership: ask(node, &ownership).await?,
        tokens: ask(node, &Request::get("/storage_service/tokens_endpoint")).await?,
    };
    Ok(ring.show())
}

/// Returns the value of an address in a map, as ScyllaDB's API sends maps.
fn of<'a>(map: &'a Value, address: &str) -> Option<&'a Value> {
    all(map).find(|entry| text(entry, "key") == address)?.get("value")
}

impl Ring {
    /// Formats the ring with the columns for nodes with several tokens, which is Cassandra's
    /// default, because scripts parse this output.
    fn show(&self) -> String {
        let title = format!("Datacenter: {}", self.data_center);
        let underline = "=".repeat(title.chars().count());
        let head = ["--", "Address", "Load", "Tokens", "Owns (effective)", "Host ID", "Rack"];
        let lines: Vec<Vec<String>> =
            all(&self.live).filter_map(Value::as_str).map(|address| self.line(address)).collect();
        format!(
            "{title}\n{underline}\nStatus=Up/Down\n|/ State=Normal/Leaving/Joining/Moving\n{}\n",
            columns(&head, &lines, "  ")
        )
    }

    fn line(&self, address: &str) -> Vec<String> {
        let load = of(&self.loads, address).and_then(Value::as_u64);
        let tokens = all(&self.tokens).filter(|entry| text(entry, "value") == address).count();
        let owns = of(&self.ownership, address).and_then(Value::as_str);
        let owns: Option<f64> = owns.and_then(|share| share.parse().ok());
        let host_id = of(&self.host_ids, address).and_then(Value::as_str);
        vec![
            "UN".to_owned(),
            address.to_owned(),
            load.map_or("?".to_owned(), size),
            tokens.to_string(),
            owns.map_or("?".to_owned(), |share| format!("{:.1}%", share * 100.0)),
            host_id.unwrap_or("?").to_owned(),
            self.rack.clone(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_ring_of_one_is_shown_as_cassandra_shows_it() {
        let of = |value: Value| json!([{"key": "10.0.0.7", "value": value}]);
        let ring = Ring {
            data_center: "datacenter1".into(),
            rack: "rack1".into(),
            live: json!(["10.0.0.7"]),
            loads: of(json!(3_145_728)),
            host_ids: of(json!("c00ffee0-0000-4000-8000-000000000000")),
            ownership: of(json!("1.0")),
            tokens: json!([{"key": "-9223372036854775808", "value": "10.0.0.7"}]),
        };
        let expected = "\
Datacenter: datacenter1
=======================
Status=Up/Down
|/ State=Normal/Leaving/Joining/Moving
--  Address   Load      Tokens  Owns (effective)  Host ID                               Rack
UN  10.0.0.7  3.00 MiB  1       100.0%            c00ffee0-0000-4000-8000-000000000000  rack1
";
        assert_eq!(ring.show(), expected);
    }
}
