//! Steps of the system's clock. Whoever sets it must not make disk servers look silent, or look alive when they are not:
//! what the head noted of others moves with it.

use crate::{Core, executor::core::Live};
use base::{Millis, Timestamp};
use std::time::Duration;
use tracing::warn;
use wire::control::EventType;

/// What is less is taken for the time that passed.
const STEP_MIN: Millis = Millis(1000);

/// Compares the system's clock with one that is never set.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    last: Option<(Timestamp, Duration)>,
}

impl Steps {
    /// How far the clock was set since the last look, if it was. `steady` is the other clock.
    pub(crate) fn look(&mut self, now: Timestamp, steady: Duration) -> Option<Millis> {
        let (then, steady_then) = self.last.replace((now, steady))?;
        let passed = i64::try_from(steady.saturating_sub(steady_then).as_millis()).unwrap_or(i64::MAX);
        let step = (now - then).0.saturating_sub(passed);
        (step.saturating_abs() > STEP_MIN.0).then_some(Millis(step))
    }
}

impl Core {
    /// The system's clock was set: what was noted by it in memory moves along. What is in the catalogue stays as it was
    /// written: rights, reservations and accounts are a matter of the calendar.
    pub(crate) fn clock_was_set(&mut self, by: Millis, now: Timestamp) {
        warn!(seconds = by.as_seconds_f64(), "system clock stepped; last-contact times adjusted");
        let host = self.config.server.name.clone();
        let what = format!("the head's clock stepped by {} s", by.as_seconds_f64());
        self.say(now, EventType::ClockSet, host, what);
        self.live.shift(by);
        self.store.leases().shift(by);
        self.progress.shift(by);
    }
}

impl Live {
    fn shift(&mut self, by: Millis) {
        let move_on = |time: &mut Timestamp| *time = *time + by;
        move_on(&mut self.since);
        self.drives.values_mut().for_each(|drive| move_on(&mut drive.heard));
        self.partitions.values_mut().for_each(|partition| move_on(&mut partition.heard));
        // It is compared with times of the catalogue.
        self.object_reports.values_mut().for_each(|(_, begun)| *begun = None);
        self.workers.values_mut().for_each(|worker| move_on(&mut worker.heard));
        self.hosts.values_mut().for_each(|host| {
            move_on(&mut host.heard);
            host.left.iter_mut().chain(&mut host.unanswered).for_each(move_on);
        });
        self.avoided.values_mut().for_each(move_on);
        self.surveys_due.values_mut().for_each(move_on);
        self.cut_off.values_mut().for_each(move_on);
        self.maintenance.forget_times();
        self.share.shift(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_passes_is_no_step() {
        let mut steps = Steps::default();
        let look = |steps: &mut Steps, now: i64, steady: u64| {
            steps.look(Timestamp(now), Duration::from_millis(steady)).map(|step| step.0)
        };
        assert_eq!(look(&mut steps, 5_000_000, 10), None);
        assert_eq!(look(&mut steps, 5_002_000, 2010), None);
        assert_eq!(look(&mut steps, 5_002_900, 2010), None, "what is set in small steps");
        assert_eq!(look(&mut steps, 12_203_900, 3010), Some(7_200_000));
        assert_eq!(look(&mut steps, 12_204_900, 4010), None, "once");
        assert_eq!(look(&mut steps, 4_204_900, 4010), Some(-8_000_000));
    }
}
