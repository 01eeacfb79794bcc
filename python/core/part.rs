//! Parts of a chain that another process opened as a whole.

use crate::{source, tree};
use base::{Failure, Result};
use ntuple::{
    Column, DataFile, DefaultValue, Kind, OpenOptions, Schema,
    column::{Befriended, Friend, Slice, collection_of},
};
use pyo3::prelude::*;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

/// What a column is in files that lack it, as Python has it.
#[derive(Debug, Clone, Copy, FromPyObject, IntoPyObject)]
pub(crate) enum DefaultOf {
    Bool(bool),
    Int(i64),
    Float(f64),
}

impl DefaultOf {
    /// `None` stands for a missing value.
    pub(crate) fn value(given: Option<Self>) -> DefaultValue {
        match given {
            None => DefaultValue::Missing,
            Some(Self::Bool(value)) => DefaultValue::Bool(value),
            Some(Self::Int(value)) => DefaultValue::Int(value),
            Some(Self::Float(value)) => DefaultValue::float(value),
        }
    }

    fn of(value: DefaultValue) -> Option<Self> {
        match value {
            DefaultValue::Missing => None,
            DefaultValue::Bool(value) => Some(Self::Bool(value)),
            DefaultValue::Int(value) => Some(Self::Int(value)),
            DefaultValue::Float(value) => Some(Self::Float(value)),
        }
    }
}

/// Name, NumPy type, whether values can be missing, whether each entry has a list of them, and the default of a column
/// that some file lacks.
pub(crate) type ColumnOf = (String, String, bool, bool, Vec<Option<DefaultOf>>);
/// Prefix of the names of its columns; the columns; place, version, first row and that after the last of its files.
pub(crate) type FriendOf = (String, Vec<ColumnOf>, Vec<(String, String, u64, u64)>);
/// Place and version, rows of the row groups, and friends.
pub(crate) type FileOf = (String, String, Vec<usize>, Vec<FriendOf>);
/// A file that another process described: place, version, friends.
pub(crate) type FileToOpen = (String, String, Vec<FriendOf>);
/// Files; columns; names of unusable columns and why.
pub(crate) type Description = (Vec<FileOf>, Vec<ColumnOf>, Vec<(String, String)>);

/// Files that stay opened between tasks: opening one reads its footer, and a worker gets many parts of the same files.
const OPENED_MAX: usize = 256;

/// A file that is open, and how it was opened.
struct Opened {
    place: String,
    version: String,
    numbers: Vec<String>,
    file: Arc<dyn DataFile>,
}

/// The longest unused first. Held for a look only, never while a file is opened.
static OPENED: Mutex<VecDeque<Opened>> = Mutex::new(VecDeque::new());

/// Where each file of `chain` is, for a process with another working directory; `files` were found at `places`.
pub(crate) fn places_of(
    chain: &ntuple::Chain,
    files: &[Arc<dyn DataFile>],
    places: &[String],
) -> Result<Vec<String>> {
    let mut known = HashMap::new();
    for (file, place) in files.iter().zip(places) {
        let absolute = if place.contains("://") {
            place.clone()
        } else {
            let path =
                std::path::absolute(place).map_err(|cause| Failure::io(format!("open {place}"), &cause))?;
            path.to_string_lossy().into_owned()
        };
        known.insert((file.name().to_owned(), version_of(&**file)), absolute);
    }
    let place = |file: &dyn DataFile| known.get(&(file.name().to_owned(), version_of(file))).cloned();
    Ok(chain.files().map(|file| place(file).unwrap_or_default()).collect())
}

/// Version of a file and, behind a line feed, which of its n-tuples this is.
fn version_of(file: &dyn DataFile) -> String {
    match file.tree() {
        Some(tree) => format!("{}\n{tree}", file.version()),
        None => file.version(),
    }
}

/// What a process needs to open parts of `chain`.
pub(crate) fn describe(chain: &ntuple::Chain, places: &[String]) -> Description {
    let files = chain.shared_files().zip(places).map(|(file, place)| {
        let rows = (0..file.row_groups()).map(|group| file.rows(group)).collect();
        let (main, friends) = file.friends().unwrap_or((file, &[]));
        (place.clone(), version_of(&**main), rows, friends.iter().map(describe_friend).collect())
    });
    let schema = chain.schema();
    (files.collect(), schema.columns.iter().map(describe_column).collect(), schema.refused.clone())
}

