//! Requests on file data.

use crate::xrd::FileHandle;

/// Bytes of one element of a vector read or write.
pub const VECTOR_ELEMENT_BYTES: usize = 16;

/// Reads a range (§4.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// Which file.
    pub handle: FileHandle,
    /// First byte.
    pub offset: u64,
    /// Bytes wanted.
    pub length: u32,
    /// Stream to answer on.
    pub path_id: u8,
}

/// Reads a range with page checksums (§6.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pgread {
    /// Which file.
    pub handle: FileHandle,
    /// First byte.
    pub offset: u64,
    /// Bytes wanted.
    pub length: u32,
    /// Stream to answer on.
    pub path_id: u8,
    /// Asked again because a checksum did not match.
    pub is_retry: bool,
}

/// One element of a vector read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorElement {
    /// Which file.
    pub handle: FileHandle,
    /// Bytes.
    pub length: u32,
    /// First byte.
    pub offset: u64,
}

/// Reads many ranges (§4.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readv {
    /// The ranges.
    pub elements: Vec<VectorElement>,
    /// Stream to answer on.
    pub path_id: u8,
}

/// Writes a range; the data follow the header and are not part of this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Which file.
    pub handle: FileHandle,
    /// First byte.
    pub offset: u64,
    /// Stream that carries the data.
    pub path_id: u8,
    /// Bytes that follow.
    pub length: u32,
}

/// Writes pages (§6.2); pages and checksums follow the header and are not part of this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pgwrite {
    /// Which file.
    pub handle: FileHandle,
    /// First byte.
    pub offset: u64,
    /// Stream that carries the data.
    pub path_id: u8,
    /// Corrects a page that was reported bad.
    pub is_retry: bool,
    /// Bytes that follow, with checksums.
    pub length: u32,
}

/// Writes many ranges; the data follow the body and are not part of this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writev {
    /// Flush afterwards.
    pub is_sync: bool,
    /// The ranges.
    pub elements: Vec<VectorElement>,
}
