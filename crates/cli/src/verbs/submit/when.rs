//! When and after what a job may run, as options.

use base::{Failure, Millis, Result, Timestamp, units::Span};
use chrono::{Datelike as _, NaiveDateTime};
use std::str::FromStr;
use wire::control::{DependencyKind, JobDependency, PRIORITY};

/// A time from now on, or a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// So long from now.
    In(Millis),
    /// Then.
    At(Timestamp),
}

impl Moment {
    /// The time that is meant.
    pub(crate) fn after(self, now: Timestamp) -> Timestamp {
        match self {
            Self::In(span) => now + span,
            Self::At(time) => time,
        }
    }
}

impl FromStr for Moment {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        if text == "now" {
            return Ok(Self::In(Millis(0)));
        }
        if let Ok(span) = text.parse::<Span>() {
            return Ok(Self::In(span.0));
        }
        date(text).map(Self::At).ok_or_else(|| {
            Failure::invalid(format!("{text:?} is not a time"))
                .hint("write 2h, 2026-11-26 or 2026-11-26T18:00 (UTC)")
        })
    }
}

/// `YYYY-MM-DD[THH:MM[:SS]]` in UTC.
fn date(text: &str) -> Option<Timestamp> {
    let text = text.trim_end_matches('Z').replace(' ', "T");
    let text = if text.contains('T') { text } else { text + "T00:00" };
    let read = |format| NaiveDateTime::parse_from_str(&text, format).ok();
    let civil = read("%Y-%m-%dT%H:%M").or_else(|| read("%Y-%m-%dT%H:%M:%S"))?;
    (1970..=9999).contains(&civil.year()).then(|| Timestamp(civil.and_utc().timestamp_millis()))
}

/// A priority of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Priority(pub(crate) i32);

impl FromStr for Priority {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || Failure::invalid(format!("priority {text:?} is not between -1024 and 1023"));
        let number = text.parse().map_err(|_| bad())?;
        if PRIORITY.contains(&number) { Ok(Self(number)) } else { Err(bad()) }
    }
}

/// `KIND:JOB`, `singleton`, or `none`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency(pub(crate) Option<JobDependency>);

impl FromStr for Dependency {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        let dependency = |kind, job| Ok(Self(Some(JobDependency { kind, job })));
        match text.split_once(':') {
            None if text == "none" => Ok(Self(None)),
            None if text == "singleton" => dependency(DependencyKind::Singleton, None),
            None => dependency(DependencyKind::AfterOk, Some(text.parse()?)),
            Some((kind, job)) => dependency(kind_of(kind)?, Some(job.parse()?)),
        }
    }
}

fn kind_of(text: &str) -> Result<DependencyKind> {
    Ok(match text.strip_prefix("after").unwrap_or(text) {
        "begin" | "" => DependencyKind::After,
        "any" => DependencyKind::AfterAny,
        "ok" => DependencyKind::AfterOk,
        "notok" | "not-ok" => DependencyKind::AfterNotOk,
        "corr" => DependencyKind::AfterCorr,
        _ => {
            return Err(Failure::invalid(format!("{text:?} is not a kind of dependency"))
                .hint("ok, any, notok, begin or corr, as in ok:12"));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_spans_or_dates() {
        let at = |text: &str| text.parse::<Moment>().unwrap();
        assert_eq!(at("2h"), Moment::In(Millis(7_200_000)));
        assert_eq!(at("1970-01-01"), Moment::At(Timestamp(0)));
        assert_eq!(at("2000-02-29T12:00:01Z"), Moment::At(Timestamp(951_825_601_000)));
        assert_eq!(at("2026-11-26 18:00"), Moment::At(Timestamp(1_795_716_000_000)));
        for bad in ["", "tomorrow", "2026-13-01", "2026-02-30", "2026-01-01T24:00", "2026-01"] {
            assert!(bad.parse::<Moment>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn dependencies_name_a_kind_and_a_job() {
        let text = |text: &str| {
            let dependency = text.parse::<Dependency>().unwrap().0.unwrap();
            (dependency.kind.as_str(), dependency.job.map(|job| job.to_string()).unwrap_or_default())
        };
        assert_eq!(text("12"), ("afterok", "12".into()));
        assert_eq!(text("any:12_3"), ("afterany", "12_3".into()));
        assert_eq!(text("afternotok:12_[1-5]"), ("afternotok", "12_[1-5]".into()));
        assert_eq!(text("singleton"), ("singleton", String::new()));
        assert!("never:12".parse::<Dependency>().is_err() && "ok:x".parse::<Dependency>().is_err());
        assert_eq!("none".parse::<Dependency>().unwrap().0, None);
    }
}
