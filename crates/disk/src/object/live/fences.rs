//! The fences of a live object on disk: durable before they are acknowledged, and read before anything is written.
//!
//! A file beside the object (`spec/object.md` §10): one line of JSON, then the CRC-32C of that line. A file that cannot
//! be read is damage; it never means that there are no fences.

use crate::object::{durable, partition::Shared};
use base::{Crc32c, Failure, ObjectId, Result};
use serde::{Deserialize, Serialize};
use share::Fences;
use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
};

/// Version of the file that is written.
const VERSION: u32 = 1;
/// Ranges of all fences with the longest numbers are a fifth of that; a longer file is not one.
const BYTES_MAX: u64 = 256 << 10;
/// What is refused of one live object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LiveFences {
    version: u32,
    object: ObjectId,
    /// It is being sealed, or was: every write is refused for good.
    pub(crate) is_sealed: bool,
    pub(crate) fences: Fences,
}

impl LiveFences {
    /// Those of an object that was never fenced.
    pub(crate) fn none(object: ObjectId) -> Self {
        Self { version: VERSION, object, is_sealed: false, fences: Fences::default() }
    }

    /// Those of an object to which nobody may write any more.
    pub(crate) fn sealed(object: ObjectId) -> Self {
        Self { is_sealed: true, ..Self::none(object) }
    }

    /// Reads those of an object; `None` if there is no file.
    pub(crate) fn read(shared: &Shared, object: ObjectId) -> Result<Option<Self>> {
        let mut text = Vec::new();
        let read = File::open(shared.live_fences(object))
            .and_then(|file| file.take(BYTES_MAX).read_to_end(&mut text));
        match read {
            Ok(_) => {}
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(shared.failed("read the fences of", object, &cause)),
        }
        Self::decode(&text, object).map(Some).map_err(|why| damaged(shared, object, &why))
    }

    fn decode(text: &[u8], object: ObjectId) -> Result<Self, String> {
        let split = text.iter().position(|byte| *byte == b'\n').ok_or("they were cut short")?;
        let (line, sum) = text.split_at(split);
        if sum != sum_line(line).as_bytes() {
            return Err("their checksum is wrong".to_owned());
        }
        let fences: Self = serde_json::from_slice(line).map_err(|cause| cause.to_string())?;
        match (fences.version, fences.object == object) {
            (VERSION, true) => Ok(fences),
            (VERSION, false) => Err(format!("they are of object {}", fences.object)),
            (version, _) => Err(format!("they have version {version}, this release reads {VERSION}")),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).expect("plain numbers always serialise");
        text.extend_from_slice(sum_line(&text).as_bytes());
        text
    }

    /// Makes them durable: a file under another name takes the place of the old one.
    pub(crate) fn write(&self, shared: &Shared) -> Result<()> {
        shared.check_in_place()?;
        let (path, new) = (shared.live_fences(self.object), shared.live_fences_new(self.object));
        durable::make_directory(&shared.live_directory())
            .and_then(|()| durable::write_synced(&new, &self.encode()))
            .and_then(|()| durable::rename(&new, &path))
            .and_then(|()| durable::sync_directory(&shared.live_directory()))
            .map_err(|cause| shared.failed("write the fences of", self.object, &cause))
    }
}

/// The second line.
fn sum_line(line: &[u8]) -> String {
    format!("\n{}\n", Crc32c::of(line))
}

/// The fences of an object cannot be trusted.
pub(crate) fn damaged(shared: &Shared, object: ObjectId, why: &str) -> Failure {
    Failure::corrupt(format!("the fences of object {object} on {} are damaged: {why}", shared.name()))
        .hint(format!(
            "writes to it are refused: remove its file, or, if no mount that wrote to it can still be running, remove \
             live/{object}.fences and clear the sticky bit of live/{object}"
        ))
}

impl Shared {
    /// An object that changes in place.
    pub(crate) fn live_data(&self, object: ObjectId) -> PathBuf {
        self.live_directory().join(object.to_string())
    }

    /// The same while it is being made.
    pub(crate) fn live_new(&self, object: ObjectId) -> PathBuf {
        self.live_directory().join(format!("{object}.new"))
    }

    /// Its description, just before it is sealed.
    pub(crate) fn live_description(&self, object: ObjectId) -> PathBuf {
        self.live_directory().join(format!("{object}.json"))
    }

    pub(crate) fn live_fences(&self, object: ObjectId) -> PathBuf {
        self.live_directory().join(format!("{object}.fences"))
    }

    fn live_fences_new(&self, object: ObjectId) -> PathBuf {
        self.live_directory().join(format!("{object}.fences.new"))
    }

    /// Everything of a live object, data first.
    pub(crate) fn live_traces(&self, object: ObjectId) -> [PathBuf; 5] {
        [
            self.live_data(object),
            self.live_new(object),
            self.live_description(object),
            self.live_fences_new(object),
            self.live_fences(object),
        ]
    }
}

/// Fuzz body: damaged fences are refused, never a panic, and never less than what was written.
pub fn fuzz_fences(data: &[u8]) {
    if let Ok(fences) = LiveFences::decode(data, ObjectId(7)) {
        assert_eq!(LiveFences::decode(&fences.encode(), ObjectId(7)), Ok(fences));
    }
}
