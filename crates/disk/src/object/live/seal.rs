//! How a live object begins, and how it ends: as an object like others, or not at all.

use super::{FENCED_BIT, LiveObject, fences::LiveFences, labels, state::State};
use crate::object::{
    copy,
    description::Description,
    durable,
    partition::{Partition, Shared},
    reader::{self, ObjectReader},
    writer::publish_from,
};
use base::{Checksums, Failure, ObjectId, Result, Timestamp};
use rustix::fs::{Advice, fadvise};
use std::{
    fs::{self, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    sync::{PoisonError, Weak},
};
use wire::media::object::{Label, ObjectInfo};

/// How a live object is to be sealed.
#[derive(Debug)]
pub struct Seal<'a> {
    /// What the namespace says of its file.
    pub label: &'a Label,
    /// Bytes that count.
    pub size: u64,
    /// With what it would have begun, if nobody has begun it.
    pub base: Option<ObjectId>,
    /// When.
    pub now: Timestamp,
}

impl LiveObject {
    /// Makes the file if there is none, with the content of `base`, and notes what it is of. The first sync makes it durable.
    ///
    /// # Errors
    /// As a write would be refused; [`base::ErrorKind::Corrupt`] if `base` does not match its description.
    pub fn begin(&self, base: Option<&ObjectReader>, label: Option<&Label>) -> Result<()> {
        self.make(base, label, |state| self.writable(state).map(drop))
    }

    fn make(
        &self,
        base: Option<&ObjectReader>,
        label: Option<&Label>,
        check: impl Fn(&State) -> Result<()>,
    ) -> Result<()> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_begun() {
            return Ok(());
        }
        check(&*self.ready()?)?;
        // Fences and reads need not wait for a long copy.
        let made = self.fill(base).and_then(|file| {
            if let Some(label) = label {
                labels::note(&file, label);
            }
            let state = self.alone();
            check(&state)?;
            self.put_in_place(&state, file)
        });
        if made.is_err() && !self.is_begun() {
            // What cannot be deleted goes when it is begun again, or removed.
            let _ = durable::unlink(&self.shared.live_new(self.object));
            self.shared.account.release(std::mem::take(&mut self.room().claimed));
        }
        made
    }

    /// A file under another name with the content of `base`.
    fn fill(&self, base: Option<&ObjectReader>) -> Result<File> {
        let shared = &self.shared;
        shared.check_in_place()?;
        let path = shared.live_new(self.object);
        let create = || {
            durable::make_directory(&shared.live_directory())?;
            durable::unlink(&path)?;
            OpenOptions::new().read(true).write(true).create_new(true).open(&path)
        };
        let file = create().map_err(|cause| self.failed("create", &cause))?;
        if let Some(base) = base.filter(|base| base.size() > 0) {
            self.copy(base, &file)?;
        }
        Ok(file)
    }

    /// Copies `base`, and compares the copy: else a rotten block would be blessed with a new sum when it is sealed.
    fn copy(&self, base: &ObjectReader, file: &File) -> Result<()> {
        let (shared, info) = (&self.shared, base.info());
        if info.piece.is_some() {
            let what =
                format!("object {} is a piece of a coded file: it cannot change in place", info.object);
            return Err(Failure::unsupported(what).hint("write the whole file anew"));
        }
        shared.account.check_free(info.size)?;
        shared.account.take_share(info.size)?;
        let copied = copy::copy_content(base.file(), file, info.size)
            .and_then(|()| reader::sum_file(file))
            .map_err(|cause| self.failed("copy into", &cause))
            .and_then(|found| {
                reader::compare(info.object, shared.name(), (info.size, info.checksums), found)
            });
        match copied {
            Ok(()) => self.room().claimed = info.size,
            Err(_) => shared.account.release(info.size),
        }
        copied
    }

    /// Gives the new file its name. Nobody had one before.
    fn put_in_place(&self, state: &State, file: File) -> Result<()> {
        let (shared, object) = (&self.shared, self.object);
        durable::rename(&shared.live_new(object), &shared.live_data(object))
            .map_err(|cause| self.failed("create", &cause))?;
        let file = self.file.get_or_init(|| file);
        let is_fenced = matches!(state, State::Open(fences) if *fences != LiveFences::none(object));
        if is_fenced { self.mark_fenced(file) } else { Ok(()) }
    }

    /// Lets nobody write any more, durably.
    fn end_writes(&self) -> Result<()> {
        self.ready().map(drop)?;
        let mut state = self.alone();
        match &*state {
            State::Removed => return Err(self.gone()),
            State::Unread => return Err(self.unread()),
            State::Open(_) | State::Damaged(_) | State::Sealed => {}
        }
        *state = State::Sealed;
        LiveFences::sealed(self.object).write(&self.shared)
    }

    fn seal(&self, seal: &Seal<'_>, base: Option<&ObjectReader>) -> Result<ObjectInfo> {
        let (shared, object) = (&self.shared, self.object);
        // Looked at before anything is changed.
        let has = if self.is_begun() { self.size()? } else { base.map_or(0, ObjectReader::size) };
        if has < seal.size {
            return Err(self.too_short(has, seal.size));
        }
        self.end_writes()?;
        self.make(base, None, |state| match state {
            State::Removed => Err(self.gone()),
            _ => Ok(()),
        })?;
        let content = (seal.size, self.settle(self.begun()?, seal.size)?);
        let info = ObjectInfo::new(&shared.identity.facility, object, seal.label, content, seal.now);
        let from = (&*shared.live_data(object), &*shared.live_description(object));
        publish_from(shared, &info, from, &shared.live_directory())
            .map_err(|cause| self.failed("seal", &cause))?;
        self.hand_over();
        Ok(info)
    }

    /// Its room is that of an object like others from now on.
    fn hand_over(&self) {
        self.room().claimed = 0;
    }

    /// Makes what was written durable, and sums it.
    fn settle(&self, file: &File, size: u64) -> Result<Checksums> {
        // Also if it ends there: space that was taken behind the end is given back.
        self.resize(file, size)?;
        let sync = |file: &File| {
            // As other objects have it.
            file.set_permissions(Permissions::from_mode(file.metadata()?.mode() & !FENCED_BIT))?;
            durable::sync_all(file)
        };
        let had_failed = self.flush(file, sync).map_err(|cause| self.failed("sync", &cause))?;
        if had_failed {
            // What is in memory may not be what is on the medium. Advice only: errors do not matter.
            let _ = fadvise(file, 0, None, Advice::DontNeed);
        }
        let (summed, checksums) = reader::sum_file(file).map_err(|cause| self.failed("sum", &cause))?;
        if summed == size { Ok(checksums) } else { Err(self.too_short(summed, size)) }
    }

    fn too_short(&self, found: u64, size: u64) -> Failure {
        let Self { object, shared, .. } = self;
        Failure::corrupt(format!(
            "live object {object} on {} has {found} bytes, {size} were committed",
            shared.name()
        ))
        .hint("it stays as it is: look at the disk, or replace the file")
    }
}

