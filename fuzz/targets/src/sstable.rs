//! The targets of the components of an SSTable: some read one component alone, others read it in a
//! set with valid other components.

use espalier_mutation::murmur3;
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    Component, Descriptor, FileName, Statistics,
    components::{format_toc, parse_digest, parse_toc},
    compression::{CompressionInfo, Compressor},
    filter::BloomFilter,
    scylla::ScyllaMetadata,
    versions::VersionFeatures,
};

use crate::{
    executor::block_on,
    input::Input,
    reading::read_everything,
    seals::{crc_of, digest_of, seal, seal_end, seal_statistics},
    sets::{Set, set, source_count},
};

/// The components that [`whole_set`] exchanges, by their index.
pub const COMPONENTS: &[Component] = &[
    Component::CompressionInfo,
    Component::Crc,
    Component::Data,
    Component::Digest,
    Component::Filter,
    Component::Index,
    Component::Partitions,
    Component::Rows,
    Component::Statistics,
    Component::Summary,
    Component::Toc,
    Component::Scylla,
];

fn name() -> FileName {
    FileName::new("fuzzed".as_ref())
}

fn read(set: &Set, exchanged: &[(&Component, &[u8])]) {
    block_on(async {
        if let Ok(file_system) = set.store(exchanged).await {
            read_everything(&file_system, &set.descriptor).await;
        }
    });
}

/// Reads TOC.txt. A list that was read is written and read again.
pub fn toc(data: &[u8]) {
    if let Ok(components) = parse_toc(&name(), data) {
        let again = parse_toc(&name(), format_toc(&components).as_bytes());
        assert_eq!(again.ok(), Some(components));
    }
}

/// Reads Digest.crc32.
pub fn digest(data: &[u8]) {
    let _ = parse_digest(&name(), data);
}

/// Parses the name of a file. A parsed name must parse to the same result again after it is
/// printed.
pub fn file_name(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok((descriptor, component)) = Descriptor::parse(text.as_ref()) {
        let path = descriptor.path(&component);
        assert_eq!(Descriptor::parse(&path), Ok((descriptor, component)));
    }
}

/// Reads a filter. Input: `VERSION`, then Filter.db.
pub fn filter(data: &[u8]) {
    let mut input = Input(data);
    let features = input.version();
    let Ok(filter) = BloomFilter::read(&name(), input.0, features) else { return };
    for key in [&b""[..], b"key", data] {
        let _ = (filter.may_contain(key), filter.may_contain_hash(murmur3::hash(key)));
    }
    let bytes = filter.to_bytes(features.filter_words);
    assert_eq!(bytes, input.0, "a filter is written as it was read");
}

/// Reads Statistics.db. Input: `VERSION, whether checksums are repaired`, then Statistics.db.
pub fn statistics(data: &[u8]) {
    let mut input = Input(data);
    let features = input.version();
    let is_sealed = input.byte() % 4 != 3;
    let mut bytes = input.0.to_vec();
    if is_sealed && features.statistics_checksums {
        seal_statistics(&mut bytes);
    }
    let Ok(statistics) = Statistics::read(&name(), &bytes.into(), features) else { return };
    let _ = statistics.header.to_table("ks", "t").columns().len();
    let _ = (statistics.stats.partition_sizes.total(), statistics.stats.cell_counts.total());
    let _ = statistics.to_bytes(features);
}

/// Reads Scylla.db. Input: `whether the checksum is repaired`, then Scylla.db.
pub fn scylla(data: &[u8]) {
    let mut input = Input(data);
    let is_sealed = input.byte() % 4 != 3;
    let mut bytes = input.0.to_vec();
    if is_sealed {
        seal_end(&mut bytes);
    }
    if let Ok(metadata) = ScyllaMetadata::read(&name(), &bytes) {
        let again = ScyllaMetadata::read(&name(), &metadata.to_bytes());
        assert!(again.is_ok(), "metadata that was read must be readable once written: {again:?}");
    }
}

/// Decompresses a chunk. Input: `ALGORITHM, be16 length`, then a compressed chunk that claims this
/// uncompressed length.
pub fn chunk(data: &[u8]) {
    let mut input = Input(data);
    let classes = [
        "LZ4Compressor",
        "SnappyCompressor",
        "DeflateCompressor",
        "ZstdCompressor",
        "NoopCompressor",
    ];
    let class = input.choose(&classes);
    let length = usize::from(input.short());
    let Ok(compressor) = Compressor::of_class(&name(), class) else { return };
    let _ = compressor.decompress_into(input.0, &mut vec![0; length]);
}

