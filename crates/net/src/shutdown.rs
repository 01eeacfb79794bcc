//! The shutdown tree: tells every task to stop, and waits for all of them with a deadline.
//!
//! No task is detached: each is spawned under a [`Shutdown`] with a name. A node that stops first tells its children to
//! stop, then waits for all of them together.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use std::time::Duration;
//! let root = net::shutdown::Shutdown::new();
//! let door = root.child();
//! let token = door.token();
//! door.spawn("door", async move { token.stopped().await });
//! assert!(root.stop(Duration::from_secs(5)).await.is_ok());
//! # });
//! ```

use base::Failure;
use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};
use tokio::{sync::watch, task::JoinHandle, time::timeout};

/// A node of the tree: spawns named tasks, tells them to stop and waits for them. Clones are the same node.
#[derive(Debug, Clone)]
pub struct Shutdown(Arc<Node>);

#[derive(Debug)]
struct Node {
    parent: Option<Shutdown>,
    stop: watch::Sender<bool>,
    /// Running tasks of this node and all below it, by name.
    running: watch::Sender<BTreeMap<&'static str, usize>>,
}

/// Tells when to stop; cheap to clone and to pass down.
#[derive(Debug, Clone)]
pub struct Token(Vec<watch::Receiver<bool>>);

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// The root of a tree.
    #[must_use]
    pub fn new() -> Self {
        Self::node(None)
    }

    /// A node below this one: it stops with this one, or earlier by itself.
    #[must_use]
    pub fn child(&self) -> Self {
        Self::node(Some(self.clone()))
    }

    fn node(parent: Option<Self>) -> Self {
        Self(Arc::new(Node {
            parent,
            stop: watch::Sender::new(false),
            running: watch::Sender::new(BTreeMap::new()),
        }))
    }

    /// This node and those above it.
    fn lineage(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |node| node.0.parent.as_ref())
    }

    /// A token that fires when this node or one above it stops.
    #[must_use]
    pub fn token(&self) -> Token {
        Token(self.lineage().map(|node| node.0.stop.subscribe()).collect())
    }

    /// Runs `task` under this node. The handle may be dropped; the task is waited for all the same.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &'static str,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let guard = self.guard(name);
        tokio::spawn(async move {
            let _guard = guard;
            task.await
        })
    }

    /// Counts work that is not a task of its own, such as a call on a blocking thread, until the guard is dropped.
    #[must_use]
    pub fn guard(&self, name: &'static str) -> Guard {
        for above in self.lineage() {
            above.0.running.send_modify(|running| *running.entry(name).or_default() += 1);
        }
        Guard(self.clone(), name)
    }

    /// Tells this node and all below it to stop, without waiting.
    pub fn tell(&self) {
        self.0.stop.send_replace(true);
    }

    /// Tells this node and all below it to stop and waits until their tasks have ended.
    ///
    /// A [`base::ErrorKind::Timeout`] names those that have not ended within `deadline`.
    pub async fn stop(&self, deadline: Duration) -> Result<(), Failure> {
        self.tell();
        let mut running = self.0.running.subscribe();
        if timeout(deadline, running.wait_for(BTreeMap::is_empty)).await.is_ok() {
            return Ok(());
        }
        let left: Vec<_> = running.borrow().iter().map(|(name, count)| format!("{name} ({count})")).collect();
        Err(Failure::timeout(format!("tasks still running at shutdown: {}", left.join(", "))))
    }
}

/// Work that is waited for at shutdown, for as long as this lives.
#[derive(Debug)]
pub struct Guard(Shutdown, &'static str);

impl Drop for Guard {
    fn drop(&mut self) {
        for above in self.0.lineage() {
            above.0.running.send_modify(|running| {
                let count = running.get_mut(self.1).map_or(0, |count| {
                    *count -= 1;
                    *count
                });
                if count == 0 {
                    running.remove(self.1);
                }
            });
        }
    }
}

impl Token {
    /// Whether the server is shutting down.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.iter().any(|stop| *stop.borrow())
    }

    /// Ends when it is time to stop.
    pub async fn stopped(&self) {
        // A node that is gone with all its handles counts as stopped: nobody is left who could tell.
        let mut waits = self.0.clone();
        let waits = waits.iter_mut().map(|stop| Box::pin(async { drop(stop.wait_for(|stop| *stop).await) }));
        first(waits.collect()).await;
    }
}

/// Ends with the first of `futures`.
async fn first(mut futures: Vec<std::pin::Pin<Box<impl Future<Output = ()>>>>) {
    std::future::poll_fn(|context| {
        let is_done = futures.iter_mut().any(|future| future.as_mut().poll(context).is_ready());
        if is_done { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn stopping_the_root_stops_and_awaits_every_task() {
        let root = Shutdown::new();
        let (child, grandchild) = (root.child(), root.child().child());
        for node in [&root, &child, &grandchild] {
            let token = node.token();
            node.spawn("worker", async move { token.stopped().await });
        }
        assert!(!grandchild.token().is_stopped());
        root.stop(DEADLINE).await.unwrap();
        assert!(grandchild.token().is_stopped());
    }

    #[tokio::test]
    async fn a_child_stops_alone() {
        let root = Shutdown::new();
        let child = root.child();
        let token = child.token();
        child.spawn("door", async move { token.stopped().await });
        child.stop(DEADLINE).await.unwrap();
        assert!(!root.token().is_stopped());
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_end_is_named() {
        let root = Shutdown::new();
        root.child().spawn("stubborn", std::future::pending::<()>());
        let failure = root.stop(Duration::from_secs(1)).await.unwrap_err();
        assert!(failure.what.contains("stubborn (1)"), "{failure}");
    }
}
