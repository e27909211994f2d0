//! The seeds with which fuzzing begins: real files and texts in the form that each target takes.

use bytes::Bytes;
use espalier_internode::message::Verb;
use espalier_mutation::{
    Cell, Clustering, ColumnData, ComplexColumn, DeletionTime, Liveness, Row, Token, pack_row,
};
use espalier_sstable::{
    Component, Descriptor,
    index::bti::partition_index::{IndexPosition, PartitionIndexReader},
    scylla::{ALL_FEATURES, ScyllaColumn, ScyllaColumnKind, ScyllaMetadata, ScyllaSchema},
    versions::VERSIONS,
};
use espalier_trie::page::MemoryPages;
use uuid::Uuid;

use crate::{
    commit_log::table,
    executor::block_on,
    input::put_part,
    sets::{set, set_count},
    sstable::{COMPONENTS, compressed, plain},
    types::TYPES,
};

/// A target's name and an input of the target.
pub type Seed = (&'static str, Vec<u8>);

fn place<T: PartialEq>(list: &[T], wanted: &T) -> u8 {
    list.iter().position(|other| other == wanted).unwrap_or_default() as u8
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn with_part(head: &[u8], part: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut seed = head.to_vec();
    put_part(part, &mut seed);
    seed.extend_from_slice(rest);
    seed
}

/// Returns the seeds from the sets of the targets.
pub fn of_sets() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for number in 0..set_count() {
        for (component, bytes) in &set(number).components {
            if COMPONENTS.contains(component) {
                let head = [number as u8, place(COMPONENTS, component), 0];
                seeds.push(("whole_set", joined(&[&head, bytes])));
            }
            seeds.extend(of_component(&set(number).descriptor, component, bytes));
        }
    }
    for number in 0..set_count() as u8 {
        let set = plain(number);
        let (content, statistics) =
            (set.component(&Component::Data), set.component(&Component::Statistics));
        seeds.push(("data", joined(&[&[number], &content])));
        seeds.push(("data_with_header", with_part(&[number], &statistics, &content)));
        seeds.push(("crc", with_part(&[number], &set.component(&Component::Crc), &[])));
        seeds.push(("crc", with_part(&[number], &set.component(&Component::Crc), &content)));
        seeds.push(("checksums", joined(&[&[number], &set.checksums])));
        let rows = set.component(&Component::Rows);
        let partitions = set.component(&Component::Partitions);
        seeds.push(("partitions_and_rows", with_part(&[], &partitions, &rows)));
        for entry in entries(&partitions) {
            let from_end = (rows.len() as u64).saturating_sub(entry) as u16;
            let seed = with_part(&from_end.to_be_bytes(), &[0x40, 0x80, 0x38], &rows);
            seeds.push(("rows", seed));
        }
    }
    for number in 0..28 {
        let set = compressed(number);
        let (table, content) =
            (set.component(&Component::CompressionInfo), set.component(&Component::Data));
        seeds.push(("compression_info", with_part(&[number], &table, &[])));
        seeds.push(("compression_info", with_part(&[number], &table, &content)));
    }
    seeds
}

fn entries(partitions: &[u8]) -> Vec<u64> {
    block_on(async {
        let mut entries = Vec::new();
        let pages = MemoryPages(partitions);
        let Ok(index) = PartitionIndexReader::open(pages, partitions.len() as u64).await else {
            return entries;
        };
        let mut cursor = index.cursor(index.source());
        let mut next = cursor.first().await;
        while let Ok(Some(candidate)) = next {
            if let IndexPosition::RowIndex(position) = candidate.position {
                entries.push(position);
            }
            next = cursor.next().await;
        }
        entries
    })
}

/// Returns the seeds from the text of `testdata/internode/sent_by_cassandra.txt`: verb and body of
/// a message in each line. The bodies are about other tables than the target's, so that most of
/// them do not decode; they only show the fuzzer the form of their verb.
pub fn of_messages(text: &str) -> Vec<Seed> {
    let seed = |line: &str| {
        let (name, body) = line.split_once(' ')?;
        let verb = Verb::ALL.iter().position(|verb| verb.name() == Some(name))?;
        let digits = body.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let body = digits.map(byte).collect::<Option<Vec<_>>>()?;
        Some(("internode", joined(&[&[2, verb as u8], &body])))
    };
    text.lines().filter_map(seed).collect()
}

/// Returns the seeds from one file of an SSTable, for the targets that read this component alone.
pub fn of_component(descriptor: &Descriptor, component: &Component, bytes: &[u8]) -> Vec<Seed> {
    let found = VERSIONS.iter().position(|features| features.version == descriptor.version);
    let Some(version) = found.map(|version| version as u8) else { return Vec::new() };
    let is_unsigned = descriptor.version.0 == *b"oa";
    let mut seeds = vec![("file_name", descriptor.file_name(component).into_bytes())];
    match component {
        Component::Toc => seeds.push(("toc", bytes.to_vec())),
        Component::Digest => seeds.push(("digest", bytes.to_vec())),
        Component::Filter => seeds.push(("filter", joined(&[&[version], bytes]))),
        Component::Statistics => seeds.push(("statistics", joined(&[&[version, 0], bytes]))),
        Component::Scylla => seeds.push(("scylla", joined(&[&[0], bytes]))),
        Component::Partitions => seeds.push(("partitions", with_part(&[], &[0x40, 0x80], bytes))),
        Component::Summary => seeds.push(("summary", with_part(&[], &[], bytes))),
        Component::Index => {
            // One clustering column, an int.
            let head = [u8::from(!is_unsigned), 1, 0, place(TYPES, &"Int32Type"), 0xFF, 0xFF];
            seeds.push(("index", joined(&[&head, bytes])));
            // The first promoted index follows a key, its length and two small numbers.
            let key = bytes.first_chunk::<2>().map_or(0, |length| u16::from_be_bytes(*length));
            for behind in 2..6 {
                let promoted = bytes.get(2 + usize::from(key) + behind..).unwrap_or_default();
                seeds.push(("promoted_index", joined(&[&head[..4], promoted])));
            }
        }
        _ => {}
    }
    seeds
}

/// Returns the compressed chunks of an SSTable, from its CompressionInfo.db and Data.db.
pub fn chunks(class: u8, offsets: &[u64], chunk_length: u32, data: &[u8]) -> Vec<Seed> {
    let ends = offsets.iter().skip(1).copied().chain([data.len() as u64]);
    let pairs = offsets.iter().zip(ends);
    pairs
        .filter_map(|(start, end)| {
            let stored = data.get(*start as usize..(end as usize).checked_sub(4)?)?;
            let length = (chunk_length.min(u32::from(u16::MAX)) as u16).to_be_bytes();
            Some(("chunk", joined(&[&[class], &length, stored])))
        })
        .collect()
}

/// Returns the lines and blocks of a text in testdata, according to the file's name.
pub fn of_text(folder: &str, name: &str, text: &str) -> Vec<Seed> {
    let lines = || text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let bytes = |text: &str| text.as_bytes().to_vec();
    match (folder, name) {
        ("cql", _) => {
            let blocks = text.split("\n\n").filter_map(|block| block.split("\n----").next());
            blocks.map(|block| ("cql", bytes(block.trim()))).collect()
        }
        ("cql_scripts", _) => {
            lines().filter_map(|line| Some(("cql", bytes(line.strip_prefix("> ")?)))).collect()
        }
        ("types", "names.txt") => lines()
            .flat_map(|line| line.split('|').take(2))
            .map(|name| ("type_name", bytes(name)))
            .collect(),
        ("types", "parse.txt" | "json.txt") => lines()
            .filter_map(|line| {
                let (ty, rest) = line.split_once('|')?;
                let value = rest.rsplit_once('|')?.0;
                Some(("literal", joined(&[&type_choice(&cql_to_class(ty)?), value.as_bytes()])))
            })
            .collect(),
        ("types", "validate.txt" | "print.txt") => lines()
            .filter_map(|line| {
                let mut parts = line.split('|');
                let (ty, value) = (parts.next()?, from_hex(parts.next()?)?);
                Some(("value", with_part(&type_choice(ty), &value, &value)))
            })
            .collect(),
        ("byte_comparable", "clusterings.txt") => lines()
            .filter_map(|line| {
                let mut parts = line.split('|');
                let types: Vec<_> = parts.nth(1)?.split(';').collect();
                let encoding = from_hex(parts.nth(1)?)?;
                let mut seed = vec![types.len().min(3) as u8];
                let reversed = types.iter().enumerate();
                let reversed = reversed.filter(|(_, ty)| ty.contains("ReversedType"));
                seed.push(reversed.fold(0, |bits, (index, _)| bits | 1 << (index % 8)));
                for ty in types {
                    let short = short_name(ty);
                    let inner =
                        short.strip_prefix("ReversedType(").and_then(|s| s.strip_suffix(')'));
                    seed.push(place(TYPES, &inner.unwrap_or(&short)));
                }
                seed.extend(encoding);
                Some(("byte_comparable", seed))
            })
            .collect(),
        ("byte_comparable", "keys.txt") => lines()
            .filter_map(|line| from_hex(line.rsplit(' ').next()?))
            .map(|encoding| ("byte_comparable", joined(&[&[0, 0], &encoding])))
            .collect(),
        _ => Vec::new(),
    }
}

fn short_name(class: &str) -> String {
    class.replace("org.apache.cassandra.db.marshal.", "").replace(", ", ",")
}

/// Returns the bytes that choose a type: its number, or the number that announces a name, and then
/// its name.
fn type_choice(class: &str) -> Vec<u8> {
    let short = short_name(class);
    match TYPES.iter().position(|other| *other == short) {
        Some(number) => vec![number as u8],
        None => with_part(&[TYPES.len() as u8], class.as_bytes(), &[]),
    }
}

fn cql_to_class(name: &str) -> Option<String> {
    let ty = espalier_types::CqlType::parse_cql(name, "ks", &|_| None).ok()?;
    Some(ty.marshal_name())
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if text == "-" {
        return Some(Vec::new());
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
        .collect()
}

/// Returns requests of each kind: their opcodes and bodies.
fn request_bodies(version: u8) -> Vec<(u8, Vec<u8>)> {
    let string = |text: &str| joined(&[&(text.len() as u16).to_be_bytes(), text.as_bytes()]);
    let long = |text: &[u8]| joined(&[&(text.len() as u32).to_be_bytes(), text]);
    let query = long(b"SELECT v FROM ks.t WHERE k = ?");
    let id = joined(&[&[0, 16], &[7; 16]]);
    let values = joined(&[&[0, 2], &long(&[0, 0, 0, 1]), &[0xFF; 4]]);
    let named = joined(&[&[0, 1], &string("k"), &long(&[0, 0, 0, 1])]);
    let tail = joined(&[&[0, 0, 0, 100], &long(b"state"), &[0, 8], &[0; 8]]);
    // QUERY, EXECUTE and BATCH have flags of one byte in version 4, and of four in version 5.
    let flags = |flags: u8| match version {
        5 => vec![0, 0, 0, flags],
        _ => vec![flags],
    };
    let statement = joined(&[&[0], &query, &values]);
    let prepared = joined(&[&[1], &id, &[0, 0]]);
    let result_id = if version == 5 { id.clone() } else { Vec::new() };
    let prepare_flags = if version == 5 { vec![0, 0, 0, 1] } else { Vec::new() };
    vec![
        (
            1,
            joined(&[
                &[0, 2],
                &string("CQL_VERSION"),
                &string("3.0.0"),
                &string("COMPRESSION"),
                &string("lz4"),
            ]),
        ),
        (5, Vec::new()),
        (7, joined(&[&query, &[0, 1], &flags(0)])),
        (7, joined(&[&query, &[0, 1], &flags(0x3D), &values, &tail])),
        (7, joined(&[&query, &[0, 4], &flags(0x41), &named])),
        (9, joined(&[&query, &prepare_flags, &string("ks")])),
        (10, joined(&[&id, &result_id, &[0, 1], &flags(0x05), &values, &[0, 0, 0, 9]])),
        (11, joined(&[&[0, 2], &string("STATUS_CHANGE"), &string("SCHEMA_CHANGE")])),
        (13, joined(&[&[1, 0, 2], &statement, &prepared, &[0, 1], &flags(0x30), &[0, 8], &[0; 8]])),
        (15, long(b"\0user\0password")),
    ]
}

/// Returns requests of each kind, each alone and all together; in version 5, they are in segments.
pub fn of_protocol() -> Vec<Seed> {
    let envelope = |version: u8, opcode: u8, body: &[u8]| {
        joined(&[&[version, 0, 0, 3, opcode], &(body.len() as u32).to_be_bytes(), body])
    };
    let mut seeds = Vec::new();
    for mode in 0..6u8 {
        let version = if mode == 3 || mode == 4 { 5 } else { 4 };
        let mut all = Vec::new();
        for (opcode, body) in request_bodies(version) {
            let envelope = envelope(version, opcode, &body);
            let length = envelope.len() as u64;
            let wire = match mode {
                // The target repairs both checksums.
                3 => joined(&[&(length | 1 << 17).to_le_bytes()[..3], &[0; 3], &envelope, &[0; 4]]),
                4 => joined(&[&(length | 1 << 34).to_le_bytes()[..5], &[0; 3], &envelope, &[0; 4]]),
                _ => envelope,
            };
            seeds.push(("frames", joined(&[&[mode, 50], &wire])));
            all.extend(wire);
        }
        seeds.push(("frames", joined(&[&[mode, 200], &all])));
    }
    seeds
}

/// Returns the seeds of `log_in` (tokens, password hashes, statements with passwords, and a
/// certificate) and of `tls` (steps of a connection, and bytes that no client made).
pub fn of_log_in() -> Vec<Seed> {
    let log_in = |kind: u8, bytes: &[u8]| ("log_in", joined(&[&[kind], bytes]));
    let write = |length: u16| joined(&[&[0], &length.to_be_bytes()]);
    let deliver = |length: u16| joined(&[&[4], &length.to_be_bytes()]);
    let all = deliver(u16::MAX);
    let (begin, close) = (joined(&[&[1], &all, &all, &all]), joined(&[&[1, 0, 0], &all]));
    vec![
        log_in(0, b"\0user\0password"),
        log_in(0, b"other\0user\0password"),
        log_in(1, b"$2a$10$JSJEMFm6GeaW9XxT5JIheuEtPvat6i7uKbnTcxX3c1wshIIsGyUtG"),
        log_in(
            1,
            b"$6$rounds=5000$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjlO817G3uBnIFNjnQJu",
        ),
        log_in(2, b"CREATE ROLE r WITH PASSWORD = 'a long secret' AND LOGIN = true"),
        log_in(2, b"/* a */ ALTER USER u WITH PASSWORD $$a long secret$$"),
        log_in(
            2,
            b"CREATE ROLE r WITH HASHED PASSWORD = '$2a$10$hash' AND ACCESS TO ALL DATACENTERS",
        ),
        log_in(3, include_bytes!("../../../testdata/tls/spiffe.der")),
        ("tls", joined(&[&begin, &write(100), &all, &write(40_000), &all, &[2, 9, 9], &close])),
        ("tls", joined(&[&begin, &write(9), &write(20_000), &deliver(7), &deliver(900), &all])),
        ("tls", joined(&[&begin, &write(500), &[3, 0, 77], &all, &all])),
        ("tls", joined(&[&[1], &deliver(3), &deliver(40), &deliver(100), &all, &all, &close])),
        ("tls", joined(&[&[0, 50], &[22, 3, 1, 0, 5, 1, 0, 0, 1, 0]])),
        ("tls", joined(&[&[0, 1], &[21, 3, 3, 0, 2, 2, 40]])),
    ]
}

/// Returns records of the commit log: a mapping of a table, and mutations of the table.
pub fn of_commit_log() -> Vec<Seed> {
    let table = table();
    let bytes = |bytes: &[u8]| joined(&[&[bytes.len() as u8], bytes]);
    let mut mapping = vec![2, 1];
    mapping.extend(table.id.0.as_bytes());
    mapping.extend(joined(&[&bytes(b"ks"), &bytes(b"t")]));
    let columns: Vec<_> = table.static_columns().iter().chain(table.regular_columns()).collect();
    mapping.push(columns.len() as u8);
    for column in columns {
        mapping.push(column.id.0 as u8);
        mapping.push(u8::from(column.name != "s"));
        mapping.extend(bytes(column.name.as_bytes()));
        mapping.extend(bytes(column.column_type.cql_name().as_bytes()));
    }
    let id =
        |name: &str| table.column(name).map(|column| column.id).expect("a column of the table");
    let value = Bytes::from_static(&[0, 0, 0, 5]);
    let list = ComplexColumn {
        deletion: DeletionTime::new(3, 4),
        cells: vec![(Bytes::from_static(&[9; 16]), Cell::live(10, value.clone()))],
    };
    let row = Row {
        clustering: Clustering::new([Bytes::from_static(b"c")]),
        liveness: Liveness { timestamp: 10, ttl: 60, local_expiration: 1000 },
        deletion: DeletionTime::new(5, 6),
        shadowable_deletion: DeletionTime::LIVE,
        columns: vec![
            (id("l"), ColumnData::Complex(list)),
            (id("v"), ColumnData::Simple(Cell::live(10, value))),
        ],
    };
    let mut packed = Vec::new();
    pack_row(&row, &mut packed);
    let packed = joined(&[&(packed.len() as u32).to_le_bytes(), &packed]);
    let deletion = joined(&[&[8; 8], &[7; 4]]);
    let key = bytes(&[0, 0, 0, 1]);
    let clustering = [1, 2, b'c'];
    let all = joined(&[
        &[3, 1, 1],
        &key,
        &[1 | 4 | 8],
        &deletion,
        &[1],
        &clustering,
        &packed,
        &[1, 1],
        &clustering,
        &[6],
        &clustering,
        &deletion,
    ]);
    let only_row = joined(&[&[3, 1, 1], &key, &[4, 1], &clustering, &packed]);
    let with_static = joined(&[&[3, 1, 1], &key, &[2], &[9, 0, 0, 0, 0], &[0; 8]]);
    let mut seeds = Vec::new();
    for how in [0u8, 2] {
        let mut records = vec![how];
        for body in [&mapping, &all, &only_row, &with_static] {
            let mut one = vec![how];
            put_part(&mapping, &mut one);
            put_part(body, &mut one);
            seeds.push(("commit_log", one));
            put_part(body, &mut records);
        }
        seeds.push(("commit_log", records));
    }
    seeds
}

/// Returns Scylla.db with all parts, with some, and with none.
pub fn of_scylla() -> Vec<Seed> {
    let all = ScyllaMetadata {
        token_ranges: vec![(Token(-5), Token(7))],
        features: ALL_FEATURES,
        run_identifier: Some(Uuid::from_u128(1)),
        sstable_identifier: Some(Uuid::from_u128(2)),
        origin: "memtable".into(),
        build_id: "b".into(),
        version: "1".into(),
        schema: Some(ScyllaSchema {
            table_id: Uuid::from_u128(3),
            schema_version: Uuid::nil(),
            keyspace: "ks".into(),
            table: "t".into(),
            columns: vec![ScyllaColumn {
                kind: ScyllaColumnKind::Clustering,
                name: "c".into(),
                type_name: "org.apache.cassandra.db.marshal.Int32Type".into(),
            }],
        }),
        checksums: vec![(Component::Rows, 5), (Component::Data, 1)],
    };
    let some = ScyllaMetadata { schema: None, checksums: Vec::new(), ..all.clone() };
    let all = [all, some, ScyllaMetadata::default()];
    all.iter().map(|metadata| ("scylla", joined(&[&[0], &metadata.to_bytes()]))).collect()
}

/// Returns the powers of two as unsigned integers, and their negatives as signed ones.
pub fn of_integers() -> Vec<Seed> {
    let mut all = Vec::new();
    for shift in 0..64 {
        espalier_types::vint::write_unsigned(1 << shift, &mut all);
        espalier_types::vint::write_signed(-1 << shift, &mut all);
    }
    vec![("variable_length_integer", all)]
}
