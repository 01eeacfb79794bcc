//! Lists the objects of a partition: for the start of a daemon, for the scrub, and for a head that lost its catalogue.

use crate::object::{description::Description, partition::Shared};
use base::{ErrorKind, Failure, ObjectId, Result, units::counted};
use rustix::io::Errno;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};
use wire::media::object::ObjectInfo;

/// One thing that lies on a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its object; `None` if the name is not one of ours.
    pub object: Option<ObjectId>,
    /// Where it lies.
    pub path: PathBuf,
    /// Bytes of data.
    pub size: u64,
    /// Its state.
    pub state: EntryState,
}

/// The state of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryState {
    /// A committed object whose description fits its size. The bytes were not read.
    Complete(ObjectInfo),
    /// A live writer has it.
    Writing,
    /// A write that ended with its daemon: to be removed.
    Unfinished,
    /// A description without data: a commit or a removal that was interrupted. To be removed.
    Described,
    /// Something an operator must look at: data without description, a wrong size, a damaged description.
    Damaged(Failure),
    /// Not made by us, left alone.
    Foreign,
}

impl EntryState {
    /// Whether it is rest of an interrupted step that [`crate::Partition::remove`] clears without loss.
    #[must_use]
    pub fn is_leftover(&self) -> bool {
        matches!(self, Self::Unfinished | Self::Described)
    }
}

/// The files of one object in a directory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Found {
    pub(crate) data: Option<u64>,
    pub(crate) is_described: bool,
}

/// The entries of one directory, paired.
#[derive(Default)]
struct Scanned {
    objects: BTreeMap<ObjectId, Found>,
    foreign: Vec<(PathBuf, u64)>,
}

/// Lists a partition directory by directory, so that memory is bounded by the largest of the 257.
pub(crate) fn entries(shared: Arc<Shared>) -> impl Iterator<Item = Result<Entry>> {
    let homes = (0..=0xffu64).map(|low| DirectorySlot::Home(ObjectId(low)));
    homes
        .chain([DirectorySlot::Incoming])
        .flat_map(move |place| place.entries(&shared).unwrap_or_else(|failure| vec![Err(failure)]))
}

/// The committed objects, ascending: eight bytes of memory for each. Only names are read.
pub(crate) fn objects(shared: &Shared) -> Result<Vec<ObjectId>> {
    let mut objects = Vec::new();
    for low in 0..=0xffu64 {
        let names = names(&shared.home(ObjectId(low)))?;
        // What lies in the wrong directory is never found when it is wanted.
        objects.extend(described(&names).filter(|object| object.0 & 0xff == low));
    }
    objects.sort_unstable();
    Ok(objects)
}

/// The objects that a directory holds something of, in order, each with whether a name is of its description: one after the
/// other if there are both. A missing directory is empty, because they are made on demand.
pub(crate) fn names(directory: &Path) -> Result<Vec<(ObjectId, bool)>> {
    let failed = |cause: io::Error| Failure::io(format!("list {}", base::tail(directory)), &cause);
    let entries = match fs::read_dir(directory) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            names.extend(entry.file_name().to_str().and_then(parse_name));
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Of names in order, the objects that have data and a description.
pub(crate) fn described(names: &[(ObjectId, bool)]) -> impl Iterator<Item = ObjectId> {
    names.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0].0)
}

#[derive(Clone, Copy)]
enum DirectorySlot {
    Incoming,
    /// The directory of this object and of all with the same low byte.
    Home(ObjectId),
}

impl DirectorySlot {
    fn entries(self, shared: &Shared) -> Result<Vec<Result<Entry>>> {
        let directory = match self {
            Self::Incoming => shared.incoming(),
            Self::Home(object) => shared.home(object),
        };
        let scanned = scan(&directory)
            .map_err(|cause| Failure::io(format!("list {}", base::tail(&directory)), &cause))?;
        let ours = scanned.objects.into_iter().filter_map(|(object, found)| {
            let state = match self {
                Self::Incoming if shared.is_writing(object) => EntryState::Writing,
                Self::Incoming => EntryState::Unfinished,
                Self::Home(home) => {
                    state(shared, object, found, shared.home(home), || Description::open(shared, object))?
                }
            };
            let name = if found.data.is_some() { object.to_string() } else { format!("{object}.json") };
            Some(Entry {
                object: Some(object),
                path: directory.join(name),
                size: found.data.unwrap_or(0),
                state,
            })
        });
        let foreign = scanned.foreign.into_iter().map(|(path, size)| Entry {
            object: None,
            path,
            size,
            state: EntryState::Foreign,
        });
        Ok(ours.chain(foreign).map(Ok).collect())
    }
}

