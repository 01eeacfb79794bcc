//! A virtual library of plain directories (`spec/tape.md` §4). All its state is on disk.
//!
//! A cartridge is a file named after its bar code; the directory it lies in is where it is. Moving a medium is a
//! rename. Nothing is remembered elsewhere, so nothing can disagree, and nothing is cleared at start.

use crate::{
    changer::{Changer, Element, ElementAddress, ElementKind},
    virtual_drive::{DriveOptions, VirtualDrive},
};
use base::{Failure, Result, Vid, units::counted};
use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

/// Address of import/export element 0; they count from 1, so `import/0001` is 11.
const IMPORT_FIRST: u16 = 10;
/// Address of drive 0.
const DRIVE_FIRST: u16 = 500;
/// Address of slot 0; slots count from 1, so `slot/0001` is 1001.
const SLOT_FIRST: u16 = 1000;
/// Most drives: their addresses end before those of the slots begin.
pub const DRIVES_MAX: u16 = SLOT_FIRST - DRIVE_FIRST;
/// Most slots: what four digits can name.
pub const SLOTS_MAX: u16 = 9999;
/// Most import/export elements: their addresses end before those of the drives begin.
const IMPORTS_MAX: u16 = DRIVE_FIRST - IMPORT_FIRST;
/// How a cartridge's file name ends.
const EXTENSION: &str = "aws";

/// A virtual library: its changer, and the way to its drives.
#[derive(Debug, Clone)]
pub struct VirtualLibrary {
    name: String,
    directory: PathBuf,
    options: DriveOptions,
}

/// An element and the directory that is it.
struct ElementDirectory {
    address: ElementAddress,
    kind: ElementKind,
    name: String,
    directory: PathBuf,
}

impl VirtualLibrary {
    /// Gives the library in `directory` at least `drives` drives, `slots` slots, one import/export element and the
    /// cartridges `volumes`, new ones empty and in free slots, and opens it.
    ///
    /// What is there already stays as it is, so that doing it again after an interruption completes it.
    pub fn create(directory: impl AsRef<Path>, drives: u16, slots: u16, volumes: &[Vid]) -> Result<Self> {
        let directory = directory.as_ref();
        if drives > DRIVES_MAX || slots > SLOTS_MAX {
            return Err(Failure::invalid(format!(
                "library {}: {} and {} are more than {DRIVES_MAX} and {SLOTS_MAX}",
                directory.display(),
                counted(drives.into(), "drive", "drives"),
                counted(slots.into(), "slot", "slots")
            )));
        }
        let make = |path: PathBuf| {
            fs::create_dir_all(&path)
                .and_then(|()| sync_directory(path.parent().unwrap_or(&path)))
                .map_err(|cause| Failure::io(format!("make {}", path.display()), &cause))
        };
        make(directory.to_owned())?;
        for kind in ["slot", "drive", "import"] {
            make(directory.join(kind))?;
        }
        (0..drives).try_for_each(|n| make(directory.join(format!("drive/{n}"))))?;
        (1..=slots).try_for_each(|n| make(directory.join(format!("slot/{n:04}"))))?;
        make(directory.join("import/0001"))?;
        let mut library = Self::open(directory)?;
        library.add(volumes)?;
        Ok(library)
    }

