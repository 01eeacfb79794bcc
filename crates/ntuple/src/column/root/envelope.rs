//! Envelopes of an RNTuple: anchor, header, footer, page lists.
//!
//! Source: ROOT's tree/ntuple/doc/BinaryFormatSpecification.md, version 1.0.0.1; the names of sections stand in comments.

use super::{
    super::cursor::{Cursor, Parsed, corrupt, unsupported},
    block::{checksum, decompress},
    keys::read,
};
use crate::column::Source;

/// Most bytes of an envelope, and of all page lists together: those of ten thousand columns and a thousand clusters fit.
const ENVELOPE_BYTES_MAX: u64 = 512 << 20;

/// "Field Description".
#[derive(Debug, Default)]
pub(super) struct Field {
    pub(super) parent: u32,
    pub(super) role: u16,
    /// Copies for each entry, of a repetitive field.
    pub(super) repeat: Option<u64>,
    pub(super) name: String,
    pub(super) type_name: String,
}

/// "Column Description".
#[derive(Debug, Clone)]
pub(super) struct ColumnRecord {
    pub(super) kind: u16,
    pub(super) bits: u16,
    pub(super) field: u32,
    pub(super) representation: u16,
    /// Whether elements before its first page are zero.
    pub(super) is_deferred: bool,
    /// Least and greatest value, of a quantised column.
    pub(super) range: (f64, f64),
}

/// The schema description of header and footer together.
#[derive(Debug, Default)]
pub(super) struct Description {
    pub(super) fields: Vec<Field>,
    pub(super) columns: Vec<ColumnRecord>,
    /// Physical column, and the projected field that shows it.
    pub(super) aliases: Vec<(u32, u32)>,
}

/// A page: where it is, how many elements it has, and whether its checksum follows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page {
    pub(super) start: u64,
    pub(super) stored: u64,
    pub(super) elements: u32,
    pub(super) has_checksum: bool,
}

/// The pages of one column in one cluster.
#[derive(Debug, Default)]
pub(super) struct Pages {
    pub(super) pages: Vec<Page>,
    /// Whether another representation has the values.
    pub(super) is_suppressed: bool,
}

/// A run of entries that are stored together.
#[derive(Debug)]
pub(super) struct Cluster {
    first: u64,
    pub(super) entries: u64,
    /// By number of the column; columns that were added later may lack.
    pub(super) columns: Vec<Pages>,
}

/// An RNTuple without its data.
#[derive(Debug)]
pub(super) struct Metadata {
    pub(super) description: Description,
    pub(super) clusters: Vec<Cluster>,
}

/// A locator with the length of what it leads to.
struct Link {
    start: u64,
    stored: u64,
    length: u64,
}

/// Reads all envelopes that `anchor`, the content of a key, leads to.
pub(super) fn metadata(source: &dyn Source, anchor: &[u8]) -> Parsed<Metadata> {
    let [header, footer] = links(anchor)?;
    let header = header.envelope(source, 1, "header")?;
    let own = checksum_of(&header);
    let mut description = Description::default();
    let mut rest = payload(&header);
    flags(&mut rest)?;
    for _ in 0..3 {
        // Name, description, and who wrote it.
        rest.text()?;
    }
    description.add(&mut rest)?;

    let footer = footer.envelope(source, 2, "footer")?;
    let mut rest = payload(&footer);
    flags(&mut rest)?;
    if rest.u64()? != own {
        return corrupt("footer: belongs to another header");
    }
    let mut extension = rest.record()?;
    if !extension.0.is_empty() {
        description.add(&mut extension)?;
    }
    let (count, groups) = rest.list()?;
    let mut clusters = page_lists(source, count, groups, own)?;
    clusters.sort_by_key(|cluster| cluster.first);
    let mut next = 0u64;
    for cluster in &clusters {
        if cluster.first != next {
            return corrupt(format!("cluster begins at entry {}, expected {next}", cluster.first));
        }
        next = next.saturating_add(cluster.entries);
    }
    Ok(Metadata { description, clusters })
}

/// The clusters of so many groups.
fn page_lists(
    source: &dyn Source,
    count: usize,
    mut groups: Cursor<'_>,
    header: u64,
) -> Parsed<Vec<Cluster>> {
    let mut clusters = Vec::new();
    // Groups can share a page list, which is in memory once for each of them.
    let mut left = ENVELOPE_BYTES_MAX;
    for _ in 0..count {
        let mut group = groups.record()?;
        let (_, _, _) = (group.u64()?, group.u64()?, group.u32()?);
        let pages = link(&mut group)?;
        match left.checked_sub(pages.length) {
            Some(rest) => left = rest,
            None => return corrupt("page lists are too long together"),
        }
        let pages = pages.envelope(source, 3, "page list")?;
        page_list(payload(&pages), header, &mut clusters)?;
    }
    Ok(clusters)
}

/// "Anchor schema": the streamer's byte count and version stand before it, its checksum behind.
fn links(anchor: &[u8]) -> Parsed<[Link; 2]> {
    let mut rest = Cursor(anchor);
    rest.take(6)?;
    let fields = rest.0.get(..64).unwrap_or_default();
    let epoch = rest.big_u16()?;
    if epoch != 1 {
        return unsupported(format!("RNTuple of epoch {epoch}; only 1 was released"));
    }
    rest.take(6)?;
    let mut next = || rest.big_u64();
    let header = Link { start: next()?, stored: next()?, length: next()? };
    let footer = Link { start: next()?, stored: next()?, length: next()? };
    let most = next()?;
    if next()? != checksum(fields) {
        return corrupt("anchor: checksum does not match");
    }
    if most > 0 && header.stored.max(footer.stored) > most {
        return unsupported("header or footer that is split over several keys");
    }
    Ok([header, footer])
}

