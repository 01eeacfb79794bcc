//! Friends: files with columns for the entries of another file, entry by entry.
//!
//! Whoever computes a variable once, such as the answer of a network, keeps it in files of its own. Their row groups need not
//! be those of the main file, so the rows of one of its row groups may come from several row groups of several files.

use super::{Array, Column, ColumnCache, DataFile, FileColumn, Kind, Values};
use base::{Failure, Result};
use std::{ops::Range, sync::Arc};

/// Rows of a file that stand beside rows of a main file.
#[derive(Debug, Clone)]
pub struct Slice {
    /// The file.
    pub file: Arc<dyn DataFile>,
    /// Which of its rows.
    pub rows: Range<u64>,
    /// Where another process finds it; only handed on.
    pub place: String,
}

/// The files that have some columns for all entries of one main file.
#[derive(Debug, Clone)]
pub struct Friend {
    /// Its rows in the order of the main file.
    slices: Vec<Slice>,
    /// What stands in front of the names of its columns.
    prefix: String,
    /// As its chain has them, without the prefix.
    columns: Vec<Column>,
    /// Of each column, its index in the file of each slice.
    indices: Vec<Vec<usize>>,
}

/// A file with those that have further columns for its entries.
#[derive(Debug)]
pub struct Befriended {
    main: Arc<dyn DataFile>,
    friends: Vec<Friend>,
    columns: Vec<FileColumn>,
    /// Of the columns of friends, in their order: which friend, and which of its columns.
    places: Vec<(usize, usize)>,
    identity: Arc<str>,
    version: String,
}

impl Friend {
    /// The columns `schema` of `slices`, which are of one chain, under names with a prefix.
    pub fn new(slices: Vec<Slice>, prefix: &str, schema: &[Column]) -> Result<Self> {
        let find = |column: &Column| {
            let index = |slice: &Slice| {
                let found = slice.file.columns().iter().position(|own| own.name() == column.name);
                found.ok_or_else(|| {
                    let (file, name) = (slice.file.name(), &column.name);
                    Failure::invalid(format!(
                        "{file}: no column {name:?}, which other files of the friend have"
                    ))
                    .hint("friends need every column in every file")
                })
            };
            slices.iter().map(index).collect::<Result<Vec<_>>>()
        };
        let indices = schema.iter().map(find).collect::<Result<_>>()?;
        Ok(Self { slices, prefix: prefix.to_owned(), columns: schema.to_vec(), indices })
    }

    /// Its rows.
    #[must_use]
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// What stands in front of the names of its columns.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Its columns, without the prefix.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The values of a column for some rows of the main file.
    fn read(&self, rows: Range<u64>, column: usize) -> Result<Values> {
        let kind = self.columns[column].kind;
        let mut found = Gathered { all: Array::empty(kind).into(), ends: None };
        let mut begin = 0;
        for (slice, index) in self.slices.iter().zip(&self.indices[column]) {
            // In rows of the main file.
            let (start, end) =
                (begin.max(rows.start), (begin + slice.rows.end - slice.rows.start).min(rows.end));
            if start < end {
                let shift = |row: u64| row - begin + slice.rows.start;
                found.take(&*slice.file, shift(start)..shift(end), *index, kind)?;
            }
            begin += slice.rows.end - slice.rows.start;
        }
        Ok(found.finish())
    }
}

/// Rows that were put together so far.
struct Gathered {
    all: Values,
    /// Where the list of each row ends.
    ends: Option<Vec<u32>>,
}

impl Gathered {
    fn take(&mut self, file: &dyn DataFile, rows: Range<u64>, column: usize, kind: Kind) -> Result<()> {
        let mut begin = 0;
        for group in 0..file.row_groups() {
            let length = file.rows(group) as u64;
            let (start, end) = (begin.max(rows.start), (begin + length).min(rows.end));
            if start < end {
                let (identity, cached_as) = file.cache_key(column);
                let values = match file.read_nothing(group, column, kind) {
                    Some(nothing) => Arc::new(nothing),
                    // Neighbouring row groups of the main file may need the same one.
                    None => {
                        ColumnCache::shared().get(identity, group, cached_as, || file.read(group, column))?
                    }
                };
                self.append(&values, (start - begin) as usize..(end - begin) as usize);
            }
            begin += length;
        }
        Ok(())
    }

    fn append(&mut self, values: &Values, rows: Range<usize>) {
        let elements = match &values.offsets {
            None => rows,
            Some(offsets) => {
                let ends = self.ends.get_or_insert_with(|| vec![0]);
                let (first, before) = (offsets[rows.start], ends.last().copied().unwrap_or(0));
                ends.extend(offsets[rows.start + 1..=rows.end].iter().map(|end| end - first + before));
                first as usize..offsets[rows.end] as usize
            }
        };
        self.all.append(Values {
            array: values.array.slice(elements.clone()),
            present: values.present.as_ref().map(|present| present[elements].to_vec()),
            offsets: None,
        });
    }

    fn finish(self) -> Values {
        Values { offsets: self.ends.map(Arc::new), ..self.all.settled() }
    }
}