/// What a committed object is; `None` if it was removed while we looked.
pub(crate) fn state(
    shared: &Shared,
    object: ObjectId,
    found: Found,
    home: PathBuf,
    description: impl FnOnce() -> Result<Description, Errno>,
) -> Option<EntryState> {
    if shared.home(object) != home {
        return Some(damaged(shared, object, "lies in the wrong directory"));
    }
    let Some(size) = found.data else {
        return Some(if shared.is_writing(object) { EntryState::Writing } else { EntryState::Described });
    };
    if !found.is_described {
        // It may have been described between the listing of its two names.
        if !shared.description(object).exists() {
            return shared
                .data(object)
                .exists()
                .then(|| damaged(shared, object, "has data without a description"));
        }
    }
    Some(match Description::read(description(), shared, object) {
        Ok(info) if info.size == size => EntryState::Complete(info),
        Ok(info) => {
            let bytes = counted(size, "byte", "bytes");
            damaged(shared, object, &format!("has {bytes}, its description says {}", info.size))
        }
        Err(failure) if failure.kind == ErrorKind::NotFound => return None,
        Err(failure) => EntryState::Damaged(failure),
    })
}

fn damaged(shared: &Shared, object: ObjectId, why: &str) -> EntryState {
    EntryState::Damaged(Failure::corrupt(format!("object {object} on {} {why}", shared.name())))
}

/// Reads one directory; a missing one is empty, because they are made on demand.
fn scan(directory: &Path) -> io::Result<Scanned> {
    let mut scanned = Scanned::default();
    let entries = match fs::read_dir(directory) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(scanned),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let metadata = match entry.metadata() {
            // Removed while we looked.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        let name = entry.file_name();
        match name.to_str().and_then(parse_name).filter(|_| metadata.is_file()) {
            Some((object, true)) => scanned.objects.entry(object).or_default().is_described = true,
            Some((object, false)) => {
                scanned.objects.entry(object).or_default().data = Some(metadata.len());
            }
            None => scanned.foreign.push((entry.path(), metadata.len())),
        }
    }
    Ok(scanned)
}

/// Object and whether the name is of its description; `None` for names we never give.
pub(crate) fn parse_name(name: &str) -> Option<(ObjectId, bool)> {
    let (number, is_description) = match name.strip_suffix(".json") {
        Some(number) => (number, true),
        None => (name, false),
    };
    let object: ObjectId = number.parse().ok()?;
    // Only the canonical spelling: `+7` and `007` are somebody else's.
    (object.to_string() == number).then_some((object, is_description))
}

/// Objects that change in place, ascending.
pub(crate) fn live_objects(shared: &Shared) -> Result<Vec<ObjectId>> {
    let directory = shared.live_directory();
    let scanned = scan(&directory);
    let scanned = scanned
        .map_err(|cause| Failure::io(format!("list the live objects of {}", shared.name()), &cause))?;
    Ok(scanned.objects.iter().filter(|(_, found)| found.data.is_some()).map(|(object, _)| *object).collect())
}

/// Sum of the sizes of all data on a partition that nobody writes.
pub(crate) fn used_bytes(directory: &Path) -> Result<u64> {
    let failed =
        |cause: io::Error| Failure::io(format!("sum the objects of {}", base::tail(directory)), &cause);
    let mut used = 0u64;
    for low in 0..=0xffu32 {
        let home = directory.join("objects").join(format!("{low:02x}"));
        for found in scan(&home).map_err(failed)?.objects.values() {
            used = used.saturating_add(found.data.unwrap_or(0));
        }
    }
    for found in scan(&directory.join("live")).map_err(failed)?.objects.values() {
        used = used.saturating_add(found.data.unwrap_or(0));
    }
    Ok(used)
}

/// Fuzz body: whatever a name is, it is one of ours in exactly one spelling.
pub fn fuzz_name(data: &[u8]) {
    if let Ok(name) = std::str::from_utf8(data)
        && let Some((object, is_description)) = parse_name(name)
    {
        let suffix = if is_description { ".json" } else { "" };
        assert_eq!(format!("{object}{suffix}"), name);
    }
}
