//! What was written and is lost, and who was told.

use base::Failure;
use std::collections::HashSet;

/// The loss of what was written to a file. Each program that has it open is told once, by `fsync`, as the kernel does it for its own
/// file systems.
///
/// `close` tells it, too, but that does not count: each process that is started closes copies of the files of its parent, and
/// looks at no outcome.
#[derive(Debug, Default)]
pub(crate) struct Loss {
    failure: Option<Failure>,
    /// Opens, by handle, that were told.
    told: HashSet<u64>,
    /// Somebody was told, who may have closed the file since.
    is_told: bool,
}

impl Loss {
    /// Something is lost: all that have the file open are to be told.
    pub(crate) fn note(&mut self, failure: Failure) {
        if self.is_told {
            self.failure = None;
        }
        self.failure.get_or_insert(failure);
        self.told.clear();
        self.is_told = false;
    }

    /// A loss that nobody was told of yet.
    pub(crate) fn untold(&self) -> Option<&Failure> {
        self.failure.as_ref().filter(|_| !self.is_told)
    }

    /// What an open is told by `fsync`.
    pub(crate) fn at_sync(&mut self, handle: u64) -> Option<Failure> {
        let failure = self.at_close(handle)?;
        self.told.insert(handle);
        self.is_told = true;
        Some(failure)
    }

    /// What an open is told when one of its descriptors is closed.
    pub(crate) fn at_close(&self, handle: u64) -> Option<Failure> {
        self.failure.clone().filter(|_| !self.told.contains(&handle))
    }

    /// A new open: of what others were told already it is not.
    pub(crate) fn opened(&mut self, handle: u64) {
        if self.is_told {
            self.told.insert(handle);
        }
    }

    /// The last descriptor of an open was closed, which told it.
    pub(crate) fn closed(&mut self, handle: u64) {
        self.told.remove(&handle);
        self.is_told |= self.failure.is_some();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost() -> Loss {
        let mut loss = Loss::default();
        loss.note(Failure::unavailable("first"));
        loss.note(Failure::unavailable("second"));
        loss
    }

    #[test]
    fn each_open_is_told_once_by_a_sync_and_no_close_of_a_copy_counts() {
        let mut loss = lost();
        assert!(loss.at_close(1).is_some() && loss.at_close(1).is_some() && loss.untold().is_some());
        assert_eq!(loss.at_sync(1).unwrap().what, "first");
        assert!(loss.at_sync(1).is_none() && loss.at_close(1).is_none() && loss.untold().is_none());
        assert!(loss.at_sync(2).is_some(), "it was open, too");
    }

    #[test]
    fn who_opens_later_is_told_only_if_nobody_was() {
        let mut loss = lost();
        loss.opened(1);
        assert!(loss.at_sync(1).is_some());
        loss.opened(2);
        assert!(loss.at_sync(2).is_none());
        loss.note(Failure::unavailable("third"));
        assert_eq!(loss.at_sync(2).unwrap().what, "third");
        loss.closed(1);
        loss.closed(2);
        assert!(loss.told.is_empty() && loss.untold().is_none());
    }
}
