//! This module reads Scylla.db.

use espalier_mutation::Token;
use uuid::Uuid;

use super::layout::{
    BUILD_ID, COMPONENT_CHECKSUMS, COMPONENTS, FEATURES, ORIGIN, RUN_IDENTIFIER, SCHEMA, SHARDING,
    SSTABLE_IDENTIFIER, ScyllaColumn, ScyllaColumnKind, ScyllaMetadata, ScyllaSchema, VERSION,
};
use crate::{
    error::{FileName, Result},
    input::Input,
};

impl ScyllaMetadata {
    /// Reads the file in `bytes`.
    ///
    /// # Errors
    /// Returns [`SSTableError::Corrupt`](crate::error::SSTableError::Corrupt) if a part is
    /// malformed, or if the checksum is wrong.
    pub fn read(file: &FileName, bytes: &[u8]) -> Result<Self> {
        let mut input = Input::new(file, bytes, 0);
        let count = input.u32("number of parts")?;
        let count = input.checked_count(u64::from(count), 8, "parts")?;
        let mut metadata = Self::default();
        let mut has_checksums = false;
        for _ in 0..count {
            let tag = input.u32("tag of a part")?;
            let length = input.u32("length of a part")? as usize;
            let start = input.position();
            let mut part = Input::new(file, input.take(length, "a part")?, start);
            has_checksums |= tag == COMPONENT_CHECKSUMS;
            metadata.read_part(tag, &mut part)?;
        }
        if has_checksums {
            let covered = bytes.len() - input.remaining();
            let at = input.clone();
            let expected = crc32fast::hash(bytes.get(..covered).unwrap_or_default());
            if input.u32("checksum")? != expected {
                return Err(at.corrupt("the checksum of the file is wrong"));
            }
        }
        input.expect_end("the last part")?;
        Ok(metadata)
    }

    fn read_part(&mut self, tag: u32, part: &mut Input<'_>) -> Result<()> {
        match tag {
            SHARDING => self.token_ranges = read_ranges(part)?,
            FEATURES => self.features = part.u64("features")?,
            RUN_IDENTIFIER => self.run_identifier = Some(read_uuid(part)?),
            SSTABLE_IDENTIFIER => self.sstable_identifier = Some(read_uuid(part)?),
            ORIGIN => self.origin = read_text(part)?,
            BUILD_ID => self.build_id = read_text(part)?,
            VERSION => self.version = read_text(part)?,
            SCHEMA => self.schema = Some(read_schema(part)?),
            COMPONENT_CHECKSUMS => {
                let count = part.u32("number of checksums")?;
                let count = part.checked_count(u64::from(count), 8, "checksums")?;
                for _ in 0..count {
                    let number = part.u32("a component")?;
                    let checksum = part.u32("a checksum")?;
                    let known = COMPONENTS.iter().find(|(other, _)| *other == number);
                    self.checksums
                        .extend(known.map(|(_, component)| (component.clone(), checksum)));
                }
            }
            _ => return Ok(()),
        }
        part.expect_end("a part")
    }
}

/// Reads the first and the last token of each range. A bound has a flag that is true if it excludes
/// its token.
fn read_ranges(part: &mut Input<'_>) -> Result<Vec<(Token, Token)>> {
    let count = part.u32("number of token ranges")?;
    let count = part.checked_count(u64::from(count), 6, "token ranges")?;
    let mut ranges = Vec::with_capacity(count);
    for _ in 0..count {
        let mut bound = |step: i64| -> Result<Token> {
            let is_exclusive = part.flag("exclusive bound")?;
            let bytes = part.short_bytes("a token")?;
            let token = <[u8; 8]>::try_from(bytes).map(i64::from_be_bytes);
            let token = token.map_err(|_| part.corrupt("a token does not have eight bytes"))?;
            Ok(Token(if is_exclusive { token.saturating_add(step) } else { token }))
        };
        ranges.push((bound(1)?, bound(-1)?));
    }
    Ok(ranges)
}

fn read_uuid(part: &mut Input<'_>) -> Result<Uuid> {
    Ok(Uuid::from_bytes(part.bytes16("an identifier")?))
}

fn read_text(part: &mut Input<'_>) -> Result<String> {
    let length = part.u32("length of a text")?;
    let length = part.checked_count(u64::from(length), 1, "bytes of text")?;
    let bytes = part.take(length, "a text")?;
    String::from_utf8(bytes.to_vec()).map_err(|_| part.corrupt("a text is not UTF-8"))
}

fn read_schema(part: &mut Input<'_>) -> Result<ScyllaSchema> {
    let (table_id, schema_version) = (read_uuid(part)?, read_uuid(part)?);
    let (keyspace, table) = (read_text(part)?, read_text(part)?);
    let count = part.u32("number of columns")?;
    let count = part.checked_count(u64::from(count), 9, "columns")?;
    let mut columns = Vec::with_capacity(count);
    for _ in 0..count {
        let number = part.u8("kind of a column")?;
        let kind = ScyllaColumnKind::ALL.into_iter().find(|kind| *kind as u8 == number);
        let kind = kind.ok_or_else(|| part.corrupt(format!("a column of kind {number}")))?;
        columns.push(ScyllaColumn { kind, name: read_text(part)?, type_name: read_text(part)? });
    }
    Ok(ScyllaSchema { table_id, schema_version, keyspace, table, columns })
}
