//! Jobs and queues as POSIX names them: `12.server`, `12[3].server@host`, `long@server`.

use super::SERVER;
use base::JobId;
use wire::control::{ArrayElement, JobInfo, JobSelection};

/// Reads the name of a job: `12`, `12.server`, `12[]` (an array), `12[3]` or `12[1-5]` (elements of one).
pub(crate) fn selection(text: &str) -> Option<JobSelection> {
    let text = text.trim();
    let text = text.split_once('@').map_or(text, |(job, _)| job);
    let text = text.split_once('.').map_or(text, |(job, _)| job);
    let plain = match text.split_once('[') {
        None => text.to_owned(),
        Some((job, "]")) => job.to_owned(),
        Some((job, indices)) => format!("{job}_[{}]", indices.strip_suffix(']')?),
    };
    plain.parse().ok()
}

/// The name of a job.
pub(crate) fn shown(job: &JobInfo) -> String {
    match job.array {
        Some(ArrayElement { array, index }) => format!("{array}[{index}].{SERVER}"),
        None => named(job.id),
    }
}

/// The name of a job by its number.
pub(crate) fn named(job: JobId) -> String {
    format!("{job}.{SERVER}")
}

/// The queue of a destination `queue@server`; none if only a server is named.
pub(crate) fn queue(destination: &str) -> Option<&str> {
    let queue = destination.split_once('@').map_or(destination, |(queue, _)| queue);
    Some(queue).filter(|queue| !queue.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shims::sample;

    #[test]
    fn jobs_and_destinations_have_names() {
        let read = |text| selection(text).map(|found| found.to_string());
        for (text, expected) in [
            ("12", Some("12")),
            ("12.backplane", Some("12")),
            ("12.a.example.org@b", Some("12")),
            ("12[].backplane", Some("12")),
            ("12[3]", Some("12_3")),
            ("12[1-5].s", Some("12_[1-5]")),
            ("", None),
            ("x.s", None),
            ("12[", None),
        ] {
            assert_eq!(read(text).as_deref(), expected, "{text}");
        }
        assert_eq!(shown(&sample::element(sample::job(13), 12, 1)), "12[1].backplane");
        assert_eq!((queue("long@s"), queue("@s"), queue("long")), (Some("long"), None, Some("long")));
    }
}
