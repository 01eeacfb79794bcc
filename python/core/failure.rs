//! From failures to Python exceptions; the table of classes is `backplane/_errors.py`.

use base::Failure;
use pyo3::{exceptions::PyRuntimeError, prelude::*};

/// Result that Python sees as an exception.
pub(crate) trait OrRaise<T> {
    /// Makes the exception of the failure's kind.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, Failure> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|failure| raise(py, &failure))
    }
}

fn raise(py: Python<'_>, failure: &Failure) -> PyErr {
    let kind = kind_name(failure);
    let made = py
        .import("backplane._errors")
        .and_then(|errors| errors.call_method1("failure", (kind, &failure.what, failure.hint.as_deref())));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(_) => PyRuntimeError::new_err(failure.what.clone()),
    }
}

/// The kind as it stands in replies of the management API.
fn kind_name(failure: &Failure) -> &'static str {
    use base::ErrorKind as Kind;
    match failure.kind {
        Kind::NotFound => "not_found",
        Kind::Exists => "exists",
        Kind::NotDirectory => "not_directory",
        Kind::IsDirectory => "is_directory",
        Kind::NotEmpty => "not_empty",
        Kind::Permission => "permission",
        Kind::Invalid => "invalid",
        Kind::Busy | Kind::Locked => "busy",
        Kind::NoSpace => "no_space",
        Kind::OverQuota => "over_quota",
        Kind::Corrupt => "corrupt",
        Kind::Io => "io",
        Kind::Unsupported => "unsupported",
        Kind::Timeout => "timeout",
        Kind::Unavailable => "unavailable",
        Kind::Internal => "internal",
    }
}