    /// Opens the library in `directory` as it is.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self> {
        let directory = directory.as_ref();
        let named = directory.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = named.unwrap_or_else(|| "library".to_owned());
        let library = Self { name, directory: directory.to_owned(), options: DriveOptions::default() };
        if library.places()?.is_empty() {
            return Err(Failure::not_found(format!("{} holds no virtual library", directory.display()))
                .hint("VirtualLibrary::create makes one"));
        }
        Ok(library)
    }

    /// Names the library; drives are named after it.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Sets the options of the drives that [`VirtualLibrary::drive`] opens from now on.
    #[must_use]
    pub fn with_options(self, options: DriveOptions) -> Self {
        Self { options, ..self }
    }

    /// The options of its drives.
    #[must_use]
    pub fn options(&self) -> DriveOptions {
        self.options
    }

    /// Numbers of its drives, from 0.
    pub fn drive_numbers(&self) -> Result<Vec<u16>> {
        let places = self.places()?.into_iter();
        let drives = places.filter(|place| place.kind == ElementKind::Drive);
        Ok(drives.map(|place| place.address.0 - DRIVE_FIRST).collect())
    }

    /// Opens drive `number`, counted from 0.
    pub fn drive(&self, number: u16) -> Result<VirtualDrive> {
        let directory = self.directory.join(format!("drive/{number}"));
        VirtualDrive::open(self.drive_name(number), directory, self.options)
    }

    fn drive_name(&self, number: u16) -> String {
        format!("{}.drive{number}", self.name)
    }

    /// Puts an empty cartridge for each of `volumes` that is nowhere yet into a free slot.
    fn add(&mut self, volumes: &[Vid]) -> Result<()> {
        let _lock = self.lock()?;
        let inventory = self.inventory()?;
        let mut free = inventory.iter().filter(|element| element.is_free_slot());
        for vid in volumes {
            if crate::changer::element_of(&inventory, vid).is_some() {
                continue;
            }
            let slot = free.next().ok_or_else(|| {
                Failure::no_space(format!("library {}: no slot is free for volume {vid}", self.name))
                    .hint("take a cartridge out of the library, or make it with more slots")
            })?;
            let directory = self.directory.join(&slot.name);
            let path = directory.join(format!("{vid}.{EXTENSION}"));
            File::create_new(&path)
                .and_then(|file| file.sync_all())
                .and_then(|()| sync_directory(&directory))
                .map_err(|cause| Failure::io(format!("make {}", path.display()), &cause))?;
        }
        Ok(())
    }

    /// All elements, by address.
    fn places(&self) -> Result<Vec<ElementDirectory>> {
        let mut places = Vec::new();
        for (folder, kind, first, count_max) in [
            ("import", ElementKind::ImportExport, IMPORT_FIRST, IMPORTS_MAX),
            ("drive", ElementKind::Drive, DRIVE_FIRST, DRIVES_MAX),
            ("slot", ElementKind::Slot, SLOT_FIRST, SLOTS_MAX + 1),
        ] {
            let folder_path = self.directory.join(folder);
            let failed = |cause: io::Error| Failure::io(format!("list {}", base::tail(&folder_path)), &cause);
            for entry in fs::read_dir(&folder_path).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let name = entry.file_name().to_string_lossy().into_owned();
                // What is not named by a number is nothing of the library's.
                let number = name.parse().ok().filter(|number: &u16| *number < count_max);
                let Some(number) = number.filter(|_| entry.path().is_dir()) else {
                    continue;
                };
                let address = ElementAddress(first + number);
                places.push(ElementDirectory {
                    address,
                    kind,
                    name: format!("{folder}/{name}"),
                    directory: entry.path(),
                });
            }
        }
        places.sort_by_key(|place| place.address);
        if let Some(twice) = places.windows(2).find(|pair| pair[0].address == pair[1].address) {
            let names = (&twice[0].name, &twice[1].name);
            return Err(Failure::corrupt(format!(
                "library {}: {} and {} are one element",
                self.name, names.0, names.1
            )));
        }
        Ok(places)
    }

    fn place(&self, address: ElementAddress) -> Result<ElementDirectory> {
        let place = self.places()?.into_iter().find(|place| place.address == address);
        place.ok_or_else(|| Failure::not_found(format!("library {} has no element {address}", self.name)))
    }

    /// Keeps other processes from moving cartridges for as long as the result lives.
    fn lock(&self) -> Result<Lock> {
        let folder = File::open(&self.directory)
            .map_err(|cause| Failure::io(format!("open {}", base::tail(&self.directory)), &cause))?;
        Lock::take(folder, || {
            Failure::busy(format!("library {}: another process is moving a cartridge", self.name))
                .hint("try again in a moment")
        })
    }
}

impl Changer for VirtualLibrary {
    fn name(&self) -> &str {
        &self.name
    }

