//! Finds the data centre and the rack of a member of a ring by its snitch.
//!
//! `cassandra-rackdc.properties` is beside the file of `--config`. The file has Java's form of
//! properties, one property on each line: `dc=east`.

use super::document::Value;
use super::error::{ConfigurationError, Origin};

/// The name of the file that GossipingPropertyFileSnitch reads.
pub const RACK_FILE_NAME: &str = "cassandra-rackdc.properties";
/// The place that Cassandra's SimpleSnitch gives every node.
const SIMPLE: (&str, &str) = ("datacenter1", "rack1");

/// Returns the data centre and the rack. `snitch` is the setting with its place, `file` the content
/// of the file of properties.
pub(super) fn place_of(
    snitch: Option<&(Value, Origin)>,
    file: Option<&[u8]>,
) -> Result<(String, String), ConfigurationError> {
    let simple = (SIMPLE.0.to_owned(), SIMPLE.1.to_owned());
    let Some((value, origin)) = snitch else { return Ok(simple) };
    let bad = |reason: &str| ConfigurationError::BadValue {
        origin: origin.clone(),
        key: "endpoint_snitch".to_owned(),
        value: value.to_string(),
        reason: reason.to_owned(),
    };
    let class = value.to_string();
    match class.rsplit('.').next() {
        Some("SimpleSnitch") => Ok(simple),
        Some("GossipingPropertyFileSnitch") => {
            let file = file.ok_or_else(|| {
                bad("there is no cassandra-rackdc.properties beside the file of --config")
            })?;
            let text = String::from_utf8_lossy(file);
            let place = property(&text, "dc").zip(property(&text, "rack"));
            place.ok_or_else(|| {
                bad("DC or rack not found in snitch properties, check your configuration in: \
                     cassandra-rackdc.properties")
            })
        }
        _ => Err(bad("expected SimpleSnitch or GossipingPropertyFileSnitch")),
    }
}

/// Returns the value of a property, from the last line that has the property; `None` if no line has
/// it, or if the value is empty.
fn property(text: &str, name: &str) -> Option<String> {
    let lines = text.lines().map(str::trim_start).filter(|line| !line.starts_with(['#', '!']));
    let pairs = lines.filter_map(|line| line.split_once(['=', ':']));
    let mut found = pairs.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim());
    found.next_back().filter(|value| !value.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(snitch: &str, file: Option<&str>) -> Result<(String, String), String> {
        let snitch = (Value::Scalar(snitch.to_owned()), Origin::Set);
        let found = place_of(Some(&snitch), file.map(str::as_bytes));
        found.map_err(|error| error.to_string())
    }

    #[test]
    fn the_snitch_sets_data_center_and_rack() {
        let expected = |center: &str, rack: &str| Ok((center.to_owned(), rack.to_owned()));
        assert_eq!(
            place_of(None, None).map_err(|_| ""),
            expected("datacenter1", "rack1").map_err(|_: String| "")
        );
        let simple = "org.apache.cassandra.locator.SimpleSnitch";
        assert_eq!(place(simple, Some("dc=a")), expected("datacenter1", "rack1"));
        let file = "# comment\n#dc=x\ndc = East 1 \nrack=r:7\nprefer_local=true\ndc=East 2\n";
        let gossiping = "GossipingPropertyFileSnitch";
        assert_eq!(place(gossiping, Some(file)), expected("East 2", "r:7"));
    }

    #[test]
    fn a_place_that_is_not_given_is_refused() {
        for (snitch, file, reason) in [
            ("GossipingPropertyFileSnitch", None, "no cassandra-rackdc.properties"),
            ("GossipingPropertyFileSnitch", Some("dc=a\n"), "DC or rack not found"),
            ("GossipingPropertyFileSnitch", Some("dc=\nrack=b"), "DC or rack not found"),
            ("Ec2Snitch", Some("dc=a\nrack=b"), "expected SimpleSnitch or Gossiping"),
        ] {
            let error = place(snitch, file).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