impl Partition {
    /// Makes a live object immutable: refuses further writes, cuts the file at `size`, sums it, and moves it to its
    /// place with its description. An object that was not begun is made first.
    ///
    /// After a crash at any point, call it again. For an object that is sealed already it returns the description.
    pub fn seal_live(&self, object: ObjectId, seal: &Seal<'_>) -> Result<ObjectInfo> {
        let shared = &self.shared;
        let _claim = shared.begin_writing(object)?;
        let live = self.live(object)?;
        if !self.holds(object) {
            return live.seal(seal, seal.base.map(|base| self.open_object(base)).transpose()?.as_deref());
        }
        // Whoever sealed it may have been stopped before it was durable.
        live.hand_over();
        durable::sync_directory(&shared.home(object))
            .and_then(|()| durable::sync_directory(&shared.live_directory()))
            .map_err(|cause| live.failed("seal", &cause))?;
        Description::read(Description::open(shared, object), shared, object)
    }

    /// Deletes the fences of an object that is sealed, once the head knows it: its place says that it never changes.
    pub fn forget_fences(&self, object: ObjectId) -> Result<()> {
        if !self.holds(object) {
            return Ok(());
        }
        // Not synced: if they come back after a power cut they refuse what is refused anyway.
        durable::unlink(&self.shared.live_fences(object))
            .map(drop)
            .map_err(|cause| self.shared.failed("delete the fences of", object, &cause))
    }
}

impl Shared {
    /// Deletes what a live object has left, data first. Whoever has it open may do nothing with it any more.
    pub(crate) fn delete_live(&self, object: ObjectId) -> io::Result<()> {
        let open = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let live = open.get(&object).and_then(Weak::upgrade);
        drop(open);
        if live.is_none() && !self.live_directory().exists() {
            return Ok(());
        }
        let claimed = live.as_deref().map(LiveObject::end);
        let size = fs::metadata(self.live_data(object)).map_or(0, |data| data.len());
        let mut had_any = false;
        for path in self.live_traces(object) {
            had_any |= durable::unlink(&path)?;
        }
        self.account.release(claimed.unwrap_or(size));
        // One that comes back is nobody's: the head has forgotten it.
        if had_any { durable::sync_directory(&self.live_directory()) } else { Ok(()) }
    }
}

impl LiveObject {
    /// Refuses everything from now on; yields the bytes that it had claimed.
    fn end(&self) -> u64 {
        *self.alone() = State::Removed;
        std::mem::take(&mut self.room().claimed)
    }
}
