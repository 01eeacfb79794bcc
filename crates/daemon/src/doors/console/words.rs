//! How numbers, times and states are shown.

pub(super) use base::units::coarse_span as span;
use base::{Civil, Timestamp, units::noun};
use maud::{Markup, html};
use wire::control::{JobState, RequestInfo, RequestState, TapePhase, VolumeState};

/// The severity of a state; the style sheet has a colour for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Quiet,
    Busy,
    Good,
    Wait,
    Bad,
}

impl Tone {
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::Busy => "busy",
            Self::Good => "good",
            Self::Wait => "wait",
            Self::Bad => "bad",
        }
    }
}

/// A state as a small coloured word.
pub(super) fn tag(word: &str, tone: Tone) -> Markup {
    html! { span class={ "tag " (tone.class()) } { (word) } }
}

/// A section with a heading and a remark beside it.
pub(super) fn section(title: &str, remark: &str, body: Markup) -> Markup {
    html! {
        section {
            h2 { (title) @if !remark.is_empty() { small { (remark) } } }
            (body)
        }
    }
}

/// What a section says when it has no rows.
pub(super) fn nothing(text: &str) -> Markup {
    html! { p.nothing { (text) } }
}

/// The row that says how many rows are left out, if any, and which command shows them.
pub(super) fn more(shown: usize, total: u64, command: &str) -> Markup {
    let left = total.saturating_sub(shown as u64);
    html! { @if left > 0 { p.nothing { "and " (count(left)) " more: " code { (command) } } } }
}

/// `part` of `whole` in percent, 0 to 100.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64 * 100.0).clamp(0.0, 100.0) }
}

/// A bar that is filled to `percent`.
pub(super) fn bar(percent: f64, tone: Tone) -> Markup {
    html! {
        span class={ "bar " (tone.class()) } role="img" aria-label={ (format!("{percent:.0} %")) } {
            i style={ "width:" (format!("{percent:.1}")) "%" } {}
        }
    }
}

/// A bar of room that must not run out.
pub(super) fn room_bar(used_percent: f64) -> Markup {
    let tone = match used_percent {
        97.0.. => Tone::Bad,
        88.0.. => Tone::Wait,
        _ => Tone::Busy,
    };
    bar(used_percent, tone)
}

/// A whole number with thin spaces between groups of three.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 * 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    text
}

/// A figure with two decimals while it is small.
pub(super) fn figure(number: f64) -> String {
    if number.abs() < 1000.0 { format!("{number:.2}") } else { count(number as u64) }
}

/// `1 file`, `2 files`.
pub(super) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), noun(number, one, many))
}

/// The time of day, with the date unless it is the day of `now`; UTC.
pub(super) fn clock(now: Timestamp, then: Timestamp) -> String {
    let (today, Civil { year, month, day, hour, minute, second }) = (now.civil(), then.civil());
    if (today.year, today.month, today.day) == (year, month, day) {
        format!("{hour:02}:{minute:02}:{second:02}")
    } else if today.year != year {
        format!("{year:04}-{month:02}-{day:02}")
    } else {
        format!("{month:02}-{day:02} {hour:02}:{minute:02}")
    }
}

/// How long ago `then` was: `12 s`, `3 min`, `2 h 07 min`, `5 d 3 h`.
pub(super) fn age(now: Timestamp, then: Timestamp) -> String {
    span(now - then)
}

/// The colour of a drive's phase.
pub(super) fn phase_tone(phase: TapePhase) -> Tone {
    match phase {
        TapePhase::Idle => Tone::Quiet,
        TapePhase::Transferring => Tone::Good,
        TapePhase::Stuck => Tone::Bad,
        _ => Tone::Busy,
    }
}

/// The colour of a volume's state.
pub(super) fn volume_tone(state: VolumeState) -> Tone {
    match state {
        VolumeState::Blank
        | VolumeState::ReadOnly
        | VolumeState::Full
        | VolumeState::Disabled
        | VolumeState::Exported => Tone::Quiet,
        VolumeState::Appendable => Tone::Good,
        VolumeState::Unread => Tone::Wait,
        VolumeState::Suspect | VolumeState::Broken => Tone::Bad,
    }
}

/// The colour of a queue row.
pub(super) fn request_tone(request: &RequestInfo) -> Tone {
    match request.state {
        RequestState::Active => Tone::Good,
        RequestState::Failed => Tone::Bad,
        RequestState::Queued if request.waits_for_retry() => Tone::Wait,
        RequestState::Queued => Tone::Quiet,
    }
}

/// The colour of a job's state.
pub(super) fn job_tone(state: JobState) -> Tone {
    match state {
        JobState::Held => Tone::Wait,
        JobState::Queued | JobState::Done | JobState::Cancelled => Tone::Quiet,
        JobState::Running => Tone::Good,
        JobState::Archiving => Tone::Busy,
        JobState::Failed => Tone::Bad,
    }
}
