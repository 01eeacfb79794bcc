//! What the columns of a chain are, from what each file declares. Statistics play no part in it, and neither do files
//! without entries: a chain means the same however its entries are spread over files.

use crate::column::{Column, DataFile, FileColumn, Kind, Schema, collection_of};
use base::{Failure, Result};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// A column of the chain, and which column of the file at hand it is.
struct ChainColumn<'a> {
    /// As the first file whose values are not all missing declares it, and the name of that file.
    first: &'a FileColumn,
    file: &'a str,
    kind: Kind,
    is_optional: bool,
    /// Why it cannot be used in one of the files.
    refused: Option<String>,
}

/// The schema of all files, and for each file the index of each column of the schema.
pub(super) fn agree(files: &[Arc<dyn DataFile>]) -> Result<(Schema, Vec<Vec<usize>>)> {
    let Some((first, rest)) = files.split_first() else { return Ok((Schema::default(), Vec::new())) };
    let mut joint: Vec<ChainColumn<'_>> =
        first.columns().iter().map(|column| ChainColumn::new(column, &**first)).collect();
    let mut indices = vec![(0..joint.len()).collect::<Vec<_>>()];
    for file in rest {
        indices.push(join(&mut joint, &**file, first.name())?);
    }
    let mut schema = Schema::default();
    let mut used = Vec::new();
    for (number, column) in joint.iter().enumerate() {
        let name = column.first.name.clone();
        let untyped = column.first.is_all_missing().then_some("has no type: all its values are missing");
        match column.refused.as_deref().or(untyped) {
            Some(why) => schema.refused.push((name, why.to_owned())),
            None => {
                let (kind, is_optional) = (column.kind, column.is_optional);
                let collection = column.first.is_list.then(|| collection_of(&name).to_owned());
                schema.columns.push(Column { name, ty: kind.ty(), kind, is_optional, collection });
                used.push(number);
            }
        }
    }
    let indices = indices.iter().map(|own| used.iter().map(|number| own[*number]).collect()).collect();
    Ok((schema, indices))
}

/// For each of some files of a chain the index of each column of its schema.
pub(super) fn find(files: &[Arc<dyn DataFile>], schema: &Schema) -> Result<Vec<Vec<usize>>> {
    let find_column = |file: &dyn DataFile, column: &Column| {
        let is_it = |own: &FileColumn| {
            own.name == column.name
                && (own.is_list == column.collection.is_some() || own.is_all_missing())
                && (own.is_all_missing() || own.kind().is_ok_and(|kind| column.kind.holds(kind)))
        };
        file.columns().iter().position(is_it).ok_or_else(|| {
            Failure::invalid(format!("{}: column {:?} is not that of the chain", file.name(), column.name))
                .hint("workers and client need the same version of this package")
        })
    };
    let find_all =
        |file: &Arc<dyn DataFile>| schema.columns.iter().map(|column| find_column(&**file, column)).collect();
    files.iter().map(find_all).collect()
}

impl<'a> ChainColumn<'a> {
    fn new(first: &'a FileColumn, file: &'a dyn DataFile) -> Self {
        // All that a column of nothing but missing values says is that values can be missing.
        let (kind, refused) = match first.kind() {
            Ok(kind) => (kind, None),
            Err(why) => (Kind::Bool, Some(why.to_owned())),
        };
        Self { first, file: file.name(), kind, is_optional: first.is_optional, refused }
    }

    /// Takes in what `file` declares of the column.
    fn take(&mut self, own: &'a FileColumn, file: &'a dyn DataFile) -> Result<()> {
        let is_alike =
            self.first.is_list == own.is_list || self.first.is_all_missing() || own.is_all_missing();
        if !(is_alike && self.first.declared.fits(&own.declared)) {
            return Err(Failure::invalid(format!(
                "{}: column {:?} is {}, in {} it is {}",
                file.name(),
                own.name,
                own.description(),
                self.file,
                self.first.description()
            ))
            .hint("chain files of one kind, or convert the column in one of them"));
        }
        self.is_optional |= own.is_optional;
        match own.kind() {
            Err(why) => {
                self.refused.get_or_insert_with(|| format!("{why}, in {}", file.name()));
            }
            Ok(_) if own.is_all_missing() => {}
            Ok(kind) if self.first.is_all_missing() => {
                (self.first, self.file, self.kind) = (own, file.name(), kind);
            }
            Ok(kind) => self.kind = wider(self.kind, kind),
        }
        Ok(())
    }
}

/// The kind that holds the values of both; they fit each other.
fn wider(a: Kind, b: Kind) -> Kind {
    match (a, b) {
        (Kind::F64, _) | (_, Kind::F64) => Kind::F64,
        (Kind::I64, _) | (_, Kind::I64) => Kind::I64,
        (a, b) => {
            debug_assert_eq!(a, b, "other kinds fit only themselves");
            a
        }
    }
}

/// Finds the columns of the chain in `file`. Those that no file can use need not be there.
fn join<'a>(joint: &mut [ChainColumn<'a>], file: &'a dyn DataFile, first: &str) -> Result<Vec<usize>> {
    // Of two columns of one name either stands for both: neither can be used.
    let own: HashMap<&str, usize> =
        file.columns().iter().enumerate().map(|(index, column)| (column.name.as_str(), index)).collect();
    let mut indices = Vec::with_capacity(joint.len());
    for column in joint.iter_mut() {
        let name = column.first.name.as_str();
        match own.get(name) {
            Some(index) => {
                column.take(&file.columns()[*index], file)?;
                indices.push(*index);
            }
            // It is not read.
            None if column.refused.is_some() => indices.push(0),
            None => {
                let what = format!("{}: no column {name:?}, which {first} has", file.name());
                return Err(Failure::invalid(what).hint("chain files of one kind"));
            }
        }
    }
    let known: HashSet<&str> = joint.iter().map(|column| column.first.name.as_str()).collect();
    let is_extra = |column: &&FileColumn| column.kind().is_ok() && !known.contains(column.name.as_str());
    match file.columns().iter().find(is_extra) {
        None => Ok(indices),
        Some(extra) => {
            let what = format!("{}: column {:?} is not in {first}", file.name(), extra.name);
            Err(Failure::invalid(what).hint("chain files of one kind"))
        }
    }
}
