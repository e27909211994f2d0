//! SASI indexes that a setting or their options refuse, patterns that are null or empty, writes
//! with too many entries, and the warning about a new index.

use espalier_cql::{
    ClientState, QueryOptions, QueryProcessor, QueryResult, Value, Values, Warnings,
};
use espalier_runtime::{block_on, file::FileSystem};
use espalier_storage::StorageConfiguration;

use crate::support::node::{execute, open, open_with, rows};

const CREATE: &str =
    "CREATE CUSTOM INDEX ON k.t (v) USING 'org.apache.cassandra.index.sasi.SASIIndex'";

async fn create_table(processor: &QueryProcessor) {
    let keyspace =
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    for statement in [keyspace, "CREATE TABLE k.t (k text PRIMARY KEY, v text)"] {
        execute(processor, statement).await.unwrap();
    }
}

async fn open_enabled() -> QueryProcessor {
    let mut configuration = StorageConfiguration::new("node");
    configuration.schema_features.sasi_indexes_enabled = true;
    let (_, processor) = open_with(&FileSystem::simulated(1), configuration).await;
    create_table(&processor).await;
    processor
}

#[test]
fn a_setting_enables_sasi_indexes() {
    block_on(async {
        let (_, processor) = open(&FileSystem::simulated(1)).await;
        create_table(&processor).await;
        let refusal = execute(&processor, CREATE).await.unwrap_err();
        assert!(refusal.starts_with("SASI indexes are disabled. Enable in cassandra.yaml to use."));
        let processor = open_enabled().await;
        let warnings = Warnings::default();
        let options = QueryOptions { warnings: Some(&warnings), ..QueryOptions::default() };
        processor.query(CREATE, &mut ClientState::default(), &options).await.unwrap();
        let warning = "SASI indexes are experimental and are not recommended for production use.";
        assert_eq!(warnings.take(), [warning]);
    });
}

#[test]
fn options_that_break_an_index_in_cassandra_are_refused() {
    block_on(async {
        let processor = open_enabled().await;
        let analyzer = "'analyzer_class': 'org.apache.cassandra.index.sasi.analyzer.";
        for (options, reason) in [
            ("DelimiterAnalyzer', 'delimiter': 'ab'", "Only single character delimiters"),
            ("DelimiterAnalyzer', 'delimiter': ''", "Only single character delimiters"),
            (
                "StandardAnalyzer', 'tokenization_normalize_lowercase': 'true', \
                 'tokenization_normalize_uppercase': 'true'",
                "Options to normalize terms cannot be both",
            ),
        ] {
            let statement = format!("{CREATE} WITH OPTIONS = {{{analyzer}{options}}}");
            let refusal = execute(&processor, &statement).await.unwrap_err();
            assert!(refusal.starts_with(reason), "{refusal}");
        }
    });
}

#[test]
fn a_null_or_empty_pattern_is_refused_when_it_is_bound() {
    block_on(async {
        let processor = open_enabled().await;
        execute(&processor, CREATE).await.unwrap();
        let client = ClientState::default();
        let prepared = processor.prepare("SELECT k FROM k.t WHERE v LIKE ?", &client).unwrap();
        for (value, reason) in [
            (Value::Null, "Unsupported null value for column v"),
            (Value::Unset, "Unsupported unset value for column v"),
            (Value::Bytes("%".into()), "LIKE value can't be empty."),
            (Value::Bytes("%a".into()), "v LIKE '%<term>' a is only supported on properly"),
        ] {
            let values = Values::Positional(std::slice::from_ref(&value));
            let options = QueryOptions { values, ..QueryOptions::default() };
            let refusal = processor.execute(&prepared, &client, &options).await.unwrap_err();
            assert!(refusal.message.starts_with(reason), "{}", refusal.message);
        }
        let value = Value::Bytes("a%".into());
        let values = Values::Positional(std::slice::from_ref(&value));
        let options = QueryOptions { values, ..QueryOptions::default() };
        let answer = processor.execute(&prepared, &client, &options).await.unwrap();
        assert!(matches!(answer, QueryResult::Rows(rows) if rows.row_count == 0));
    });
}

/// Each different word of a pattern would be a search of the index.
#[test]
fn a_pattern_with_too_many_terms_is_refused() {
    block_on(async {
        let processor = open_enabled().await;
        let options = "{'mode': 'CONTAINS', 'analyzed': 'true'}";
        execute(&processor, &format!("{CREATE} WITH OPTIONS = {options}")).await.unwrap();
        let words =
            |count: usize| -> Vec<_> { (0..count).map(|number| format!("word{number}")).collect() };
        let insert = format!("INSERT INTO k.t (k, v) VALUES ('1', '{}')", words(64).join(" "));
        execute(&processor, &insert).await.unwrap();
        let select = |pattern: String| format!("SELECT k FROM k.t WHERE v LIKE '{pattern}'");
        // The words may be repeated.
        let pattern = words(64).join(" ").repeat(2).replace("63word", "63 word");
        assert_eq!(rows(&processor, &select(pattern), None).await.0, 1);
        let refusal = execute(&processor, &select(words(65).join(" "))).await.unwrap_err();
        assert_eq!(refusal, "LIKE pattern for column v has more than 64 terms; use fewer words");
    });
}

/// In mode CONTAINS each suffix has an index entry, and each entry repeats the key.
#[test]
fn a_text_with_too_many_bytes_of_suffixes_is_refused() {
    block_on(async {
        let processor = open_enabled().await;
        let options = "{'mode': 'CONTAINS', 'analyzed': 'true'}";
        execute(&processor, &format!("{CREATE} WITH OPTIONS = {options}")).await.unwrap();
        let key = "k".repeat(1000);
        let insert = |words: usize| {
            let text: String = (0..words).map(|number| format!("word{number} ")).collect();
            format!("INSERT INTO k.t (k, v) VALUES ('{key}', '{text}')")
        };
        execute(&processor, &insert(100)).await.unwrap();
        let refusal = execute(&processor, &insert(20_000)).await.unwrap_err();
        assert!(refusal.contains("entries"), "{refusal}");
    });
}
