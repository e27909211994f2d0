//! Compares times and bounds of timeuuids with Apache Cassandra 5.0.9.

use crate::support::{Report, lines};
use espalier_types::timeuuid::{
    max_for_millis, min_for_millis, unix_timestamp_micros, unix_timestamp_millis,
};
use uuid::Uuid;

#[test]
fn times_and_bounds_are_cassandras() {
    let mut report = Report::default();
    for line in lines(include_str!("../../../../testdata/types/timeuuid.txt")) {
        let [kind, a, b, c] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        if kind == "bounds" {
            let millis = a.parse().unwrap();
            report.check(Uuid::from_bytes(min_for_millis(millis)).to_string(), b.to_owned(), line);
            report.check(Uuid::from_bytes(max_for_millis(millis)).to_string(), c.to_owned(), line);
        } else {
            let id = Uuid::parse_str(a).unwrap();
            report.check(unix_timestamp_millis(id.as_bytes()), b.parse().ok(), line);
            report.check(unix_timestamp_micros(id.as_bytes()), c.parse().ok(), line);
        }
    }
    report.finish(100);
}
