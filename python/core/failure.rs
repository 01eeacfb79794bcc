//! From failures to Python exceptions; the table of classes is `backplane/_errors.py`.

use base::{ErrorKind, Failure};
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
    let kind = kind_name(failure.kind);
    let made = py
        .import("backplane._errors")
        .and_then(|errors| errors.call_method1("failure", (kind, &failure.what, failure.hint.as_deref())));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(_) => PyRuntimeError::new_err(failure.what.clone()),
    }
}

/// The kind as it stands in replies of the management API.
fn kind_name(kind: ErrorKind) -> &'static str {
    use ErrorKind as Kind;
    match kind {
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

/// The failure that an exception of ours was made of; `None` of other ones.
pub(crate) fn of(py: Python<'_>, error: &PyErr) -> Option<Failure> {
    let value = error.value(py);
    let class = py.import("backplane._errors").and_then(|errors| errors.getattr("BackplaneError")).ok()?;
    let text = |name| value.getattr(name).and_then(|text| text.extract::<String>()).ok();
    let is_own = value.is_instance(&class).is_ok_and(|is_own| is_own);
    let kind = text("kind").filter(|_| is_own).and_then(|kind| kind_named(&kind))?;
    Some(Failure { hint: text("hint"), ..Failure::new(kind, text("what")?) })
}

fn kind_named(name: &str) -> Option<ErrorKind> {
    use ErrorKind as Kind;
    const KINDS: [Kind; 16] = [
        Kind::NotFound,
        Kind::Exists,
        Kind::NotDirectory,
        Kind::IsDirectory,
        Kind::NotEmpty,
        Kind::Permission,
        Kind::Invalid,
        Kind::Busy,
        Kind::NoSpace,
        Kind::OverQuota,
        Kind::Corrupt,
        Kind::Io,
        Kind::Unsupported,
        Kind::Timeout,
        Kind::Unavailable,
        Kind::Internal,
    ];
    KINDS.into_iter().find(|kind| kind_name(*kind) == name)
}
