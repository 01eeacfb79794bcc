//! Parts of a chain that another process opened as a whole.

use crate::{source, tree};
use base::{Failure, Result};
use ntuple::{Column, DataFile, Kind, Schema, column::collection_of};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

/// Name, NumPy type, whether values can be missing, and whether each entry has a list of them.
pub(crate) type ColumnOf = (String, String, bool, bool);
/// Files with place, version and rows of their row groups; columns; names of unusable columns and why.
pub(crate) type Description = (Vec<(String, String, Vec<usize>)>, Vec<ColumnOf>, Vec<(String, String)>);

/// Files that stay opened between tasks: opening one reads its footer, and a worker gets many parts of the same files.
const OPENED_MAX: usize = 256;

/// Place and version of a file, and the file.
type Opened = (String, String, Arc<dyn DataFile>);

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
    let files = chain.files().zip(places).map(|(file, place)| {
        (place.clone(), version_of(file), (0..file.row_groups()).map(|group| file.rows(group)).collect())
    });
    let schema = chain.schema();
    let columns = schema.columns.iter();
    let columns = columns.map(|column| {
        let (name, kind) = (column.name.clone(), column.kind.name().to_owned());
        (name, kind, column.is_optional, column.collection.is_some())
    });
    (files.collect(), columns.collect(), schema.refused.clone())
}

/// Opens files that a description names.
pub(crate) fn open(
    files: &[(String, String)],
    columns: Vec<ColumnOf>,
    refused: Vec<(String, String)>,
    user: &str,
) -> Result<ntuple::Chain> {
    let column = |(name, kind, is_optional, is_list): ColumnOf| {
        let kind = Kind::named(&kind).ok_or_else(|| {
            Failure::invalid(format!("column {name:?} is of unknown type {kind:?}"))
                .hint("workers and client need the same version of this package")
        })?;
        let collection = is_list.then(|| collection_of(&name).to_owned());
        Ok(Column { name, ty: kind.ty(), kind, is_optional, collection })
    };
    let columns = columns.into_iter().map(column).collect::<Result<_>>()?;
    let files = files.iter().map(|(place, version)| opened(place, version, user)).collect::<Result<_>>()?;
    ntuple::Chain::of_files(files, Schema { columns, refused })
}

fn opened(place: &str, version: &str, user: &str) -> Result<Arc<dyn DataFile>> {
    // What proves who asks changes with time, and the file does not.
    let bare = place.split_once('?').filter(|_| place.contains("://")).map_or(place, |(bare, _)| bare);
    let lock = || OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut known = lock();
    let found = known.iter().position(|(place, known, _)| place == bare && known == version);
    if let Some(found) = found.and_then(|index| known.remove(index)) {
        let file = Arc::clone(&found.2);
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
    let file = tree::open(source, tree)?;
    let mut known = lock();
    known.push_back((bare.to_owned(), version.to_owned(), Arc::clone(&file)));
    if known.len() > OPENED_MAX {
        known.pop_front();
    }
    Ok(file)
}
