//! The target of the segments of the commit log.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use espalier_commitlog::{LogKind, find_segments};
use espalier_mutation::schema::{KeyspaceMetadata, Schema, TableBuilder, TableId, TableMetadata};
use espalier_runtime::file::FileSystem;
use espalier_storage::{ReplayPolicy, read_segments};
use espalier_types::CqlType;
use uuid::Uuid;

use crate::{executor::block_on, input::Input};

const DIRECTORY: &str = "/log";
const SEGMENT_ID: u64 = 7;

/// Returns the table of the writes.
pub fn table() -> TableMetadata {
    let int_list = CqlType::List { element: Arc::new(CqlType::Int), frozen: false };
    TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Text, false)
        .static_column("s", CqlType::Text)
        .regular("v", CqlType::Int)
        .regular("l", int_list)
        .build()
}

fn schema() -> Schema {
    let table = Arc::new(table());
    let keyspace = KeyspaceMetadata {
        tables: BTreeMap::from([(table.name.clone(), table)]),
        ..KeyspaceMetadata::new("ks")
    };
    Schema::new(BTreeMap::from([("ks".into(), Arc::new(keyspace))]), Uuid::nil())
}

/// Replays a segment. Input: `HOW`, then the segment. If bit 0 of HOW is set, a whole segment file
/// follows. Otherwise parts follow, which become the bodies of records in a valid segment. If bit 1
/// is set, the replay ignores damage.
pub fn commit_log(data: &[u8]) {
    let mut input = Input(data);
    let how = input.byte();
    let policy = if how & 2 == 0 { ReplayPolicy::Stop } else { ReplayPolicy::Ignore };
    let segment = match how & 1 {
        0 => segment_of(input),
        _ => input.0.to_vec(),
    };
    block_on(read_back(segment, policy));
}

/// Returns a segment with the parts of an input as the bodies of its records.
fn segment_of(mut input: Input<'_>) -> Vec<u8> {
    let mut segment = b"ESPALLOG".to_vec();
    for word in [1u32, 0, 1] {
        segment.extend(word.to_le_bytes());
    }
    segment.extend(SEGMENT_ID.to_le_bytes());
    segment.extend(crc32fast::hash(&segment).to_le_bytes());
    let seed = crc32fast::hash(&SEGMENT_ID.to_le_bytes());
    while !input.0.is_empty() {
        let body = input.part();
        let length = (body.len() as u32).to_le_bytes();
        let mut hasher = crc32fast::Hasher::new_with_initial(seed);
        hasher.update(&length);
        hasher.update(body);
        segment.extend(length);
        segment.extend(hasher.finalize().to_le_bytes());
        segment.extend(body);
    }
    segment
}

async fn read_back(segment: Vec<u8>, policy: ReplayPolicy) {
    let file_system = FileSystem::simulated(1);
    if let Some(disk) = file_system.simulated_disk() {
        disk.set_interleaving(false);
    }
    let path = format!("{DIRECTORY}/commitlog-0-{SEGMENT_ID}.log");
    let stored = async {
        file_system.create_dir_all(DIRECTORY).await?;
        let file = file_system.create(&path).await?;
        if !segment.is_empty() {
            file.write_at(0, segment).await?;
        }
        Ok::<_, espalier_runtime::file::FileError>(())
    };
    stored.await.expect("a simulated disk has space");
    let found = find_segments(&file_system, Path::new(DIRECTORY), LogKind::Data, policy).await;
    let Ok(found) = found else { return };
    let apply = async |_, _| Ok(());
    let _ = read_segments(&file_system, found.segments, policy, &schema(), apply).await;
}
