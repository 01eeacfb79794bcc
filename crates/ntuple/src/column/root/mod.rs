//! RNTuples: n-tuples of ROOT files.
//!
//! **Problem.** Experiments write ROOT files. Its library is large, in C++, and has to be there on every host.
//!
//! **Idea.** Of a ROOT file only its keys are needed: one of them is the anchor of an RNTuple, which leads to a description
//! of the columns and to their pages. A cluster is a row group. What kernels cannot use is refused by name and reason.
//!
//! **Start reading** with [`RNTuple`]; `envelope` parses the description, `schema` finds the columns, `pages` decodes.

mod block;
mod envelope;
mod keys;
mod pages;
mod schema;

use super::{
    Array, DataFile, FileColumn, Kind, Source, Values,
    cursor::{Parsed, corrupt},
    decode::spread_array,
    file::check_rows,
    guard::guarded,
};
use base::{ErrorKind, Failure, Result};
use envelope::{Cluster, Metadata};
use schema::{Access, Content, Leaf, List};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// Class of the anchor.
const ANCHOR: &str = "ROOT::RNTuple";

/// An n-tuple of a ROOT file: its path in the file, and whether it is an RNTuple or a TTree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootObject {
    /// Its path in the file.
    pub path: String,
    /// Its class.
    pub class: String,
}

impl RootObject {
    /// Whether [`RNTuple::open`] reads it.
    #[must_use]
    pub fn is_rntuple(&self) -> bool {
        self.class == ANCHOR
    }
}

/// Whether a file begins as a ROOT file does.
pub fn is_root(source: &dyn Source) -> Result<bool> {
    let mut magic = [0; 4];
    if source.len() < 4 {
        return Ok(false);
    }
    source.read_at(0, &mut magic)?;
    Ok(&magic == b"root")
}

/// The n-tuples of a ROOT file: RNTuples and TTrees.
pub fn root_objects(source: &dyn Source) -> Result<Vec<RootObject>> {
    let objects = guarded(source.name(), "keys", || keys::objects(source))?;
    let all = objects.into_iter().map(|(path, key)| RootObject { path, class: key.class });
    Ok(all.filter(|object| object.class == ANCHOR || is_tree(&object.class)).collect())
}

fn is_tree(class: &str) -> bool {
    matches!(class, "TTree" | "TNtuple" | "TNtupleD")
}

/// The object that `path` names, or the only one there is.
pub fn choose(name: &str, objects: Vec<RootObject>, path: Option<&str>) -> Result<RootObject> {
    let names: Vec<String> = objects.iter().map(|object| format!("{:?}", object.path)).collect();
    let found = match path {
        Some(path) => objects.into_iter().find(|object| object.path == path),
        None if objects.len() > 1 => {
            return Err(Failure::invalid(format!(
                "{name}: has {} n-tuples: {}",
                names.len(),
                names.join(", ")
            ))
            .hint("say which one: --tree NAME, in Python tree=\"NAME\""));
        }
        None => objects.into_iter().next(),
    };
    found.ok_or_else(|| match path {
        Some(path) if !names.is_empty() => Failure::new(
            ErrorKind::NotFound,
            format!("{name}: no n-tuple {path:?}, there are {}", names.join(", ")),
        ),
        _ => Failure::new(ErrorKind::NotFound, format!("{name}: no RNTuple or TTree in this ROOT file")),
    })
}

/// Where lists end, as long as somebody uses it.
type SharedEnds = Weak<Vec<u32>>;

/// One RNTuple of a ROOT file.
pub struct RNTuple {
    source: Arc<dyn Source>,
    identity: Arc<str>,
    path: String,
    metadata: Metadata,
    columns: Vec<FileColumn>,
    accesses: Vec<Option<Access>>,
    /// Ends of lists that are in use, by cluster and column: columns of one collection share them. Held for a look only.
    ends: Mutex<HashMap<(usize, u32), SharedEnds>>,
}

impl std::fmt::Debug for RNTuple {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (self as &dyn DataFile).fmt(f)
    }
}

impl RNTuple {
    /// Reads the description of the RNTuple at `path` of a ROOT file.
    pub fn open(source: Arc<dyn Source>, path: &str) -> Result<Self> {
        let name = source.name().to_owned();
        let metadata = guarded(&name, &format!("RNTuple {path:?}"), || {
            let objects = keys::objects(&*source)?;
            let Some(key) = objects.get(path) else { return corrupt("is no longer there") };
            envelope::metadata(&*source, &key.content(&*source)?)
        })?;
        for cluster in &metadata.clusters {
            check_rows(&name, cluster.entries)?;
        }
        let leaves = schema::leaves(&metadata.description);
        let (columns, accesses) = leaves.into_iter().map(|Leaf { about, access }| (about, access)).unzip();
        let identity = format!("{}#{path}", source.identity()).into();
        let path = path.to_owned();
        Ok(Self { source, identity, path, metadata, columns, accesses, ends: Mutex::default() })
    }

