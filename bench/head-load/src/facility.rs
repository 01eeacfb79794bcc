//! A facility without doors: a head on a catalogue, and one partition that only it knows.

use base::{Checksums, ErrorKind, FilePath, ObjectId, Result, Timestamp};
use head::{
    Context, Core, HeadConfig, Principal,
    store::{Catalogue, FacilityRow},
};
use std::time::Instant;
use wire::{
    auth::{capability::CapKeys, token::TokenKey},
    control::{CommitWrite, DiskServer, Disposition, OpenWrite, RegisterPartition},
};

pub(crate) const NOW: Timestamp = Timestamp(1_700_000_000_000);

/// The user of all calls: no operator, so that permissions are looked at.
pub(crate) fn user(core: &Core) -> Principal {
    Principal::user(&core.facility().owner)
}

/// The place of the file with this number, where a directory has so many.
pub(crate) fn path(file: u64, per_directory: u64) -> Result<FilePath> {
    format!("/data/d{}/f{file}", file / per_directory).parse()
}

/// A new facility without files, if there is none.
pub(crate) fn create(catalogue: &Catalogue) -> Result<()> {
    let (id, name, owner) = ("f".to_owned(), "bench".to_owned(), "ada".to_owned());
    let facility = FacilityRow { id, name, owner, created: NOW, incarnation: 0 };
    match Core::create(catalogue, &facility) {
        Err(failure) if failure.kind == ErrorKind::Exists => Ok(()),
        created => created,
    }
}

/// Starts a head with one partition that only it knows; yields how many seconds that took.
pub(crate) fn open(catalogue: &Catalogue, partition: &str) -> Result<(Core, f64)> {
    let begin = Instant::now();
    let server = DiskServer { name: "here".to_owned(), root: "h:1".to_owned(), https: "h:2".to_owned() };
    let config = HeadConfig {
        keys: CapKeys::derive(&[7; 32]),
        tokens: TokenKey::derive(&[7; 32]),
        server: server.clone(),
        pool: "main".to_owned(),
    };
    let mut core = Core::open(catalogue, config, NOW)?;
    let (total_bytes, free_bytes) = (1 << 60, 1 << 60);
    let (pool, partition) = ("main".to_owned(), partition.to_owned());
    let room = Context { who: Principal::room("disk"), now: NOW };
    core.call(&room, RegisterPartition { server, boot: 1, pool, partition, total_bytes, free_bytes })?;
    Ok((core, begin.elapsed().as_secs_f64()))
}

/// A file to be made.
pub(crate) fn open_write(path: FilePath) -> OpenWrite {
    OpenWrite {
        path,
        mode: 0o644,
        disposition: Disposition::CreateNew,
        parents: false,
        expected_bytes: 0,
        source_modified: None,
    }
}

/// An empty file is whole.
pub(crate) fn commit(object: ObjectId) -> CommitWrite {
    CommitWrite { object, size: 0, checksums: Checksums::EMPTY, mirrors: Vec::new(), pieces: Vec::new() }
}
