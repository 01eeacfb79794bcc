//! Reads a bundle from its beginning to its end, and compares it with its index.

use super::{
    BundleError, INDEX_BYTES_MAX, INDEX_NAME, MEMBERS_MAX, Member, RECORD_BYTES,
    header::{Header, padding},
    index::decode_index,
};
use base::Checksums;

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Header,
    /// Data of a member, so many bytes.
    Data(u64),
    /// Nothing of interest: a long name, or zeros.
    Skip(u64),
    /// The archive has ended; zeros may follow.
    End,
}

/// Takes the bytes of a bundle in pieces of any length.
#[derive(Debug)]
pub struct Scanner {
    expected: Expected,
    /// Zeros behind the data under way.
    padding: u64,
    record: Vec<u8>,
    at: u64,
    /// Offset, size and sums of each member.
    found: Vec<(u64, u64, Checksums)>,
    /// The data of the last member, if it has the name of the index. A file may have that name, too; the index is the last.
    index: Option<Vec<u8>>,
}

impl Default for Scanner {
    fn default() -> Self {
        let record = Vec::with_capacity(RECORD_BYTES);
        Self { expected: Expected::Header, padding: 0, record, at: 0, found: Vec::new(), index: None }
    }
}

impl Scanner {
    /// Takes the next bytes.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), BundleError> {
        while !bytes.is_empty() {
            let taken = match self.expected {
                Expected::Header => self.header(bytes)?,
                Expected::Data(left) => self.data(bytes, left),
                Expected::Skip(left) => {
                    let piece = first(bytes, left);
                    self.expected = self.rest(left - piece.len() as u64, Expected::Skip);
                    piece.len()
                }
                Expected::End => bytes.len(),
            };
            self.at += taken as u64;
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// What is expected when so many bytes are left of what is under way.
    fn rest(&mut self, left: u64, under_way: fn(u64) -> Expected) -> Expected {
        match (left, std::mem::take(&mut self.padding)) {
            (0, 0) => Expected::Header,
            (0, padding) => Expected::Skip(padding),
            (left, padding) => {
                self.padding = padding;
                under_way(left)
            }
        }
    }

    fn header(&mut self, bytes: &[u8]) -> Result<usize, BundleError> {
        let piece = first(bytes, (RECORD_BYTES - self.record.len()) as u64);
        self.record.extend_from_slice(piece);
        let Ok(record) = <&[u8; RECORD_BYTES]>::try_from(&self.record[..]) else { return Ok(piece.len()) };
        let at = (self.at + piece.len() as u64).saturating_sub(RECORD_BYTES as u64);
        self.expected = if *record == [0; RECORD_BYTES] {
            Expected::End
        } else {
            let header = Header::decode(record).ok_or(BundleError::NoHeader(at))?;
            self.member(&header, at)?
        };
        self.record.clear();
        Ok(piece.len())
    }

    /// What follows a header.
    fn member(&mut self, header: &Header, at: u64) -> Result<Expected, BundleError> {
        self.padding = padding(header.size) as u64;
        match header.kind {
            b'x' => Ok(self.rest(header.size, Expected::Skip)),
            b'0' => {
                let may_be_index = header.name == INDEX_NAME.as_bytes() && header.size <= INDEX_BYTES_MAX;
                self.index = may_be_index.then(Vec::new);
                if self.found.len() == MEMBERS_MAX + 1 {
                    return Err(BundleError::TooLong);
                }
                self.found.push((at + RECORD_BYTES as u64, header.size, Checksums::EMPTY));
                Ok(self.rest(header.size, Expected::Data))
            }
            kind => Err(BundleError::Kind { at, kind: kind.into() }),
        }
    }

    fn data(&mut self, bytes: &[u8], left: u64) -> usize {
        let piece = first(bytes, left);
        if let Some((_, _, checksums)) = self.found.last_mut() {
            *checksums = checksums.extend(piece);
        }
        if let Some(index) = &mut self.index {
            index.extend_from_slice(piece);
        }
        self.expected = self.rest(left - piece.len() as u64, Expected::Data);
        piece.len()
    }

    /// The files of the bundle, when all its bytes were taken.
    pub fn finish(mut self) -> Result<Vec<Member>, BundleError> {
        if self.expected != Expected::End {
            return Err(BundleError::Ends(self.at));
        }
        self.found.pop();
        let index = self.index.ok_or_else(|| BundleError::Index("it is not the last member".to_owned()))?;
        let members = decode_index(&index)?;
        if members.len() != self.found.len() {
            let (listed, found) = (members.len(), self.found.len());
            return Err(BundleError::Index(format!("it lists {listed}, and {found} are there")));
        }
        let differs = members.iter().zip(&self.found).find(|(member, found)| {
            (member.offset, member.size, member.checksums) != (found.0, found.1, found.2)
        });
        match differs {
            Some((Member { file, offset, .. }, _)) => {
                Err(BundleError::Differs { file: *file, offset: *offset })
            }
            None => Ok(members),
        }
    }
}

/// The first bytes, `count` at most.
fn first(bytes: &[u8], count: u64) -> &[u8] {
    &bytes[..usize::try_from(count).unwrap_or(usize::MAX).min(bytes.len())]
}

/// Fuzz body: any bytes as a bundle, in two pieces. Never panics; the division changes nothing.
pub fn fuzz_bundle(data: &[u8]) {
    let scan = |pieces: [&[u8]; 2]| {
        let mut scanner = Scanner::default();
        pieces.iter().try_for_each(|piece| scanner.push(piece))?;
        scanner.finish()
    };
    let middle = data.len() / 3;
    assert_eq!(
        scan([data, &[]]),
        scan([&data[..middle], &data[middle..]]),
        "a division changes what is read"
    );
}