impl Link {
    /// The envelope, verified.
    fn envelope(&self, source: &dyn Source, id: u64, what: &str) -> Parsed<Vec<u8>> {
        if self.length.max(self.stored) > ENVELOPE_BYTES_MAX {
            return corrupt(format!("{what}: {} bytes", self.length.max(self.stored)));
        }
        let bytes = decompress(&read(source, self.start, self.stored)?, self.length as usize)?;
        let mut head = Cursor(&bytes);
        let word = head.u64()?;
        if word & 0xffff != id || word >> 16 != self.length || bytes.len() < 16 {
            return corrupt(format!("{what}: is no envelope of this kind and length"));
        }
        if checksum(&bytes[..bytes.len() - 8]) != checksum_of(&bytes) {
            return corrupt(format!("{what}: checksum does not match"));
        }
        Ok(bytes)
    }
}

/// What is between head and checksum; the length was verified.
fn payload(envelope: &[u8]) -> Cursor<'_> {
    Cursor(&envelope[8..envelope.len() - 8])
}

fn checksum_of(envelope: &[u8]) -> u64 {
    envelope.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// "Feature Flags": none is defined.
fn flags(rest: &mut Cursor<'_>) -> Parsed<()> {
    match rest.u64()? {
        0 => Ok(()),
        flags => unsupported(format!("an RNTuple with feature flags {flags:#x}")),
    }
}

/// An envelope link: length and locator.
fn link(rest: &mut Cursor<'_>) -> Parsed<Link> {
    let length = rest.u64()?;
    let (start, stored) = locator(rest)?;
    Ok(Link { start, stored, length })
}

/// "Locators and Envelope Links": start and stored length.
fn locator(rest: &mut Cursor<'_>) -> Parsed<(u64, u64)> {
    let size = rest.u32()?;
    if size >> 31 == 0 {
        return Ok((rest.u64()?, u64::from(size)));
    }
    let kind = size.cast_signed().unsigned_abs() >> 24;
    let length = (size.cast_signed().unsigned_abs() & 0xffff) as usize;
    let mut own = Cursor(rest.take(length.saturating_sub(4))?);
    match kind {
        1 => {
            let stored = own.u64()?;
            Ok((own.u64()?, stored))
        }
        kind => unsupported(format!("data at a locator of type {kind}")),
    }
}

impl Description {
    /// Appends four lists: fields, columns, alias columns, and what is known of types, which readers need not look at.
    fn add(&mut self, rest: &mut Cursor<'_>) -> Parsed<()> {
        let (count, mut fields) = rest.list()?;
        for _ in 0..count {
            self.fields.push(field(fields.record()?)?);
        }
        let (count, mut columns) = rest.list()?;
        for _ in 0..count {
            self.columns.push(column(columns.record()?)?);
        }
        let (count, mut aliases) = rest.list()?;
        for _ in 0..count {
            let mut alias = aliases.record()?;
            self.aliases.push((alias.u32()?, alias.u32()?));
        }
        Ok(())
    }
}

fn field(mut rest: Cursor<'_>) -> Parsed<Field> {
    let (_, _) = (rest.u32()?, rest.u32()?);
    let (parent, role, flags) = (rest.u32()?, rest.u16()?, rest.u16()?);
    let (name, type_name) = (rest.text()?, rest.text()?);
    let (_, _) = (rest.text()?, rest.text()?);
    let repeat = if flags & 1 == 1 { Some(rest.u64()?) } else { None };
    Ok(Field { parent, role, repeat, name, type_name })
}

fn column(mut rest: Cursor<'_>) -> Parsed<ColumnRecord> {
    let (kind, bits) = (rest.u16()?, rest.u16()?);
    let field = rest.u32()?;
    let (flags, representation) = (rest.u16()?, rest.u16()?);
    if flags & 1 == 1 {
        rest.i64()?;
    }
    let range = if flags & 2 == 2 { (rest.f64()?, rest.f64()?) } else { (0.0, 0.0) };
    Ok(ColumnRecord { kind, bits, field, representation, is_deferred: flags & 1 == 1, range })
}

/// "Page List Envelope".
fn page_list(mut rest: Cursor<'_>, header: u64, clusters: &mut Vec<Cluster>) -> Parsed<()> {
    if rest.u64()? != header {
        return corrupt("page list: belongs to another header");
    }
    let (count, mut summaries) = rest.list()?;
    let (places, mut pages) = rest.list()?;
    if places != count {
        return corrupt(format!("page list: pages of {places} clusters of {count}"));
    }
    for _ in 0..count {
        let mut summary = summaries.record()?;
        let (first, word) = (summary.u64()?, summary.u64()?);
        if word >> 56 & 1 == 1 {
            return unsupported("an RNTuple of sharded clusters");
        }
        let (count, mut columns) = pages.list()?;
        let columns = (0..count).map(|_| pages_of(columns.list()?)).collect::<Parsed<_>>()?;
        clusters.push(Cluster { first, entries: word & ((1 << 56) - 1), columns });
    }
    Ok(())
}

/// "Page Locations": the inner list, and what follows inside its frame.
fn pages_of((count, mut rest): (usize, Cursor<'_>)) -> Parsed<Pages> {
    // Each takes 16 bytes at least.
    let mut pages = Vec::with_capacity(count.min(rest.0.len() / 16));
    for _ in 0..count {
        let elements = rest.u32()?.cast_signed();
        let (start, stored) = locator(&mut rest)?;
        let has_checksum = elements < 0;
        pages.push(Page { start, stored, elements: elements.unsigned_abs(), has_checksum });
    }
    Ok(Pages { pages, is_suppressed: rest.i64()? < 0 })
}
