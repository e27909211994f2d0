//! Measures Cassandra's own classes in a process of their own, with the data of the random keys:
//! `SimpleQuery.java` in this directory.
//!
//! Only the jars of an installation are used. Configuration, data and compiled class are in the
//! measurement's own directory, so a node that runs from the installation is not affected. Java
//! gets the flags that Cassandra needs on Java 11 and 17.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use espalier_runtime::file::FileSystem;
use espalier_runtime::memory::total_bytes;
use espalier_storage::MemtableMemory;
use serde_json::Value;

use super::CASSANDRA;
use crate::BenchError;
use crate::memtable::memory::MemoryFigure;
use crate::memtable::record::Measure;
use crate::memtable::{Bench, Part};
use crate::watch::{Lap, Round};

const PROGRAM: &str = include_str!("SimpleQuery.java");

/// The installation of the project's own tests, relative to the root of the repository.
const USUAL: &str = ".deps/cassandra/node";

/// Heap for each partition, in bytes: several times a partition's memory, so that Cassandra flushes
/// nothing and collects little garbage.
const HEAP_BYTES_PER_PARTITION: u64 = 3000;
const MIN_HEAP_BYTES: u64 = 2 << 30;

/// Limit of the number of reads of a round. More reads give no more information, and with the
/// default kinds there are four runs of several rounds.
const MAX_READS: u64 = 1_000_000;

/// Kinds of memtable that Cassandra has too.
const KINDS: [&str; 2] = ["trie", "skiplist"];

/// An installation that can be used.
pub struct Cassandra {
    jars: PathBuf,
    agent: PathBuf,
    directory: PathBuf,
}

