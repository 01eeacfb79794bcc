//! What tasks need and must not block for: threads that do it, and time.

use super::{mux::Wait, process::lock};
use base::{Failure, Result};
use std::{
    future::Future,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

/// Runs a future that waits only in ways that block the thread: it is ready at once.
pub(super) fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("with Wait::Thread every wait blocks"),
    }
}

/// The result that a thread leaves for a task.
struct TaskResult<T> {
    content: Option<T>,
    waker: Option<Waker>,
}

/// Does `work` in a thread of its own: it is rare and may take long.
pub(super) async fn in_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let parcel = Arc::new(Mutex::new(TaskResult { content: None, waker: None }));
    let own = Arc::clone(&parcel);
    let run = move || {
        let content = work();
        let mut parcel = lock(&own);
        parcel.content = Some(content);
        if let Some(waker) = parcel.waker.take() {
            waker.wake();
        }
    };
    let thread = thread::Builder::new().name("xrd-helper".to_owned()).spawn(run);
    let thread = thread.map_err(|cause| Failure::io("start a thread", &cause))?;
    std::future::poll_fn(move |context| {
        let mut parcel = lock(&parcel);
        if let Some(content) = parcel.content.take() {
            return Poll::Ready(Ok(content));
        }
        if thread.is_finished() {
            return Poll::Ready(Err(Failure::internal("a helper thread panicked")));
        }
        parcel.waker = Some(context.waker().clone());
        Poll::Pending
    })
    .await
}

/// Waits for `span`.
pub(super) async fn pause(span: Duration, wait: Wait) -> Result<()> {
    match wait {
        Wait::Thread => {
            thread::sleep(span);
            Ok(())
        }
        Wait::Task => in_thread(move || thread::sleep(span)).await,
    }
}
