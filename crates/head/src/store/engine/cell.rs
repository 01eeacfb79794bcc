//! Values of statements and rows.

use super::super::{StoreError, StoreResult};

/// A value; texts and blobs are borrowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::store) enum Cell<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a str),
    Blob(&'a [u8]),
    /// Parameters of queries that PostgreSQL alone is asked.
    Integers(&'a [i64]),
    Texts(&'a [&'a str]),
}

impl Cell<'_> {
    /// A number that the head gave.
    pub(in crate::store) fn id(id: u64) -> Self {
        Self::Integer(id as i64)
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Integer(_) => "an integer",
            Self::Real(_) => "a number",
            Self::Text(_) => "text",
            Self::Blob(_) => "bytes",
            Self::Integers(_) | Self::Texts(_) => "a list",
        }
    }
}

/// What can be given to a statement.
pub(in crate::store) trait ToCell {
    fn cell(&self) -> Cell<'_>;
}

macro_rules! integers {
    ($($integer:ty)*) => { $(
        impl ToCell for $integer {
            fn cell(&self) -> Cell<'_> {
                Cell::Integer(i64::from(*self))
            }
        }

        impl FromCell<'_> for $integer {
            fn from_cell(cell: Cell<'_>) -> Option<Self> {
                match cell {
                    Cell::Integer(value) => value.try_into().ok(),
                    _ => None,
                }
            }
        }
    )* };
}
integers!(i64 i32 u32 u16 u8);

impl ToCell for u64 {
    /// Nothing that the facility counts comes near the largest number of a database; what does is stored as that.
    fn cell(&self) -> Cell<'_> {
        Cell::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
    }
}

impl ToCell for usize {
    fn cell(&self) -> Cell<'_> {
        Cell::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
    }
}

impl ToCell for bool {
    fn cell(&self) -> Cell<'_> {
        Cell::Integer(i64::from(*self))
    }
}

impl ToCell for f64 {
    fn cell(&self) -> Cell<'_> {
        Cell::Real(*self)
    }
}

impl ToCell for str {
    fn cell(&self) -> Cell<'_> {
        Cell::Text(self)
    }
}

impl ToCell for String {
    fn cell(&self) -> Cell<'_> {
        Cell::Text(self)
    }
}

impl ToCell for [u8] {
    fn cell(&self) -> Cell<'_> {
        Cell::Blob(self)
    }
}

impl<T: ToCell> ToCell for Option<T> {
    fn cell(&self) -> Cell<'_> {
        self.as_ref().map_or(Cell::Null, ToCell::cell)
    }
}

impl<T: ToCell + ?Sized> ToCell for &T {
    fn cell(&self) -> Cell<'_> {
        (*self).cell()
    }
}

/// What can be read from a row.
pub(in crate::store) trait FromCell<'a>: Sized {
    /// `None`: the cell holds something else.
    fn from_cell(cell: Cell<'a>) -> Option<Self>;
}

impl FromCell<'_> for u64 {
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        i64::from_cell(cell)?.try_into().ok()
    }
}

impl FromCell<'_> for usize {
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        i64::from_cell(cell)?.try_into().ok()
    }
}

impl FromCell<'_> for bool {
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        i64::from_cell(cell).map(|value| value != 0)
    }
}

impl FromCell<'_> for f64 {
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        match cell {
            Cell::Real(value) => Some(value),
            Cell::Integer(value) => Some(value as f64),
            _ => None,
        }
    }
}

impl<'a> FromCell<'a> for &'a str {
    fn from_cell(cell: Cell<'a>) -> Option<Self> {
        match cell {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl<'a> FromCell<'a> for &'a [u8] {
    fn from_cell(cell: Cell<'a>) -> Option<Self> {
        match cell {
            Cell::Blob(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl FromCell<'_> for String {
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        <&str>::from_cell(cell).map(str::to_owned)
    }
}

impl<'a, T: FromCell<'a>> FromCell<'a> for Option<T> {
    fn from_cell(cell: Cell<'a>) -> Option<Self> {
        match cell {
            Cell::Null => Some(None),
            cell => T::from_cell(cell).map(Some),
        }
    }
}

/// The cells of a row, as the engine has them.
pub(in crate::store) trait Cells {
    fn cell(&self, column: usize) -> StoreResult<Cell<'_>>;
}

/// A row of a query.
pub(in crate::store) struct Row<'a>(pub(super) &'a dyn Cells);

impl Row<'_> {
    /// The cell of a column, whatever it holds.
    pub(in crate::store) fn cell(&self, column: usize) -> StoreResult<Cell<'_>> {
        self.0.cell(column)
    }

    /// Reads a column, counted from 0.
    pub(in crate::store) fn get<'b, T: FromCell<'b>>(&'b self, column: usize) -> StoreResult<T> {
        let cell = self.0.cell(column)?;
        T::from_cell(cell).ok_or_else(|| {
            let cause = format!("{} where {} was expected", cell.kind(), std::any::type_name::<T>());
            damaged(column, cause)
        })
    }

    /// Reads a text and makes something of it.
    pub(in crate::store) fn parse<T, E: std::fmt::Display>(
        &self,
        column: usize,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> StoreResult<T> {
        parse(self.get(column)?).map_err(|cause| damaged(column, cause.to_string()))
    }

    /// Reads bytes and makes something of them.
    pub(in crate::store) fn parse_bytes<T, E: std::fmt::Display>(
        &self,
        column: usize,
        parse: impl FnOnce(&[u8]) -> Result<T, E>,
    ) -> StoreResult<T> {
        parse(self.get(column)?).map_err(|cause| damaged(column, cause.to_string()))
    }
}

fn damaged(column: usize, cause: String) -> StoreError {
    StoreError::Damaged { what: format!("column {column} of a row"), cause }
}

/// The parameters of a statement: a tuple.
pub(in crate::store) trait Params {
    fn with<Out>(&self, give: impl FnOnce(&[Cell<'_>]) -> Out) -> Out;
}

impl<P: Params> Params for &P {
    fn with<Out>(&self, give: impl FnOnce(&[Cell<'_>]) -> Out) -> Out {
        (*self).with(give)
    }
}

impl Params for () {
    fn with<Out>(&self, give: impl FnOnce(&[Cell<'_>]) -> Out) -> Out {
        give(&[])
    }
}

macro_rules! params {
    ($($kind:ident $index:tt),*) => {
        impl<$($kind: ToCell),*> Params for ($($kind,)*) {
            fn with<Out>(&self, give: impl FnOnce(&[Cell<'_>]) -> Out) -> Out {
                give(&[$(self.$index.cell()),*])
            }
        }
    };
}
params!(A 0);
params!(A 0, B 1);
params!(A 0, B 1, C 2);
params!(A 0, B 1, C 2, D 3);
params!(A 0, B 1, C 2, D 3, E 4);
params!(A 0, B 1, C 2, D 3, E 4, F 5);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15, Q 16);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15, Q 16, R 17);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15, Q 16, R 17, S 18);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15, Q 16, R 17, S 18, T 19);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15, Q 16, R 17, S 18, T 19, U 20);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15, Q 16, R 17, S 18, T 19, U 20, V 21);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15, Q 16, R 17, S 18, T 19, U 20, V 21, W 22);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15, Q 16, R 17, S 18, T 19, U 20, V 21, W 22, X 23);