impl Befriended {
    /// Puts the columns of friends beside those of `main`.
    pub fn new(main: Arc<dyn DataFile>, friends: Vec<Friend>) -> Result<Self> {
        let mut columns = main.columns().to_vec();
        let (mut places, mut identity, mut version) =
            (Vec::new(), main.identity().to_string(), main.version());
        for (number, friend) in friends.iter().enumerate() {
            for (index, column) in friend.columns.iter().enumerate() {
                let name = format!("{}{}", friend.prefix, column.name);
                if columns.iter().any(|known| known.name() == name) {
                    return Err(Failure::invalid(format!(
                        "{}: a friend has a column {name:?}, too",
                        main.name()
                    ))
                    .hint("give the columns of the friend a prefix, or write it without that column"));
                }
                let mut column_here = FileColumn::of_kind(&name, column.kind, column.collection.is_some());
                column_here.is_optional = column.is_optional;
                columns.push(column_here);
                places.push((number, index));
            }
            // Chains of the same files can give other columns, or the same ones in another kind.
            let own: Vec<_> = friend.columns.iter().map(|one| (&one.name, one.kind)).collect();
            identity += &format!("+{own:?}");
            for Slice { file, rows, .. } in &friend.slices {
                identity += &format!("+{}[{}..{}]", file.identity(), rows.start, rows.end);
                version += &format!("+{}[{}..{}]", file.version(), rows.start, rows.end);
            }
        }
        Ok(Self { main, friends, columns, places, identity: identity.into(), version })
    }
}

impl DataFile for Befriended {
    fn name(&self) -> &str {
        self.main.name()
    }

    fn identity(&self) -> &Arc<str> {
        &self.identity
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    fn tree(&self) -> Option<&str> {
        self.main.tree()
    }

    fn friends(&self) -> Option<(&Arc<dyn DataFile>, &[Friend])> {
        Some((&self.main, &self.friends))
    }

    fn row_groups(&self) -> usize {
        self.main.row_groups()
    }

    fn rows(&self, row_group: usize) -> usize {
        self.main.rows(row_group)
    }

    fn columns(&self) -> &[FileColumn] {
        &self.columns
    }

    fn check(&self) -> Result<()> {
        self.main.check()?;
        self.friends.iter().flat_map(|friend| &friend.slices).try_for_each(|slice| slice.file.check())
    }

    fn is_remote(&self) -> bool {
        self.main.is_remote()
            || self.friends.iter().flat_map(|friend| &friend.slices).any(|slice| slice.file.is_remote())
    }

    fn cache_key(&self, column: usize) -> (&Arc<str>, usize) {
        if column < self.main.columns().len() {
            self.main.cache_key(column)
        } else {
            (&self.identity, column)
        }
    }

    fn read_nothing(&self, row_group: usize, column: usize, kind: Kind) -> Option<Values> {
        let is_own = column < self.main.columns().len();
        is_own.then(|| self.main.read_nothing(row_group, column, kind)).flatten()
    }

    fn read(&self, row_group: usize, column: usize) -> Result<Values> {
        let Some(beyond) = column.checked_sub(self.main.columns().len()) else {
            return self.main.read(row_group, column);
        };
        let (friend, column) = self.places[beyond];
        let start: u64 = (0..row_group).map(|group| self.main.rows(group) as u64).sum();
        let rows = self.main.rows(row_group);
        let values = self.friends[friend].read(start..start + rows as u64, column)?;
        if values.rows() != rows {
            return Err(Failure::invalid(format!(
                "{}: row group {row_group}: its friend has {} for {rows}",
                self.name(),
                entries(values.rows() as u64)
            )));
        }
        Ok(values)
    }
}

fn entries(count: u64) -> String {
    base::units::counted(count, "entry", "entries")
}

/// Divides the rows of the files of a friend among main files of so many entries each.
pub fn divide(main: &[u64], friend: &[(Arc<dyn DataFile>, String)]) -> Result<Vec<Vec<Slice>>> {
    let (wanted, found): (u64, u64) =
        (main.iter().sum(), friend.iter().map(|(file, _)| file.entries()).sum());
    if wanted != found {
        return Err(Failure::invalid(format!("n-tuple of {} has a friend of {found}", entries(wanted)))
            .hint("a friend has one entry for each entry, in the same order"));
    }
    let mut files = friend.iter().map(|(file, place)| (file, place, file.entries()));
    let mut now = files.next();
    let mut used = 0;
    let mut all = Vec::new();
    for entries in main {
        let mut left = *entries;
        let mut slices = Vec::new();
        while let (true, Some((file, place, length))) = (left > 0, now) {
            let taken = left.min(length - used);
            if taken > 0 {
                let rows = used..used + taken;
                slices.push(Slice { file: Arc::clone(file), rows, place: place.clone() });
            }
            (left, used) = (left - taken, used + taken);
            if used == length {
                (now, used) = (files.next(), 0);
            }
        }
        all.push(slices);
    }
    Ok(all)
}

#[cfg(test)]
#[path = "friend_tests.rs"]
mod tests;
