//! What all kinds of files have in common: columns, kept in row groups.

use super::{Friend, Kind, Values, declared::Declared};
use base::{Failure, Result};
use std::sync::Arc;

/// A column as one file has it.
#[derive(Debug, Clone)]
pub struct FileColumn {
    /// Its name.
    pub(crate) name: String,
    /// What the file declares it to be.
    pub(crate) declared: Declared,
    /// Whether the file declares that values can be missing. Statistics say nothing of it: they may be absent.
    pub(crate) is_optional: bool,
    /// Whether it has a list of values for each entry.
    pub(crate) is_list: bool,
    /// How its values are kept, or why it cannot be used.
    pub(crate) kind: Result<Kind, String>,
}

impl FileColumn {
    /// A column of values that are never missing.
    #[must_use]
    pub fn of_kind(name: &str, kind: Kind, is_list: bool) -> Self {
        let declared = match kind {
            Kind::F32 => Declared::Float(32),
            Kind::F64 => Declared::Float(64),
            Kind::I32 => Declared::Int { bits: 32, is_signed: true },
            Kind::I64 => Declared::Int { bits: 64, is_signed: true },
            Kind::Bool => Declared::Bool,
        };
        Self { name: name.to_owned(), declared, is_optional: false, is_list, kind: Ok(kind) }
    }

    /// A column that cannot be used: what it is, and why.
    #[must_use]
    pub fn refused(name: &str, what: &str, why: &str) -> Self {
        let declared = Declared::Other(what.to_owned(), "is not numeric");
        Self {
            name: name.to_owned(),
            declared,
            is_optional: false,
            is_list: false,
            kind: Err(why.to_owned()),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How its values are kept, or why it cannot be used.
    pub fn kind(&self) -> Result<Kind, &str> {
        self.kind.as_ref().copied().map_err(String::as_str)
    }

    /// What the file declares it to be, as error messages call it.
    pub(crate) fn description(&self) -> String {
        if self.is_list { format!("list of {}", self.declared) } else { self.declared.to_string() }
    }

    /// Whether it says of itself that it has no values: it goes with every other.
    pub(crate) fn is_all_missing(&self) -> bool {
        self.declared == Declared::Null && self.kind.is_ok()
    }
}

/// A file of columns. Each column is kept in as many parts as the file has row groups: runs of entries.
pub trait DataFile: Send + Sync {
    /// What error messages call the file.
    fn name(&self) -> &str;

    /// Key of its columns in the cache: equal for equal content only.
    fn identity(&self) -> &Arc<str>;

    /// Equal on every host that sees the same content under its name.
    fn version(&self) -> String;

    /// Which of the n-tuples of the file it is, if the file has names for them.
    fn tree(&self) -> Option<&str> {
        None
    }

    /// Number of row groups.
    fn row_groups(&self) -> usize;

    /// Rows of one row group.
    fn rows(&self, row_group: usize) -> usize;

    /// The columns as the file declares them, in its order.
    fn columns(&self) -> &[FileColumn];

    /// Fails if the name of the file leads to other content than when it was opened.
    fn check(&self) -> Result<()>;

    /// Whether that waits for an answer from elsewhere.
    fn is_remote(&self) -> bool {
        false
    }

    /// Which file and number a column is cached under: the same column may be read in two ways.
    fn cache_key(&self, column: usize) -> (&Arc<str>, usize) {
        (self.identity(), column)
    }

    /// The file itself and its friends, if it has some.
    fn friends(&self) -> Option<(&Arc<dyn DataFile>, &[Friend])> {
        None
    }

    /// The values of one column of one row group if no byte has to be read for them.
    fn read_nothing(&self, _row_group: usize, _column: usize, _kind: Kind) -> Option<Values> {
        None
    }

    /// Decodes one column of one row group.
    fn read(&self, row_group: usize, column: usize) -> Result<Values>;

    /// Rows of the file.
    fn entries(&self) -> u64 {
        (0..self.row_groups()).map(|group| self.rows(group) as u64).sum()
    }
}

impl std::fmt::Debug for dyn DataFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataFile").field("name", &self.name()).field("entries", &self.entries()).finish()
    }
}

/// Fails if a file has more rows in a row group than memory may be asked for.
pub(super) fn check_rows(name: &str, rows: u64) -> Result<()> {
    if rows <= ROW_GROUP_ROWS_MAX {
        return Ok(());
    }
    Err(Failure::unsupported(format!("{name}: row group of {rows} rows"))
        .hint(format!("write row groups of at most {ROW_GROUP_ROWS_MAX} rows")))
}

/// Most rows of a row group: run-length encoding makes any number of values of a few bytes, so memory needs a bound.
const ROW_GROUP_ROWS_MAX: u64 = 1 << 26;
