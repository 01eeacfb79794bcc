//! Calls of the Parquet library on bytes that may be damaged.

use base::{Failure, Result};
use parquet::errors::ParquetError;
use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    sync::Once,
};

thread_local! {
    /// Whether a panic of this thread is caught and told as a failure.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Keeps a panic that [`guarded`] catches off the terminal; all others are printed as before.
fn silence_caught_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                before(panic);
            }
        }));
    });
}

/// Runs `read`; a panic of the library on damaged bytes becomes an error.
///
/// The library indexes by lengths that it read from the file in several places, so bad input can panic there. Nothing
/// that `read` touches is used after a panic, which is why unwinding through it is sound.
pub(super) fn guarded<T>(
    name: &str,
    what: &str,
    read: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T> {
    silence_caught_panics();
    let outer = IS_GUARDED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(read));
    IS_GUARDED.set(outer);
    let corrupt = |cause: &dyn std::fmt::Display| {
        Failure::corrupt(format!("{name}: {what}: {cause}"))
            .hint("compare the file with its checksum, or copy it again")
    };
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(ParquetError::External(cause))) => match cause.downcast::<Failure>() {
            Ok(failure) => Err(*failure),
            Err(cause) => Err(corrupt(&cause)),
        },
        Ok(Err(ParquetError::NYI(cause))) => Err(Failure::unsupported(format!("{name}: {what}: {cause}"))),
        Ok(Err(ParquetError::General(cause))) => Err(corrupt(&cause)),
        Ok(Err(cause)) => Err(corrupt(&cause)),
        Err(_) => Err(corrupt(&"damaged beyond what the decoder understands")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ErrorKind;

    #[test]
    fn what_the_library_does_becomes_a_failure() {
        let kind = |cause| guarded::<()>("f", "footer", || Err(cause)).unwrap_err().kind;
        assert_eq!(kind(ParquetError::General("x".to_owned())), ErrorKind::Corrupt);
        assert_eq!(kind(ParquetError::NYI("x".to_owned())), ErrorKind::Unsupported);
        let failure = Failure::invalid("as it was");
        assert_eq!(kind(ParquetError::External(Box::new(failure))), ErrorKind::Invalid);
        let panicked = guarded::<()>("f", "footer", || panic!("caught")).unwrap_err();
        assert_eq!(panicked.what, "f: footer: damaged beyond what the decoder understands");
        assert!(!IS_GUARDED.get());
    }
}