impl Bench<'_> {
    /// Finds Cassandra and compiles the program. If that fails, records the reason and returns
    /// `None`; with `--cassandra`, returns the error.
    pub(in crate::memtable) async fn cassandra(&mut self) -> Result<Option<Cassandra>, BenchError> {
        let reported = self.arguments.cassandra.as_deref();
        let root = reported.unwrap_or(Path::new(USUAL));
        let (jars, agent) = match find_jars(root).await {
            Ok(found) => found,
            Err(reason) if reported.is_some() => return Err(failed(reason)),
            Err(reason) => {
                let note = format!(
                    "Cassandra was not measured: {reason}; name an installation with --cassandra, \
                     such as \
                     interop/cassandra/install.sh makes"
                );
                self.record.notes.push(note);
                return Ok(None);
            }
        };
        let directory = self.arguments.node.workdir.join("cassandra");
        let cassandra = Cassandra { jars, agent, directory };
        match cassandra.prepare().await {
            Ok(()) => Ok(Some(cassandra)),
            Err(BenchError::Peer { reason, .. }) if reported.is_none() => {
                self.record.notes.push(format!("Cassandra was not measured: {reason}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Runs one Java process for each measured kind that Cassandra has too. The caller calls this
    /// function once before and once after this process's own rounds.
    pub(in crate::memtable) async fn run_cassandra(
        &mut self,
        cassandra: &Cassandra,
        when: &str,
    ) -> Result<(), BenchError> {
        let arguments = self.arguments;
        for kind in KINDS.into_iter().filter(|kind| arguments.kinds.iter().any(|own| own == kind)) {
            self.progress.step(format!("Cassandra's {kind}, {when}"), 1);
            cassandra.forget().await?;
            let numbers = [
                arguments.partitions,
                arguments.reads.min(MAX_READS),
                u64::from(arguments.rounds.max(3)),
                u64::from(arguments.value_bytes),
                arguments.seed,
            ];
            let parts = [(Part::Scan, "scan"), (Part::Slice, "slice"), (Part::Flush, "flush")];
            let parts = parts.into_iter().filter(|(part, _)| self.has(*part)).map(|(_, name)| name);
            let output = cassandra.run(kind, numbers, parts)?;
            self.take(kind, &output)?;
        }
        Ok(())
    }

    fn take(&mut self, kind: &str, output: &str) -> Result<(), BenchError> {
        let kind = format!("{CASSANDRA} {kind}");
        let mut results = 0;
        for line in output.lines().filter_map(|line| line.strip_prefix("RESULT ")) {
            let result: Value = serde_json::from_str(line)
                .map_err(|error| failed(format!("cannot parse its line {line}: {error}")))?;
            let seconds = |name: &str| {
                Duration::try_from_secs_f64(result[name].as_f64().unwrap_or(0.0))
                    .unwrap_or_default()
            };
            let lap = Lap { clock: seconds("clock_s"), core: seconds("core_s") };
            let round = Round { operations: result["operations"].as_u64().unwrap_or(0), lap };
            let measure = match result["measure"].as_str() {
                Some("memory") => {
                    self.record.add_memory(memory(&kind, &result));
                    continue;
                }
                Some("write") => Measure::Write,
                Some("read hit") => Measure::ReadHit,
                Some("read miss") => Measure::ReadMiss,
                Some("scan") => Measure::Scan,
                Some("slice") => Measure::Slice,
                Some("flush") => Measure::Flush,
                Some("read SSTable") => Measure::ReadFile,
                _ => return Err(failed(format!("cannot parse its line {line}"))),
            };
            self.record.add("random", &kind, measure, round);
            results += 1;
        }
        if results == 0 {
            return Err(failed("it printed no results".into()));
        }
        Ok(())
    }
}

/// Returns the growth of Cassandra's heap plus the memtable's bytes outside of the heap. All of it
/// counts as structure, because Cassandra does not separate structure from content.
fn memory(kind: &str, result: &Value) -> MemoryFigure {
    let bytes = |name: &str| result[name].as_u64().unwrap_or(0);
    MemoryFigure {
        keys: "random".into(),
        kind: kind.into(),
        memory: MemtableMemory {
            partitions: bytes("partitions"),
            rows: bytes("partitions"),
            structure_bytes: bytes("heap_bytes") + bytes("off_heap_bytes"),
            content_bytes: 0,
            free_bytes: 0,
        },
        is_split: false,
        resident_bytes: 0,
    }
}

/// Returns the directory of the jars, and the jar that is Java's agent.
async fn find_jars(root: &Path) -> Result<(PathBuf, PathBuf), String> {
    let files = FileSystem::real();
    for directory in [root.join("lib"), root.to_owned()] {
        let Ok(entries) = files.read_dir(&directory).await else { continue };
        let jar = |prefix: &str| {
            let mut jars = entries.iter().map(|entry| &entry.name);
            jars.find(|name| name.starts_with(prefix) && name.ends_with(".jar")).cloned()
        };
        if let (Some(_), Some(agent)) = (jar("cassandra-all-"), jar("jamm-")) {
            let directory = std::path::absolute(directory).map_err(|error| error.to_string())?;
            let agent = directory.join(agent);
            return Ok((directory, agent));
        }
    }
    Err(format!("there are no jars of Cassandra in {}", root.display()))
}

fn failed(reason: String) -> BenchError {
    BenchError::Peer { name: "Cassandra", reason }
}

impl Cassandra {
    async fn prepare(&self) -> Result<(), BenchError> {
        let files = FileSystem::real();
        files.create_dir_all(&self.directory).await?;
        let source = self.directory.join("SimpleQuery.java");
        files.write_atomically(&source, PROGRAM).await?;
        let root =
            std::path::absolute(&self.directory).map_err(|error| failed(error.to_string()))?;
        files.write_atomically(self.directory.join("cassandra.yaml"), configuration(&root)).await?;
        files.write_atomically(self.directory.join("logback.xml"), LOGGING).await?;
        let mut compile = Command::new(tool("javac"));
        compile.args(["-nowarn", "-proc:none", "-cp"]).arg(self.jars.join("*"));
        compile.arg("-d").arg(&self.directory).arg(&source);
        finished("javac", compile.stdin(Stdio::null()).output()).map(drop)
    }

    /// Removes the data of an earlier run, so that each run begins empty.
    async fn forget(&self) -> Result<(), BenchError> {
        let (files, data) = (FileSystem::real(), self.directory.join("data"));
        if files.exists(&data).await? {
            files.remove_dir_all(&data).await?;
        }
        Ok(())
    }

    fn run<'a>(
        &self,
        kind: &str,
        numbers: [u64; 5],
        parts: impl Iterator<Item = &'a str>,
    ) -> Result<String, BenchError> {
        let root =
            std::path::absolute(&self.directory).map_err(|error| failed(error.to_string()))?;
        let wanted = MIN_HEAP_BYTES.max(numbers[0].saturating_mul(HEAP_BYTES_PER_PARTITION));
        let heap_mib = wanted.min(total_bytes() / 10 * 6) >> 20;
        let mut java = Command::new(tool("java"));
        java.arg(format!("-javaagent:{}", self.agent.display()));
        java.args([format!("-Xms{heap_mib}m"), format!("-Xmx{heap_mib}m")]);
        java.args([
            "-XX:+UseG1GC",
            "-XX:MaxDirectMemorySize=2g",
            "-Djdk.attach.allowAttachSelf=true",
        ]);
        java.arg("-Djava.awt.headless=true");
        for module in EXPORTS {
            java.args(["--add-exports", &format!("{module}=ALL-UNNAMED")]);
        }
        for module in OPENS {
            java.args(["--add-opens", &format!("{module}=ALL-UNNAMED")]);
        }
        java.arg(format!("-Dcassandra.storagedir={}/data", root.display()));
        java.arg(format!("-Dcassandra.config=file://{}/cassandra.yaml", root.display()));
        java.arg(format!("-Dlogback.configurationFile={}/logback.xml", root.display()));
        java.args([
            "-Dcassandra.ring_delay_ms=100",
            "-Dcassandra.skip_wait_for_gossip_to_settle=0",
        ]);
        java.arg("-Dcassandra-foreground=yes");
        let mut classes = OsString::from(&root);
        classes.push(":");
        classes.push(self.jars.join("*"));
        java.arg("-cp").arg(classes).arg("SimpleQuery").arg(kind);
        java.args(numbers.map(|number| number.to_string())).args(parts);
        finished("java", java.stdin(Stdio::null()).output())
    }
}

/// Returns the path of a Java tool: from `JAVA_HOME`, else from the search path.
fn tool(name: &str) -> PathBuf {
    match std::env::var_os("JAVA_HOME") {
        Some(home) => Path::new(&home).join("bin").join(name),
        None => name.into(),
    }
}

/// Returns the output of a process that ended successfully.
fn finished(name: &str, output: std::io::Result<Output>) -> Result<String, BenchError> {
    let output = output.map_err(|error| failed(format!("{name}: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = text.lines().find(|line| line.starts_with("FAILED "));
    let reason = reason
        .or_else(|| said.lines().find(|line| line.contains("ERROR") || line.contains("Exception")));
    let reason = reason.or(said.lines().last()).unwrap_or("it says nothing");
    Err(failed(format!("{name} ended with {}: {reason}", output.status)))
}

fn configuration(root: &Path) -> String {
    // Cassandra listens on a port for other nodes, although there are none.
    let port = 20_000 + std::process::id() % 20_000;
    let root = root.display();
    let mut text = format!(
        "cluster_name: peer\nnum_tokens: 1\npartitioner: \
         org.apache.cassandra.dht.Murmur3Partitioner\n\
         commitlog_sync: periodic\ncommitlog_sync_period: 10000ms\nlisten_address: \
         127.0.0.1\nstorage_port: {port}\n\
         rpc_address: 127.0.0.1\nstart_native_transport: false\nendpoint_snitch: \
         SimpleSnitch\nauto_snapshot: false\n\
         storage_compatibility_mode: NONE\nsstable:\n  selected_format: \
         bti\nmemtable_allocation_type: heap_buffers\n\
         memtable_cleanup_threshold: \
         0.9\nmemtable:\n  configurations:\n    skiplist:\n      class_name: SkipListMemtable\n    \
         trie:\n      class_name: TrieMemtable\n    default:\n      inherits: \
         trie\nseed_provider:\n  \
         - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n    parameters: \
         [{{seeds: \"127.0.0.1:{port}\"}}]\n"
    );
    // Half of the largest heap; a memtable is flushed when it fills 0.9 of that.
    let memtable_mib = (total_bytes() / 10 * 6 / 2) >> 20;
    let _ = writeln!(text, "memtable_heap_space: {memtable_mib}MiB");
    for (name, directory) in [
        ("commitlog_directory", "commitlog"),
        ("saved_caches_directory", "saved_caches"),
        ("hints_directory", "hints"),
        ("cdc_raw_directory", "cdc_raw"),
    ] {
        let _ = writeln!(text, "{name}: {root}/data/{directory}");
    }
    let _ = writeln!(text, "data_file_directories: [{root}/data/data]");
    text
}

const LOGGING: &str = "<configuration><appender name=\"S\" \
                       class=\"ch.qos.logback.core.ConsoleAppender\"><target>System.err</target>\
<encoder><pattern>%-5level %msg%n</pattern></encoder></appender><root level=\"WARN\"><appender-ref \
ref=\"S\"/></root></configuration>\n";

const EXPORTS: [&str; 9] = [
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/java.lang.ref",
    "java.sql/java.sql",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "jdk.unsupported/sun.misc",
];

const OPENS: [&str; 16] = [
    "java.base/java.lang.module",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/java.lang",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.rmi/sun.rmi.transport.tcp",
    "jdk.management/com.sun.management.internal",
];