fn describe_column(column: &Column) -> ColumnOf {
    let (name, kind) = (column.name.clone(), column.kind.name().to_owned());
    let default = column.default.map(DefaultOf::of).into_iter().collect();
    (name, kind, column.is_optional, column.collection.is_some(), default)
}

fn describe_friend(friend: &Friend) -> FriendOf {
    let slice =
        |slice: &Slice| (slice.place.clone(), version_of(&*slice.file), slice.rows.start, slice.rows.end);
    let columns = friend.columns().iter().map(describe_column).collect();
    (friend.prefix().to_owned(), columns, friend.slices().iter().map(slice).collect())
}

fn column_of((name, kind, is_optional, is_list, default): ColumnOf) -> Result<Column> {
    let kind = Kind::named(&kind).ok_or_else(|| {
        Failure::invalid(format!("column {name:?} is of unknown type {kind:?}"))
            .hint("workers and client need the same version of this package")
    })?;
    let collection = is_list.then(|| collection_of(&name).to_owned());
    let default = default.into_iter().next().map(DefaultOf::value);
    Ok(Column { name, ty: kind.ty(), kind, is_optional, collection, default })
}

/// Opens the files of a friend.
fn friend_of((prefix, columns, files): FriendOf, numbers: &[String], user: &str) -> Result<Friend> {
    let slice = |(place, version, start, end): (String, String, u64, u64)| {
        Ok(Slice { file: opened(&place, &version, numbers, user)?, rows: start..end, place })
    };
    let columns = columns.into_iter().map(column_of).collect::<Result<Vec<_>>>()?;
    Friend::new(files.into_iter().map(slice).collect::<Result<_>>()?, &prefix, &columns)
}

/// Opens files that a description names; columns among `numbers` are read as floats.
pub(crate) fn open(
    files: Vec<FileToOpen>,
    columns: Vec<ColumnOf>,
    refused: Vec<(String, String)>,
    numbers: &[String],
    user: &str,
) -> Result<ntuple::Chain> {
    let columns = columns.into_iter().map(column_of).collect::<Result<_>>()?;
    let open = |(place, version, friends): FileToOpen| {
        let main = opened(&place, &version, numbers, user)?;
        if friends.is_empty() {
            return Ok(main);
        }
        let friends = friends.into_iter().map(|friend| friend_of(friend, numbers, user));
        Ok(Arc::new(Befriended::new(main, friends.collect::<Result<_>>()?)?) as Arc<dyn DataFile>)
    };
    let files = files.into_iter().map(open).collect::<Result<_>>()?;
    ntuple::Chain::of_files(files, Schema { columns, refused })
}

fn opened(place: &str, version: &str, numbers: &[String], user: &str) -> Result<Arc<dyn DataFile>> {
    // What proves who asks changes with time, and the file does not.
    let bare = place.split_once('?').filter(|_| place.contains("://")).map_or(place, |(bare, _)| bare);
    let lock = || OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut known = lock();
    let is_it = |one: &Opened| one.place == bare && one.version == version && one.numbers == numbers;
    let found = known.iter().position(is_it);
    if let Some(found) = found.and_then(|index| known.remove(index)) {
        let file = Arc::clone(&found.file);
        known.push_back(found);
        return Ok(file);
    }
    drop(known);
    let (of_file, tree) = match version.split_once('\n') {
        Some((of_file, tree)) => (of_file, Some(tree)),
        None => (version, None),
    };
    let source = source::open(place, user)?;
    if source.version() != of_file {
        let what = format!("{}: is not the file that the n-tuple was opened with", source.name());
        return Err(Failure::invalid(what)
            .hint("open the n-tuple again; every worker must see the same files under these names"));
    }
    let file = tree::open(source, OpenOptions { tree, numbers })?;
    let mut known = lock();
    let (place, version, numbers) = (bare.to_owned(), version.to_owned(), numbers.to_vec());
    known.push_back(Opened { place, version, numbers, file: Arc::clone(&file) });
    if known.len() > OPENED_MAX {
        known.pop_front();
    }
    Ok(file)
}