    fn inventory(&mut self) -> Result<Vec<Element>> {
        let mut elements: Vec<Element> = Vec::new();
        for place in self.places()? {
            let vid = cartridge_in(&place.directory)?.map(|(vid, _)| vid);
            if let Some(other) = vid.as_ref().and_then(|vid| crate::changer::element_of(&elements, vid)) {
                let names = (&other.name, &place.name);
                return Err(Failure::corrupt(format!(
                    "library {}: volume {} lies in {} and in {}",
                    self.name,
                    vid.as_ref().map_or("", Vid::as_str),
                    names.0,
                    names.1
                ))
                .hint("take one of the two out"));
            }
            let ElementDirectory { address, kind, name, .. } = place;
            let is_full = vid.is_some();
            elements.push(Element { address, kind, name, vid, is_full, capacity_bytes: None, source: None });
        }
        Ok(elements)
    }

    fn move_medium(&mut self, from: ElementAddress, to: ElementAddress) -> Result<()> {
        let _lock = self.lock()?;
        let (source, target) = (self.place(from)?, self.place(to)?);
        let Some((vid, path)) = cartridge_in(&source.directory)? else {
            return Err(Failure::not_found(format!("library {}: {} is empty", self.name, source.name)));
        };
        if let Some((other, _)) = cartridge_in(&target.directory)? {
            return Err(Failure::exists(format!(
                "library {}: {} holds volume {other}",
                self.name, target.name
            )));
        }
        // A drive locks the medium that it has threaded: this is what tells a loaded drive from an open one.
        let medium =
            File::open(&path).map_err(|cause| Failure::io(format!("open {}", base::tail(&path)), &cause))?;
        let _threaded = Lock::take(medium, || {
            Failure::busy(format!("library {}: volume {vid} is loaded in {}", self.name, source.name))
                .hint("unload the drive first")
        })?;
        let moved = target.directory.join(format!("{vid}.{EXTENSION}"));
        fs::rename(&path, &moved)
            .and_then(|()| sync_directory(&target.directory))
            .and_then(|()| sync_directory(&source.directory))
            .map_err(|cause| {
                Failure::io(format!("move {} to {}", base::tail(&path), base::tail(&moved)), &cause)
            })?;
        tracing::info!(library = %self.name, %vid, from = %source.name, to = %target.name, "medium moved");
        Ok(())
    }

    fn insert(&mut self, volumes: &[Vid]) -> Result<()> {
        self.add(volumes)
    }

    fn drive_address(&mut self, drive: &str) -> Result<ElementAddress> {
        let drives = self.places()?.into_iter().filter(|place| place.kind == ElementKind::Drive);
        let named = drives
            .map(|place| place.address)
            .find(|address| drive == self.drive_name(address.0 - DRIVE_FIRST));
        named.ok_or_else(|| Failure::not_found(format!("library {} has no drive {drive}", self.name)))
    }
}

/// The cartridge in the element that is `directory`.
pub(crate) fn cartridge_in(directory: &Path) -> Result<Option<(Vid, PathBuf)>> {
    let failed = |cause: io::Error| Failure::io(format!("list {}", base::tail(directory)), &cause);
    let mut found: Option<(Vid, PathBuf)> = None;
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_none_or(|extension| extension != EXTENSION) {
            continue;
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let vid: Vid = stem.parse().map_err(|failure: Failure| failure.during(base::tail(&path)))?;
        if let Some((other, _)) = found {
            return Err(Failure::corrupt(format!(
                "{} holds the cartridges {other} and {vid}, and has room for one",
                base::tail(directory)
            ))
            .hint("move one of them to an empty slot"));
        }
        found = Some((vid, path));
    }
    Ok(found)
}

/// An advisory lock of a file or directory, held until it is dropped.
///
/// It is given back by name, not just by closing: a process that some other thread is just starting has a copy of every
/// open file for a moment, and the lock would live as long as the last copy.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// Takes the lock of `file`, or fails with what `busy` says if somebody has it.
    pub(crate) fn take(file: File, busy: impl FnOnce() -> Failure) -> Result<Self> {
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(busy()),
            Err(TryLockError::Error(cause)) => Err(Failure::io("take an advisory lock", &cause)),
        }
    }

    /// The locked file.
    pub(crate) fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(cause) = self.0.unlock() {
            tracing::warn!(%cause, "cannot release a file lock");
        }
    }
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
#[path = "virtual_library_tests.rs"]
mod tests;
