//! Filling an empty catalogue from a backup, and moving a catalogue from one engine to the other. No head runs meanwhile.

use crate::store::{
    Catalogue, StoreError,
    engine::{Cell, Engine, Postgres, Sqlite, ToCell, schemas},
    rows::{facility::ids::IDS_SKIPPED, volumes::DOUBT_VOLUMES},
    transfer::{
        backup::content,
        loader::{Loader, copy_all, write_withheld},
    },
};
use base::{Failure, Result, Timestamp};
use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};
use wire::backup::{Begin, Decoder, Frame, take_row};

/// Numbers that a restored catalogue leaves out, for those that were given since the backup, of what people read.
pub(in crate::store) const SMALL_IDS_SKIPPED: i64 = 1_000_000;
/// The same of starts of the head.
const STARTS_SKIPPED: i64 = 1000;
/// What is read of a backup at once.
const READ_BYTES: usize = 1 << 20;

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What the backup says of itself.
    pub begin: Begin,
    /// Rows of all tables.
    pub rows: u64,
}

/// A catalogue that is being made: a file gets its name at the end.
struct NewCatalogue<'a> {
    catalogue: &'a Catalogue,
    /// Where a file is until then.
    file: PathBuf,
}

impl<'a> NewCatalogue<'a> {
    fn new(catalogue: &'a Catalogue) -> Result<Self> {
        catalogue.require_vacant()?;
        let file = match catalogue {
            Catalogue::File(file) => file.with_extension("new"),
            Catalogue::Database(_) => PathBuf::new(),
        };
        Ok(Self { catalogue, file })
    }

    /// Throws away what an earlier attempt has left.
    fn clear(&self) {
        for end in ["new", "new-wal", "new-shm"] {
            let _ = fs::remove_file(self.file.with_extension(end));
        }
    }

    fn kind(&self) -> &'static str {
        match self.catalogue {
            Catalogue::File(_) => "sqlite",
            Catalogue::Database(_) => "postgresql",
        }
    }

    fn open(&self, schema: usize) -> Result<Box<dyn Engine>> {
        let opened: crate::store::StoreResult<Box<dyn Engine>> = match self.catalogue {
            Catalogue::File(_) => {
                Sqlite::open_up_to(&self.file, true, schema).map(|engine| Box::new(engine) as _)
            }
            Catalogue::Database(url) => Postgres::open_up_to(url, schema).map(|engine| Box::new(engine) as _),
        };
        let engine = opened.map_err(|error| match error {
            StoreError::Newer { .. } => Failure::from(error)
                .hint("it was filled only partly, or by a newer release: use an empty database"),
            error => Failure::from(error).during(format!("open {}", self.catalogue)),
        })?;
        engine.be_patient()?;
        Ok(engine)
    }

    /// Gives the file its name.
    fn settle(&self) -> Result<()> {
        let Catalogue::File(file) = self.catalogue else { return Ok(()) };
        let log = self.file.with_extension("new-wal");
        if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
            return Err(Failure::internal(format!("{} is not empty", log.display())));
        }
        let parent = file.parent().unwrap_or(Path::new("."));
        fs::rename(&self.file, file)
            .and_then(|()| File::open(parent)?.sync_all())
            .map_err(|cause| Failure::io(format!("name {}", file.display()), &cause))
    }
}

fn known_schema(kind: &str) -> usize {
    schemas().into_iter().find(|(engine, _)| *engine == kind).map_or(0, |(_, version)| version)
}

/// Runs `work` inside a transaction.
fn within<T>(engine: &dyn Engine, work: impl FnOnce() -> Result<T>) -> Result<T> {
    engine.begin()?;
    let outcome = work().and_then(|done| {
        engine.commit()?;
        Ok(done)
    });
    // What is wrong was said already.
    outcome.inspect_err(|_| drop(engine.rollback()))
}

/// Fills an empty catalogue from a backup. `facility`, if it is known, must be the backup's.
///
/// Numbers continue beyond all that can have been given since the backup. Until an operator has looked, nothing is
/// deleted on disk servers and nothing is appended to volumes.
pub fn restore(
    catalogue: &Catalogue,
    facility: Option<&str>,
    from: &mut dyn Read,
    now: Timestamp,
) -> Result<Restored> {
    let place = NewCatalogue::new(catalogue)?;
    let mut frames = Frames { from, decoder: Decoder::default() };
    let Some(Frame::Begin(begin)) = frames.next()? else {
        return Err(Failure::corrupt("the backup does not name its facility"));
    };
    if facility.is_some_and(|facility| facility != begin.facility) {
        let what = format!("this is a backup of facility {} ({})", begin.facility, begin.name);
        return Err(Failure::permission(what).hint("name the directory of that one, or another backup"));
    }
    let known = known_schema(place.kind());
    let schema = begin.schema.get(place.kind()).copied().unwrap_or_default() as usize;
    if !(1..=known).contains(&schema) {
        let what = format!(
            "the backup was made by release {}, with schema {schema}; known is {known}",
            begin.release
        );
        return Err(Failure::unsupported(what).hint("use that release"));
    }
    place.clear();
    let engine = place.open(schema)?;
    let (withheld, rows) = within(&*engine, || fill(&*engine, &mut frames))?;
    drop(engine);
    // Brought up to date; a catalogue since the row of the facility is there.
    let engine = place.open(known)?;
    within(&*engine, || {
        write_withheld(&*engine, &withheld)?;
        mark_restored(&*engine, begin.taken, now)
    })?;
    drop(engine);
    place.settle()?;
    Ok(Restored { begin, rows })
}