    /// The values of one column of one cluster.
    fn values(&self, number: usize, access: &Access, kind: Kind) -> Parsed<Values> {
        let cluster = &self.metadata.clusters[number];
        let rows = cluster.entries as usize;
        let (offsets, slots) = match &access.list {
            None => (None, rows),
            Some(List::Ends(columns)) => {
                let ends = self.ends(number, columns, rows)?;
                let last = ends.last().copied().unwrap_or(0) as usize;
                (Some(ends), last)
            }
            Some(List::Fixed(length)) => {
                let slots =
                    cluster.entries.checked_mul(*length).filter(|slots| *slots <= pages::ELEMENTS_MAX);
                let Some(slots) = slots else { return corrupt(format!("arrays of {length} elements")) };
                let ends = (0..=cluster.entries).map(|row| (row * length) as u32).collect();
                (Some(Arc::new(ends)), slots as usize)
            }
        };
        let present = match &access.optional {
            None => None,
            Some(columns) => Some(presence(&self.ends(number, columns, slots)?)?),
        };
        let stored =
            present.as_ref().map_or(slots, |present| present.iter().map(|one| usize::from(*one)).sum());
        let array = match &access.content {
            Content::Values(columns) => self.numbers(cluster, columns, stored, kind)?,
            Content::Lengths(columns) => {
                let ends = self.ends(number, columns, stored)?;
                Array::I32(ends.windows(2).map(|pair| (pair[1] - pair[0]).cast_signed()).collect())
            }
        };
        let values = spread_array(array, present);
        Ok(Values { offsets, ..values }.settled())
    }

    fn numbers(&self, cluster: &Cluster, columns: &[u32], expected: usize, kind: Kind) -> Parsed<Array> {
        let Some((id, pages)) = cluster.active(columns) else { return Ok(Array::zeros(kind, expected)) };
        let record = &self.metadata.description.columns[id as usize];
        let zeros = missing_in_front(pages::elements(pages), expected, record.is_deferred)?;
        pages::numbers(&*self.source, record, pages, zeros, kind)
    }

    /// Where lists end: a zero, and the end of each.
    fn ends(&self, number: usize, columns: &[u32], expected: usize) -> Parsed<Arc<Vec<u32>>> {
        let Some((id, pages)) = self.metadata.clusters[number].active(columns) else {
            return Ok(Arc::new(vec![0; expected + 1]));
        };
        let lock = || self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ends) = lock().get(&(number, id)).and_then(Weak::upgrade) {
            // Columns of one collection agree in its length; a damaged description need not.
            if ends.len() != expected + 1 {
                return corrupt(format!("{} elements of {expected}", ends.len() - 1));
            }
            return Ok(ends);
        }
        let record = &self.metadata.description.columns[id as usize];
        let zeros = missing_in_front(pages::elements(pages), expected, record.is_deferred)?;
        let ends = Arc::new(pages::ends(&*self.source, record, pages, zeros)?);
        let mut known = lock();
        known.retain(|_, ends| ends.strong_count() > 0);
        known.insert((number, id), Arc::downgrade(&ends));
        Ok(ends)
    }
}

/// Elements that a column lacks because it was added when others were there already.
fn missing_in_front(there: u64, expected: usize, is_deferred: bool) -> Parsed<usize> {
    match (expected as u64).checked_sub(there) {
        Some(0) => Ok(0),
        Some(missing) if is_deferred => Ok(missing as usize),
        _ => corrupt(format!("{there} elements of {expected}")),
    }
}

/// 1 for each list of one element, 0 for each without.
fn presence(ends: &[u32]) -> Parsed<Vec<u8>> {
    let one = |pair: &[u32]| match pair[1] - pair[0] {
        length @ 0..=1 => Ok(length as u8),
        length => corrupt(format!("an optional value of {length} elements")),
    };
    ends.windows(2).map(one).collect()
}

impl Cluster {
    /// The column that has the values in this cluster; none if all were added later.
    fn active(&self, columns: &[u32]) -> Option<(u32, &envelope::Pages)> {
        let here = columns.iter().filter_map(|id| Some((*id, self.columns.get(*id as usize)?)));
        here.into_iter().find(|(_, pages)| !pages.is_suppressed)
    }
}

impl DataFile for RNTuple {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn identity(&self) -> &Arc<str> {
        &self.identity
    }

    fn version(&self) -> String {
        self.source.version()
    }

    fn tree(&self) -> Option<&str> {
        Some(&self.path)
    }

    fn row_groups(&self) -> usize {
        self.metadata.clusters.len()
    }

    fn rows(&self, row_group: usize) -> usize {
        // Checked at open.
        self.metadata.clusters[row_group].entries as usize
    }

    fn columns(&self) -> &[FileColumn] {
        &self.columns
    }

    fn check(&self) -> Result<()> {
        self.source.check()
    }

    fn is_remote(&self) -> bool {
        self.source.is_remote()
    }

    fn read(&self, row_group: usize, column: usize) -> Result<Values> {
        let about = &self.columns[column];
        let what = format!("cluster {row_group}, column {:?}", about.name);
        match (&self.accesses[column], about.kind()) {
            (Some(access), Ok(kind)) => {
                let values = guarded(self.name(), &what, || self.values(row_group, access, kind))?;
                assert_eq!(values.rows(), self.rows(row_group));
                Ok(values)
            }
            (_, kind) => {
                let why = kind.err().unwrap_or("cannot be used");
                Err(Failure::unsupported(format!("{}: {what} {why}", self.name())))
            }
        }
    }
}

/// Opens any bytes as a ROOT file and decodes every column of every RNTuple; a fuzz body.
pub fn fuzz_rntuple(data: &[u8]) {
    let source: Arc<dyn Source> = Arc::new(super::MemorySource::new("fuzz", data.to_vec()));
    for object in root_objects(&*source).unwrap_or_default().into_iter().take(4) {
        let Ok(file) = RNTuple::open(Arc::clone(&source), &object.path) else { continue };
        for cluster in 0..file.row_groups().min(4) {
            for column in 0..file.columns.len().min(16) {
                let _ = file.read(cluster, column);
            }
        }
    }
}

#[cfg(test)]
mod crafted;
#[cfg(test)]
mod tests;
