//! Waits that may be long, with an ear for signals.

use crate::failure::OrRaise;
use base::{Failure, Result};
use pyo3::prelude::*;
use std::{
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::Duration,
};

/// How long Ctrl-C may go unheard.
const DEAF_MAX: Duration = Duration::from_millis(100);

/// Does `work`, which has deadlines of its own, in a thread of its own and answers signals meanwhile.
///
/// If a signal raises, the work is left to end by itself; its result is dropped.
pub(crate) fn in_background<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    in_background_until(py, work, || {})
}

/// The same; `give_up` ends the work if a signal raises.
pub(crate) fn in_background_until<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
    give_up: impl FnOnce() + Send,
) -> PyResult<T> {
    let (done, mut result) = channel();
    let started = thread::Builder::new().name("bp-open".to_owned()).spawn(move || {
        // Nobody listens any more if a signal raised.
        let _ = done.send(work());
    });
    started.map_err(|cause| Failure::io("start a thread to open a file", &cause)).or_raise(py)?;
    loop {
        // The receiving end cannot be lent to code that runs without the interpreter, only given and taken back.
        let (heard, back) = py.detach(move || (result.recv_timeout(DEAF_MAX), result));
        result = back;
        match heard {
            Ok(outcome) => return outcome.or_raise(py),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(raised) = py.check_signals() {
                    py.detach(give_up);
                    return Err(raised);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new(base::ErrorKind::Internal, "the thread that opens a file ended"))
                    .or_raise(py);
            }
        }
    }
}
