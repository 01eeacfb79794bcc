//! What the columns of a chain are, from what each file declares. Statistics play no part in it, and neither do files
//! without entries: a chain means the same however its entries are spread over files.

use crate::column::{Column, DataFile, DefaultValue, Defaults, FileColumn, Kind, Schema, collection_of};
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

/// Where a file has each column of the schema; `None` for those that it lacks.
pub(super) type Indices = Vec<Option<usize>>;

/// The schema of all files, and where each file has its columns.
pub(super) fn agree(files: &[Arc<dyn DataFile>], defaults: &Defaults) -> Result<(Schema, Vec<Indices>)> {
    let Some((first, rest)) = files.split_first() else { return Ok((Schema::default(), Vec::new())) };
    let mut joint: Vec<ChainColumn<'_>> =
        first.columns().iter().map(|column| ChainColumn::new(column, &**first)).collect();
    let mut indices = vec![(0..joint.len()).map(Some).collect::<Indices>()];
    for file in rest {
        indices.push(join(&mut joint, &**file, first.name(), defaults)?);
    }
    for own in &mut indices {
        own.resize(joint.len(), None);
    }
    if let Some(name) = defaults.keys().find(|name| joint.iter().all(|column| column.first.name != **name)) {
        return Err(Failure::invalid(format!("no file has a column {name:?}, for which there is a default")));
    }
    let mut schema = Schema::default();
    let mut used = Vec::new();
    for (number, column) in joint.iter().enumerate() {
        let name = column.first.name.clone();
        let untyped = column.first.is_all_missing().then_some("has no type: all its values are missing");
        match column.refused.as_deref().or(untyped) {
            Some(why) => schema.refused.push((name, why.to_owned())),
            None => {
                let is_lacking = indices.iter().any(|own| own[number].is_none());
                schema.columns.push(column.finish(defaults.get(&name).copied(), is_lacking)?);
                used.push(number);
            }
        }
    }
    let indices = indices.iter().map(|own| used.iter().map(|number| own[*number]).collect()).collect();
    Ok((schema, indices))
}

/// Where each of some files of a chain has the columns of its schema.
pub(super) fn find(files: &[Arc<dyn DataFile>], schema: &Schema) -> Result<Vec<Indices>> {
    let find_column = |file: &dyn DataFile, column: &Column| {
        if column.default.is_some() && file.columns().iter().all(|own| own.name != column.name) {
            return Ok(None);
        }
        let is_it = |own: &FileColumn| {
            own.name == column.name
                && (own.is_list == column.collection.is_some() || own.is_all_missing())
                && (own.is_all_missing() || own.kind().is_ok_and(|kind| column.kind.holds(kind)))
        };
        file.columns().iter().position(is_it).map(Some).ok_or_else(|| {
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

    /// The column of the schema; if some file lacks it, it has a default.
    fn finish(&self, default: Option<DefaultValue>, is_lacking: bool) -> Result<Column> {
        let (name, mut kind, mut is_optional) = (self.first.name.clone(), self.kind, self.is_optional);
        if let Some(default) = default {
            let Some(widened) = default.widen(kind) else {
                let ty = kind.ty().name();
                return Err(Failure::invalid(format!("default {default} of column {name:?}, which is {ty}")));
            };
            if is_lacking {
                kind = widened;
                is_optional |= default == DefaultValue::Missing;
            }
        }
        let collection = self.first.is_list.then(|| collection_of(&name).to_owned());
        let default = default.filter(|_| is_lacking);
        Ok(Column { name, ty: kind.ty(), kind, is_optional, collection, default })
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

/// Finds the columns of the chain in `file`. Those that no file can use, or that have a default, need not be there.
fn join<'a>(
    joint: &mut Vec<ChainColumn<'a>>,
    file: &'a dyn DataFile,
    first: &str,
    defaults: &Defaults,
) -> Result<Indices> {
    // Of two columns of one name either stands for both: neither can be used.
    let own: HashMap<&str, usize> =
        file.columns().iter().enumerate().map(|(index, column)| (column.name.as_str(), index)).collect();
    let mut indices = Vec::with_capacity(joint.len());
    let mut lacking = Vec::new();
    for column in joint.iter_mut() {
        let name = &column.first.name;
        let found = own.get(name.as_str()).copied();
        match found {
            Some(index) => column.take(&file.columns()[index], file)?,
            // What is refused is not read.
            None if column.refused.is_some() || defaults.contains_key(name) => {}
            None => lacking.push(name.as_str()),
        }
        indices.push(found);
    }
    if !lacking.is_empty() {
        let what = format!("{}: no {}, which {first} has", file.name(), listed(&lacking));
        return Err(Failure::invalid(what).hint(HINT));
    }
    let known: HashSet<&str> = joint.iter().map(|column| column.first.name.as_str()).collect();
    let mut extra = Vec::new();
    for (index, column) in file.columns().iter().enumerate() {
        if known.contains(column.name.as_str()) {
            continue;
        }
        if defaults.contains_key(&column.name) {
            joint.push(ChainColumn::new(column, file));
            indices.push(Some(index));
        } else if column.kind().is_ok() {
            extra.push(column.name.as_str());
        }
    }
    if extra.is_empty() {
        return Ok(indices);
    }
    let verb = if extra.len() == 1 { "is" } else { "are" };
    let what = format!("{}: {} {verb} not in {first}", file.name(), listed(&extra));
    Err(Failure::invalid(what).hint(HINT))
}

/// What to do about files that differ.
const HINT: &str = "chain files of one kind, or give a default for each column that a file lacks";
/// Columns that an error message lists.
const NAMES_SHOWN: usize = 12;

/// `column "a"`, or `columns "a", "b" and 3 more`.
fn listed(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(NAMES_SHOWN).map(|name| format!("{name:?}")).collect();
    let more = match names.len().saturating_sub(NAMES_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let plural = if names.len() == 1 { "" } else { "s" };
    format!("column{plural} {}{more}", shown.join(", "))
}