fn fill(
    engine: &dyn Engine,
    frames: &mut Frames<'_>,
) -> Result<(Vec<crate::store::transfer::loader::Withheld>, u64)> {
    let mut loader = Loader::new(engine, true)?;
    let mut rows_read = 0;
    loop {
        match frames.next()? {
            Some(Frame::Table(table)) => loader.begin_table(&table.table, &table.columns)?,
            Some(Frame::Rows(rows)) => {
                let plain =
                    zstd::bulk::decompress(&rows.packed, rows.plain_bytes as usize).map_err(|cause| {
                        Failure::corrupt(format!("cannot unpack rows of the backup: {cause}"))
                    })?;
                let (mut left, columns) = (&plain[..], loader.columns());
                while !left.is_empty() && columns > 0 {
                    loader.add(&take_row(&mut left, columns)?)?;
                    rows_read += 1;
                }
            }
            Some(Frame::End(end)) => {
                frames.finish()?;
                return Ok((loader.finish(&end.tables)?, rows_read));
            }
            Some(Frame::Begin(_)) | None => {
                return Err(Failure::corrupt("the backup is not complete").hint("take another one"));
            }
        }
    }
}

fn mark_restored(engine: &dyn Engine, taken: Timestamp, now: Timestamp) -> Result<()> {
    let run = |sql: &str, params: &[Cell<'_>]| engine.execute(sql, params);
    run("UPDATE facility SET incarnation = incarnation + ?1", &[STARTS_SKIPPED.cell()])?;
    run(
        "UPDATE sequence SET next = next + CASE WHEN name IN ('node', 'replica') THEN CAST(?1 AS BIGINT) ELSE \
            CAST(?2 AS BIGINT) END",
        &[IDS_SKIPPED.cell(), SMALL_IDS_SKIPPED.cell()],
    )?;
    run(
        "INSERT INTO restored (epoch, noticed, taken, reason)
         SELECT coalesce(max(epoch), 0) + 1, CAST(?1 AS BIGINT), CAST(?2 AS BIGINT), 'restored from a backup' FROM restored",
        &[now.0.cell(), taken.0.cell()],
    )?;
    run(DOUBT_VOLUMES, &["restored from a backup: may hold later files".cell()])?;
    Ok(())
}

/// Fills an empty catalogue with all that another one holds, reads it back and compares; yields how many rows there are.
///
/// Whatever head runs on the old one can commit nothing from now on.
pub fn relocate(from: &Catalogue, to: &Catalogue) -> Result<u64> {
    let place = NewCatalogue::new(to)?;
    let source = from.open(false)?;
    source.be_patient()?;
    let raise = "UPDATE facility SET incarnation = incarnation + 1";
    if within(&*source, || Ok(source.count(raise, &[])?))? == 0 {
        return Err(Failure::not_found(format!("{from} holds no facility")));
    }
    place.clear();
    let known = known_schema(place.kind());
    let target = place.open(known)?;
    let contents = within(&*source, || within(&*target, || copy_all(&*source, &*target)))?;
    drop(target);
    // From the disk, not from what the connection remembers.
    let target = place.open(known)?;
    within(&*target, || {
        for shape in target.shapes()? {
            if contents.get(&shape.name) != Some(&content(&*target, &shape)?) {
                return Err(Failure::corrupt(format!("table {} differs after the move", shape.name))
                    .hint("the old catalogue is unchanged; empty the new one and try again"));
            }
        }
        Ok(())
    })?;
    within(&*target, || Ok(target.execute(raise, &[])?))?;
    drop(target);
    place.settle()?;
    Ok(contents.values().map(|content| content.rows).sum())
}

/// Reads a backup frame by frame.
struct Frames<'a> {
    from: &'a mut dyn Read,
    decoder: Decoder,
}

impl Frames<'_> {
    fn next(&mut self) -> Result<Option<Frame>> {
        let mut bytes = vec![0; READ_BYTES];
        loop {
            if let Some(frame) = self.decoder.next_frame()? {
                return Ok(Some(frame));
            }
            let read = self.read(&mut bytes)?;
            if read == 0 {
                return Ok(None);
            }
            self.decoder.push(&bytes[..read]);
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        self.from.read(bytes).map_err(|cause| Failure::io("read the backup", &cause))
    }

    /// After the last frame nothing may come.
    fn finish(&mut self) -> Result<()> {
        let mut bytes = [0; 1];
        let read = self.read(&mut bytes)?;
        self.decoder.push(&bytes[..read]);
        self.decoder.finish()
    }
}
