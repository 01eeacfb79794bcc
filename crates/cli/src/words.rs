//! How numbers, times and states are shown.

use crate::{output::Tone, table::Cell};
pub(crate) use base::units::coarse_span as span;
use base::{Millis, Timestamp};
use wire::control::{
    AwayHost, Entry, FileState, JobState, JobUsers, RequestInfo, RequestState, TapePhase, VolumeState,
};

/// `drwxr-xr-x`.
pub(crate) fn mode(entry: &Entry) -> String {
    let bit = |place: u32, letter| if entry.mode >> place & 1 == 1 { letter } else { '-' };
    let bits = (0..9).rev().map(|place| bit(place, ['x', 'w', 'r'][place as usize % 3]));
    std::iter::once(entry.kind.letter()).chain(bits).collect()
}

/// `2026-11-21 10:16`, UTC.
pub(crate) fn time(time: Timestamp) -> String {
    time.civil().to_the_minute()
}

/// `2026-11-21 10:16:56 UTC`.
pub(crate) fn exact_time(time: Timestamp) -> String {
    format!("{}:{:02} UTC", self::time(time), time.civil().second)
}

/// `73 %`; nothing of nothing is 0.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let value = if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 };
    format!("{:.0} %", value.min(100.0))
}

/// `1 file`, `2 files`.
pub(crate) use base::units::counted;

/// For how long something is kept: `for a day`, `for 12 h 00 min`.
pub(crate) fn kept_for(kept: Millis) -> String {
    const DAY_MS: i64 = 86_400_000;
    match kept.0 {
        DAY_MS => "for a day".to_owned(),
        ms if ms > DAY_MS && ms % DAY_MS == 0 => format!("for {} days", ms / DAY_MS),
        _ => format!("for {}", span(kept)),
    }
}

pub(crate) fn file_state(state: Option<FileState>) -> Cell {
    let Some(state) = state else { return Cell::from("") };
    let tone = match state {
        FileState::Online | FileState::Both => Tone::Plain,
        FileState::Writing | FileState::Live => Tone::Blue,
        FileState::Nearline => Tone::Wait,
        FileState::OutOfReach | FileState::Lost => Tone::Bad,
    };
    Cell::toned(state.as_str(), tone)
}

/// `host d1 (silent since 2026-11-21 10:16:56 UTC)`.
pub(crate) fn away_host(away: &AwayHost) -> String {
    let AwayHost { host, reason, since } = away;
    format!("host {host} ({} since {})", reason.as_str(), exact_time(*since))
}

pub(crate) fn phase(phase: TapePhase) -> Cell {
    let tone = match phase {
        TapePhase::Idle => Tone::Faint,
        TapePhase::Transferring => Tone::Good,
        TapePhase::Stuck => Tone::Bad,
        _ => Tone::Blue,
    };
    Cell::toned(phase.as_str(), tone)
}

pub(crate) fn volume_state(state: VolumeState) -> Cell {
    let tone = match state {
        VolumeState::Blank | VolumeState::Exported => Tone::Faint,
        VolumeState::ReadOnly | VolumeState::Full => Tone::Plain,
        VolumeState::Appendable => Tone::Good,
        VolumeState::Unread | VolumeState::Disabled => Tone::Wait,
        VolumeState::Suspect | VolumeState::Broken => Tone::Bad,
    };
    Cell::toned(state.as_str(), tone)
}

pub(crate) fn request_state(request: &RequestInfo) -> Cell {
    let tone = match request.state {
        RequestState::Active => Tone::Good,
        RequestState::Failed => Tone::Bad,
        RequestState::Queued if request.waits_for_retry() => Tone::Wait,
        RequestState::Queued => Tone::Plain,
    };
    Cell::toned(request.state_word(), tone)
}

pub(crate) fn job_state(state: JobState) -> Cell {
    let tone = match state {
        JobState::Held => Tone::Wait,
        JobState::Queued | JobState::Done => Tone::Plain,
        JobState::Cancelled => Tone::Faint,
        JobState::Running => Tone::Good,
        JobState::Archiving => Tone::Blue,
        JobState::Failed => Tone::Bad,
    };
    Cell::toned(state.as_str(), tone)
}

/// Users that are named before there are too many of them for a line.
const USERS_SHOWN: usize = 3;

/// Whose jobs a worker runs.
pub(crate) fn job_users(users: &JobUsers) -> String {
    if users.everybody {
        return "everybody".to_owned();
    }
    let mut found: Vec<&str> = users.owner.then_some("the owner").into_iter().collect();
    if users.maybe_others || users.users.len() > USERS_SHOWN {
        found.push("users of its host");
    } else {
        found.extend(users.users.iter().map(String::as_str));
    }
    if found.is_empty() { "nobody".to_owned() } else { found.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::FileId;
    use wire::control::NodeKind;

    #[test]
    fn modes_read_like_ls() {
        let entry = Entry {
            id: FileId(1),
            name: "a".into(),
            kind: NodeKind::Directory,
            owner: "o".into(),
            group: "g".into(),
            mode: 0o754,
            size: 0,
            modified: Timestamp(0),
            source_modified: None,
            checksums: None,
            state: None,
            posix: wire::control::PosixFields::default(),
        };
        assert_eq!(mode(&entry), "drwxr-xr--");
        assert_eq!(mode(&Entry { kind: NodeKind::File, mode: 0o640, ..entry }), "-rw-r-----");
    }

    #[test]
    fn times_and_shares() {
        assert_eq!(exact_time(Timestamp(784_111_777_123)), "1994-11-06 08:49:37 UTC");
        assert_eq!(
            (percent(1, 0), percent(1, 3), percent(9, 3)),
            ("0 %".into(), "33 %".into(), "100 %".into())
        );
    }
}
