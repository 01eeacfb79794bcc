//! Judges an object: checks a difference a second time, and reads the data if asked.

use super::{
    compare::{compare, file_of},
    walk::{REPORT_EVERY, Step, StopReason, Walk},
};
use crate::object::scanner::{Seen, Whole, is_damage};
use base::{ErrorKind, Failure, ObjectId};
use std::{sync::Arc, time::Instant};
use tracing::warn;
use wire::control::{Finding, FindingKind, Known, KnownObject};

impl Walk {
    /// What is wrong with an object, if anything is. With `reads` also its bytes are looked at, and always if somebody has changed
    /// them.
    pub(super) fn judge(
        &mut self,
        object: ObjectId,
        (seen, known): (&Seen, &Known),
        reads: bool,
    ) -> Step<Option<Finding>> {
        if compare(seen, known).is_some() {
            return self.look_again(object);
        }
        match (seen, known) {
            (Seen::Newer(failure), Known::Online(_)) => {
                self.tell_newer(object, failure);
                Ok(None)
            }
            (Seen::Whole(whole), Known::Online(known)) if reads || whole.is_touched() => {
                self.read(object, whole, known)
            }
            _ => Ok(None),
        }
    }

    /// Logs the first replica that only a newer release can read: where there is one, most are.
    fn tell_newer(&mut self, object: ObjectId, failure: &Failure) {
        if !self.has_told_newer {
            let partition = self.name();
            warn!(partition, %object, %failure, "replicas of a newer release cannot be read; they are left as they are");
            self.has_told_newer = true;
        }
    }

    /// Looks at an object that seems wrong, asks, and looks once more: it was wrong all the time, or it is not.
    fn look_again(&mut self, object: ObjectId) -> Step<Option<Finding>> {
        let before = self.look_at_one(object)?;
        let known = self.ask(vec![object])?;
        let seen = self.look_at_one(object)?;
        let wrong = known.first().filter(|_| seen == before);
        Ok(wrong.and_then(|known| {
            let (kind, detail) = compare(&seen, known)?;
            Some(Finding { object, kind, file: file_of(&seen, known), detail })
        }))
    }

    /// Looks at all there is of an object.
    pub(super) fn look_at_one(&mut self, object: ObjectId) -> Step<Seen> {
        let partition = Arc::clone(&self.partition);
        partition.check_in_place()?;
        self.pace.begin();
        let seen = partition.look(object);
        self.rest(1)?;
        // What was not there before this is not lost if nothing is.
        partition.check_in_place()?;
        Ok(seen)
    }

    /// Reads every byte of an object.
    fn read(&mut self, object: ObjectId, whole: &Whole, known: &KnownObject) -> Step<Option<Finding>> {
        let damage = match self.scrub(object)? {
            None => {
                self.partition.note_read(object, whole);
                return Ok(None);
            }
            Some(failure) if is_damage(&failure) => failure,
            // Removed, or replaced, meanwhile.
            Some(_) => return Ok(None),
        };
        // One that was dropped meanwhile is nobody's concern.
        let known = Known::Online(*known);
        if self.ask(vec![object])?.first() != Some(&known) {
            return Ok(None);
        }
        let kind = match damage.kind {
            ErrorKind::Corrupt => FindingKind::WrongChecksum,
            _ => FindingKind::Damaged,
        };
        let file = file_of(&Seen::Missing, &known);
        Ok(Some(Finding { object, kind, file, detail: damage.to_string() }))
    }

    /// Reads an object at the pace. What is wrong with it.
    ///
    /// A long object read slowly takes hours: the head is asked now and then whether it still wants that.
    fn scrub(&mut self, object: ObjectId) -> Step<Option<Failure>> {
        let (partition, mut pace) = (Arc::clone(&self.partition), self.pace.clone());
        let (mut bytes, mut asked) = (0, Instant::now());
        pace.begin();
        let outcome = partition.scrub(object, |count| {
            bytes += count;
            let goes_on = pace.rest_unless(0, count, || self.is_stopped());
            if !goes_on || asked.elapsed() < REPORT_EVERY {
                return goes_on;
            }
            asked = Instant::now();
            // A head that cannot be asked says nothing about it.
            self.call(self.report()).map_or(true, |reply| reply.goes_on)
        });
        self.pace = pace;
        if matches!(outcome, Ok(None)) {
            return Err(StopReason::Stopped);
        }
        self.bytes += bytes;
        Ok(outcome.err())
    }
}