/// Reads a compressed SSTable. Input: `SET, PART: CompressionInfo.db`, then Data.db. If nothing
/// follows, the target reads the set's own Data.db. The checksums of the chunks are repaired if the
/// byte SET is even.
pub fn compression_info(data: &[u8]) {
    let mut input = Input(data);
    let number = input.byte();
    let set = compressed(number);
    let table = input.part();
    let mut content = match input.0 {
        [] => set.component(&Component::Data).to_vec(),
        bytes => bytes.to_vec(),
    };
    if number % 2 == 0 {
        seal(&Component::Data, &mut content, &offsets(set.features(), table));
    }
    read(set, &[(&Component::CompressionInfo, table), (&Component::Data, &content)]);
}

/// Returns a set that Cassandra compressed.
pub fn compressed(number: u8) -> &'static Set {
    (usize::from(number / 2)..)
        .map(|number| set(number % source_count()))
        .find(|set| set.components.contains_key(&Component::CompressionInfo))
        .unwrap_or_else(|| set(0))
}

fn offsets(features: &VersionFeatures, table: &[u8]) -> Vec<u64> {
    match CompressionInfo::read(&name(), table, features) {
        Ok((_, start)) => {
            let rest = table.get(start as usize..).unwrap_or_default();
            rest.as_chunks::<8>().0.iter().map(|offset| u64::from_be_bytes(*offset)).collect()
        }
        Err(_) => Vec::new(),
    }
}

/// Reads an uncompressed SSTable. Input: `SET, PART: CRC.db`, then Data.db, or nothing for the
/// set's own.
pub fn crc(data: &[u8]) {
    let mut input = Input(data);
    let set = plain(input.byte());
    let table = input.part();
    let content = match input.0 {
        [] => set.component(&Component::Data),
        bytes => bytes.to_vec().into(),
    };
    read(set, &[(&Component::Crc, table), (&Component::Data, &content)]);
}

/// Returns a set with an uncompressed Data.db: two of Cassandra's, then the rewritten ones.
pub fn plain(number: u8) -> &'static Set {
    let number = usize::from(number);
    match number {
        0 => set(9),
        1 => set(10),
        _ => set(source_count() + number - 2),
    }
}

/// Reads rows. Input: `SET`, then an uncompressed Data.db, for which the checksums are computed.
pub fn data(data: &[u8]) {
    let mut input = Input(data);
    let set = plain(input.byte());
    let table = crc_of(input.0, 1024);
    let digest = digest_of(input.0);
    let exchanged =
        [(&Component::Data, input.0), (&Component::Crc, &table), (&Component::Digest, &digest)];
    read(set, &exchanged);
}

/// Reads rows by an arbitrary header. Input: `SET, PART: Statistics.db`, then an uncompressed
/// Data.db, or nothing for the set's own. The checksums in Statistics.db and CRC.db are repaired,
/// and Digest.crc32 is not.
pub fn data_with_header(data: &[u8]) {
    let mut input = Input(data);
    let set = plain(input.byte());
    let mut statistics = input.part().to_vec();
    if set.features().statistics_checksums {
        seal_statistics(&mut statistics);
    }
    let content = match input.0 {
        [] => set.component(&Component::Data),
        bytes => bytes.to_vec().into(),
    };
    let table = crc_of(&content, 1024);
    let exchanged = [
        (&Component::Statistics, statistics.as_slice()),
        (&Component::Data, &content),
        (&Component::Crc, &table),
    ];
    read(set, &exchanged);
}

/// Reads Checksums.db. Input: `SET`, then Checksums.db, whose own checksum is repaired; the other
/// components are unchanged, except that TOC.txt lists Checksums.db.
pub fn checksums(data: &[u8]) {
    let mut input = Input(data);
    let set = plain(input.byte());
    let mut bytes = input.0.to_vec();
    seal_end(&mut bytes);
    let toc = [&set.component(&Component::Toc)[..], b"Checksums.db\n"].concat();
    read(set, &[(&Component::Checksums, &bytes), (&Component::Toc, &toc)]);
}

/// Reads a set with one exchanged component. Input: `SET, COMPONENT, whether checksums are
/// repaired`, then the component.
pub fn whole_set(data: &[u8]) {
    let mut input = Input(data);
    let set = set(usize::from(input.byte()));
    let component = input.choose(COMPONENTS);
    let is_sealed = input.byte() % 2 == 0;
    let mut bytes = input.0.to_vec();
    let mut table = Vec::new();
    if is_sealed {
        let info = set.component(&Component::CompressionInfo);
        seal(component, &mut bytes, &offsets(set.features(), &info));
        if *component == Component::Data && info.is_empty() {
            table = crc_of(&bytes, 1024);
        }
    }
    if table.is_empty() {
        read(set, &[(component, &bytes)])
    } else {
        read(set, &[(component, &bytes), (&Component::Crc, &table)])
    }
}

/// Reads an SSTable in a file system, for tests of the targets themselves.
pub fn read_set(file_system: &FileSystem, descriptor: &Descriptor) {
    block_on(read_everything(file_system, descriptor));
}
