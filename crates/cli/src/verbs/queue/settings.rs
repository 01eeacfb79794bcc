//! The settings of a queue as options.

use crate::verbs::submit::memory;
use base::{
    Failure, Millis, Result,
    units::{Size, Span},
};
use std::str::FromStr;
use wire::control::{QueueKind, QueueResources, QueueSettings, TimeWindow};

/// A number, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit(pub(super) Option<u32>);

/// Reads a limit.
pub(super) fn limit(text: &str) -> Result<Limit> {
    if text == "none" {
        return Ok(Limit(None));
    }
    let number = text.parse().map_err(|_| Failure::invalid(format!("{text:?} is not a number or `none`")))?;
    Ok(Limit(Some(number)))
}

/// What changes of a queue; what is not named stays.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Settings {
    /// Makes it a pipe queue: it routes each job to the least loaded of these queues that takes it
    #[arg(long, value_name = "QUEUE,…", value_delimiter = ',')]
    to: Option<Vec<String>>,
    /// Jobs that run at a time; `none`: no limit
    #[arg(long, value_name = "N", value_parser = limit)]
    run_limit: Option<Limit>,
    /// Jobs of one user that run at a time; `none`: no limit
    #[arg(long, value_name = "N", value_parser = limit)]
    user_run_limit: Option<Limit>,
    /// Among queues, -1024 to 1023: the highest goes first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Starts jobs in these times (UTC) only, e.g. 1-5/18:00-08:00 (days 1 to 7 from Monday) or 22:00-06:00; `always`
    #[arg(long, value_name = "WINDOW,…", value_delimiter = ',')]
    window: Option<Vec<Window>>,
    /// CPU slots of a job that does not say it
    #[arg(long, value_name = "N")]
    cpus: Option<u32>,
    /// Memory of a job that does not say it, with a unit; 0: none
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<Size>,
    /// Longest run of a job that does not say it
    #[arg(long, value_name = "TIME")]
    wall: Option<Span>,
    /// CPU slots that a job may ask for; `none`: no limit
    #[arg(long, value_name = "N", value_parser = limit)]
    cpus_max: Option<Limit>,
    /// Memory that a job may ask for, with a unit; 0: no limit
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory_max: Option<Size>,
    /// Longest run that a job may ask for; 0s: no limit
    #[arg(long, value_name = "TIME")]
    wall_max: Option<Span>,
    /// Workers that run its jobs, by name or label of their host (`rack` or `rack=r1`); `all`: all
    #[arg(long, value_name = "WORKER,…", value_delimiter = ',')]
    workers: Option<Vec<String>>,
}

impl Settings {
    /// Changes what is named.
    pub(super) fn apply_to(&self, all: &mut QueueSettings) {
        if let Some(destinations) = &self.to {
            all.kind = QueueKind::Pipe;
            all.destinations.clone_from(destinations);
        }
        if let Some(Limit(limit)) = self.run_limit {
            all.run_limit = limit;
        }
        if let Some(Limit(limit)) = self.user_run_limit {
            all.user_run_limit = limit;
        }
        all.priority = self.priority.unwrap_or(all.priority);
        if let Some(windows) = &self.window {
            all.windows = windows.iter().filter_map(|window| window.0.clone()).collect();
        }
        if let Some(workers) = &self.workers {
            all.workers = workers.iter().filter(|worker| *worker != "all").cloned().collect();
        }
        self.apply_to_resources(&mut all.defaults, &mut all.ceilings);
    }

    fn apply_to_resources(&self, defaults: &mut QueueResources, ceilings: &mut QueueResources) {
        let size =
            |size: Option<Size>, before| size.map_or(before, |size| Some(size.0).filter(|size| *size > 0));
        let span = |span: Option<Span>, before| {
            span.map_or(before, |span| Some(span.0).filter(|span| *span > Millis(0)))
        };
        defaults.cpus = self.cpus.or(defaults.cpus);
        defaults.memory_bytes = size(self.memory, defaults.memory_bytes);
        defaults.wall = span(self.wall, defaults.wall);
        ceilings.cpus = self.cpus_max.map_or(ceilings.cpus, |limit| limit.0);
        ceilings.memory_bytes = size(self.memory_max, ceilings.memory_bytes);
        ceilings.wall = span(self.wall_max, ceilings.wall);
    }
}

/// `[DAYS/]HH:MM-HH:MM`, or `always`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Window(Option<TimeWindow>);

impl FromStr for Window {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        if text == "always" {
            return Ok(Self(None));
        }
        let bad = || {
            Failure::invalid(format!("{text:?} is not a time window"))
                .hint("write HH:MM-HH:MM, with days before it if it is not for all: 1-5/18:00-08:00")
        };
        let (days, times) = text.split_once('/').map_or(("", text), |(days, times)| (days, times));
        let (opens, closes) = times.split_once('-').ok_or_else(bad)?;
        let minutes = |text: &str| {
            let (hour, minute) = text.split_once(':')?;
            let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
            (hour <= 24 && minute < 60 && hour * 60 + minute <= 24 * 60).then_some(hour * 60 + minute)
        };
        let window = TimeWindow {
            days: days_of(days).ok_or_else(bad)?,
            opens: minutes(opens).ok_or_else(bad)?,
            closes: minutes(closes).ok_or_else(bad)?,
        };
        Ok(Self(Some(window)))
    }
}

/// `1-5` or `6`; nothing: every day.
fn days_of(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u8, u8) = (first.parse().ok()?, last.parse().ok()?);
    ((1..=7).contains(&first) && (first..=7).contains(&last)).then(|| (first..=last).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read_as_people_write_them() {
        let window = |text: &str| text.parse::<Window>().unwrap().0.map(|w| (w.days, w.opens, w.closes));
        assert_eq!(window("22:00-06:30"), Some((vec![], 1320, 390)));
        assert_eq!(window("1-3/08:00-24:00"), Some((vec![1, 2, 3], 480, 1440)));
        assert_eq!(window("7/00:00-12:00"), Some((vec![7], 0, 720)));
        assert_eq!(window("always"), None);
        for bad in ["", "8/00:00-01:00", "5-1/00:00-01:00", "00:60-01:00", "25:00-01:00", "night"] {
            assert!(bad.parse::<Window>().is_err(), "{bad:?}");
        }
        assert_eq!((limit("none").unwrap(), limit("3").unwrap()), (Limit(None), Limit(Some(3))));
        assert!(limit("-1").is_err());
    }
}
