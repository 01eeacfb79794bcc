//! Events of the facility: the newest ones, in a ring in memory.
//!
//! An event of a call becomes visible when the call's group is durable, and never if the call is refused or the commit
//! fails.

use crate::{Apply, Context, Core, Topic};
use base::{Failure, Result, Timestamp, pattern};
use std::{collections::VecDeque, fmt::Display};
use wire::control::{
    EVENT_PATTERN_BYTES_MAX, EVENT_PATTERNS_MAX, EVENT_TEXT_BYTES_MAX, EVENTS_KEPT_MAX, EVENTS_TOLD_MAX,
    Event, EventType, Events, GetEvents,
};

/// The newest events.
#[derive(Debug, Default)]
pub(crate) struct EventRing {
    kept: VecDeque<Event>,
    /// The number of the newest.
    last: u64,
    /// What the group under way has said.
    said: Vec<Event>,
}

impl EventRing {
    fn say(&mut self, at: Timestamp, kind: EventType, subject: String, mut what: String) {
        let end = (0..=what.len().min(EVENT_TEXT_BYTES_MAX)).rev().find(|at| what.is_char_boundary(*at));
        what.truncate(end.unwrap_or(0));
        self.said.push(Event { number: 0, at, kind, subject, what });
    }

    /// How much was said in the group under way.
    pub(crate) fn said_len(&self) -> usize {
        self.said.len()
    }

    /// A call is refused: what it said did not happen.
    pub(crate) fn take_back(&mut self, said_len: usize) {
        self.said.truncate(said_len);
    }

    /// The group is durable: what it said can be seen.
    pub(crate) fn publish(&mut self) {
        for mut event in self.said.drain(..) {
            self.last += 1;
            event.number = self.last;
            if self.kept.len() >= EVENTS_KEPT_MAX {
                self.kept.pop_front();
            }
            self.kept.push_back(event);
        }
    }

    /// Events behind a number that are wanted.
    fn told(&self, incarnation: u64, call: &GetEvents) -> Events {
        let after = if call.incarnation == incarnation { call.after.min(self.last) } else { 0 };
        let first = self.kept.front().map_or(self.last + 1, |event| event.number);
        let missed = (first - 1).saturating_sub(after);
        let skipped = usize::try_from(after.saturating_sub(first - 1)).unwrap_or(usize::MAX);
        let is_wanted = |event: &&Event| {
            call.since.is_none_or(|since| event.at >= since)
                && (call.types.is_empty()
                    || call.types.iter().any(|wanted| pattern::matches(wanted, event.kind.as_str())))
        };
        let wanted = self.kept.iter().skip(skipped).filter(is_wanted);
        let older = call.newest.map_or(0, |newest| wanted.clone().count().saturating_sub(newest));
        let events: Vec<_> = wanted.skip(older).take(EVENTS_TOLD_MAX).cloned().collect();
        let is_cut = events.len() == EVENTS_TOLD_MAX;
        let next_after = events.last().filter(|_| is_cut).map_or(self.last, |event| event.number);
        Events { incarnation, events, next_after, missed }
    }
}

impl Core {
    /// Says that something happened, when the group under way is durable.
    pub(crate) fn say(
        &mut self,
        now: Timestamp,
        kind: EventType,
        subject: impl Display,
        what: impl Into<String>,
    ) {
        self.live.events.say(now, kind, subject.to_string(), what.into());
        self.touch(Topic::Events);
    }

    /// What verbs call a partition: `POOL/PARTITION`.
    pub(crate) fn partition_subject(&self, partition: &str) -> String {
        match self.store.partition(partition) {
            Ok(Some(row)) => format!("{}/{partition}", row.pool),
            _ => partition.to_owned(),
        }
    }
}

impl Apply for GetEvents {
    const TOPIC: Topic = Topic::Events;

    fn apply(self, core: &mut Core, _: &Context) -> Result<Events> {
        if self.types.len() > EVENT_PATTERNS_MAX {
            return Err(Failure::invalid(format!("{} patterns are too many", self.types.len()))
                .hint(format!("name {EVENT_PATTERNS_MAX} at most")));
        }
        if let Some(long) = self.types.iter().find(|one| one.len() > EVENT_PATTERN_BYTES_MAX) {
            return Err(Failure::invalid(format!("no type of event has {} bytes", long.len()))
                .hint("name one, or a pattern such as 'drive.*'"));
        }
        Ok(core.live.events.told(core.facility.incarnation, &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(count: usize) -> EventRing {
        let mut ring = EventRing::default();
        for number in 0..count {
            let kind = if number % 2 == 0 { EventType::JobDone } else { EventType::HostBack };
            ring.say(Timestamp(number as i64), kind, number.to_string(), "x".repeat(600));
        }
        ring.publish();
        ring
    }

    fn numbers(events: &Events) -> Vec<u64> {
        events.events.iter().map(|event| event.number).collect()
    }

    fn ask(after: u64) -> GetEvents {
        GetEvents { after, incarnation: 3, ..GetEvents::default() }
    }

    #[test]
    fn what_fell_out_is_counted_and_the_rest_is_told_in_pages() {
        let ring = ring(EVENTS_KEPT_MAX + 10);
        let first = ring.told(3, &ask(0));
        assert_eq!((first.missed, first.events.len(), first.events[0].number), (10, EVENTS_TOLD_MAX, 11));
        let (mut after, mut seen) = (first.next_after, first.events.len());
        loop {
            let page = ring.told(3, &ask(after));
            assert_eq!(page.missed, 0);
            (after, seen) = (page.next_after, seen + page.events.len());
            if page.events.is_empty() {
                break;
            }
        }
        assert_eq!((seen, after), (EVENTS_KEPT_MAX, ring.last));
        assert_eq!(ring.told(3, &ask(7)).missed, 3);
        // A number of another start means nothing, nor does one that is still to come.
        assert_eq!(ring.told(4, &ask(after)).missed, 10);
        assert!(ring.told(3, &ask(u64::MAX)).events.is_empty());
        assert_eq!(first.events[0].what.len(), EVENT_TEXT_BYTES_MAX);
    }

    #[test]
    fn types_and_times_are_chosen() {
        let ring = ring(6);
        let types = |one: &str| GetEvents { types: vec![one.to_owned()], ..ask(0) };
        assert_eq!(numbers(&ring.told(3, &types("job.*"))), [1, 3, 5]);
        assert_eq!(numbers(&ring.told(3, &types("host.back"))), [2, 4, 6]);
        assert_eq!(ring.told(3, &types("none")).next_after, 6);
        assert_eq!(numbers(&ring.told(3, &GetEvents { since: Some(Timestamp(4)), ..ask(0) })), [5, 6]);
        let newest = |one: &str, len| GetEvents { newest: Some(len), ..types(one) };
        assert_eq!(numbers(&ring.told(3, &newest("*", 2))), [5, 6]);
        assert_eq!(numbers(&ring.told(3, &newest("job.*", 2))), [3, 5]);
        assert_eq!(ring.told(3, &newest("*", 0)).next_after, 6);
    }

    #[test]
    fn what_a_refused_call_said_did_not_happen() {
        let mut ring = ring(1);
        ring.say(Timestamp(1), EventType::JobDone, "1".into(), "kept".into());
        let said = ring.said_len();
        ring.say(Timestamp(1), EventType::JobFailed, "2".into(), "refused".into());
        ring.take_back(said);
        assert_eq!(numbers(&ring.told(3, &ask(0))), [1], "not before the group is durable");
        ring.publish();
        assert_eq!(numbers(&ring.told(3, &ask(1))), [2]);
    }
}
