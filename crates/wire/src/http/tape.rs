//! Bodies of the WLCG Tape REST API v1, as its reference document has them.
//!
//! A client may send more than the document names; what is not known is ignored, as the document demands.

use crate::control::{
    FileLocality, Locality, StageFile, StageRequestId, StageRequestInfo, StageState, StagedFile,
};
use base::{Millis, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Longest duration in text: the reader looks at no more.
const DURATION_BYTES_MAX: usize = 64;

/// The discovery document.
#[derive(Debug, Serialize)]
pub struct Discovery<'a> {
    /// The identifier for metadata that are meant for this facility.
    pub sitename: &'a str,
    /// For people.
    pub description: &'a str,
    /// One for each version.
    pub endpoints: [Endpoint; 1],
}

/// An endpoint of the API.
#[derive(Debug, Serialize)]
pub struct Endpoint {
    /// Where it is.
    pub uri: String,
    /// The version.
    pub version: &'static str,
    /// Nothing more is said.
    pub metadata: Map<String, Value>,
}

/// A request to stage files.
#[derive(Debug, Deserialize)]
pub struct StageBody {
    /// The files.
    pub files: Vec<StageBodyFile>,
}

/// One file of it.
#[derive(Debug, Deserialize)]
pub struct StageBodyFile {
    /// The path.
    pub path: String,
    /// How long it should stay on disk, ISO 8601.
    #[serde(default, rename = "diskLifetime")]
    pub disk_lifetime: Option<String>,
    /// Hints, by the name of the facility that they are meant for.
    #[serde(default, rename = "targetedMetadata")]
    pub targeted_metadata: Option<Map<String, Value>>,
}

impl StageBodyFile {
    /// The file as the head is asked for it, with the metadata for this facility.
    #[must_use]
    pub fn into_file(self, sitename: &str) -> StageFile {
        let read = self.disk_lifetime.as_deref().map(|text| {
            parse_duration(text).ok_or_else(|| format!("diskLifetime {text:.40?} is no ISO 8601 duration"))
        });
        let (lifetime, refused) = match read {
            Some(Ok(lifetime)) => (Some(lifetime), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        let metadata = self.targeted_metadata.and_then(|all| all.get(sitename).map(Value::to_string));
        StageFile { path: self.path, lifetime, metadata, refused }
    }
}

/// Paths of a question or an order.
#[derive(Debug, Deserialize)]
pub struct PathsBody {
    /// The paths.
    pub paths: Vec<String>,
}

/// The answer to a request to stage files.
#[derive(Debug, Serialize)]
pub struct StageCreated {
    /// Its number.
    #[serde(rename = "requestId")]
    pub request_id: String,
}

/// How far a request is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageStatus {
    id: String,
    created_at: i64,
    started_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<i64>,
    files: Vec<StageFileStatus>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StageFileStatus {
    path: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl From<StageRequestInfo> for StageStatus {
    fn from(info: StageRequestInfo) -> Self {
        let started = info.files.iter().filter_map(|file| file.started).min();
        Self {
            id: info.id.to_string(),
            created_at: info.created.seconds(),
            // Not optional: before the first file has started it is the time of the request.
            started_at: started.unwrap_or(info.created).seconds(),
            completed_at: info.completed.map(Timestamp::seconds),
            files: info.files.into_iter().map(StageFileStatus::from).collect(),
        }
    }
}

impl From<StagedFile> for StageFileStatus {
    fn from(file: StagedFile) -> Self {
        let state = match file.state {
            StageState::Submitted => "SUBMITTED",
            StageState::Started => "STARTED",
            StageState::Completed => "COMPLETED",
            StageState::Failed => "FAILED",
            StageState::Cancelled => "CANCELLED",
        };
        Self {
            path: file.path,
            state,
            started_at: file.started.map(Timestamp::seconds),
            finished_at: file.finished.map(Timestamp::seconds),
            error: file.error,
        }
    }
}

/// Where one file is.
#[derive(Debug, Serialize)]
pub struct ArchiveInfo {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    locality: Option<Locality>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl From<FileLocality> for ArchiveInfo {
    fn from(file: FileLocality) -> Self {
        let FileLocality { path, locality, failure } = file;
        Self { path, locality, error: failure.map(|failure| failure.what) }
    }
}

/// Reads the number of a request; what is none belongs to no request of this facility.
#[must_use]
pub fn parse_request_id(text: &str) -> Option<StageRequestId> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok().map(StageRequestId)).flatten()
}

/// Reads an ISO 8601 duration such as `PT1H`, `P1DT12H` or `P2W`. A month is 30 days, a year 365.
///
/// ```
/// use wire::http::tape::parse_duration;
/// assert_eq!(parse_duration("P1DT1H"), Some(base::Millis::from_seconds(25 * 3600)));
/// assert_eq!(parse_duration("1 day"), None);
/// ```
#[must_use]
pub fn parse_duration(text: &str) -> Option<Millis> {
    if text.len() > DURATION_BYTES_MAX {
        return None;
    }
    let (date, time) = match text.strip_prefix('P')?.split_once('T') {
        Some((date, time)) if !time.is_empty() => (date, time),
        Some(_) => return None,
        None => (text.strip_prefix('P')?, ""),
    };
    if date.is_empty() && time.is_empty() {
        return None;
    }
    const DAY: i64 = 24 * 3600;
    let days = parse_units(date, &[('Y', 365 * DAY), ('M', 30 * DAY), ('W', 7 * DAY), ('D', DAY)])?;
    let seconds = parse_units(time, &[('H', 3600), ('M', 60), ('S', 1)])?;
    days.checked_add(seconds).map(Millis)
}

/// Sums numbers with their units, each at most once and in this order, in ms.
fn parse_units(mut text: &str, units: &[(char, i64)]) -> Option<i64> {
    let mut units = units.iter();
    let mut sum = 0_i64;
    while !text.is_empty() {
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','))?;
        let (number, rest) = text.split_at(end);
        let unit = rest.chars().next()?;
        let (_, seconds) = units.by_ref().find(|(known, _)| *known == unit)?;
        let number: f64 = number.replace(',', ".").parse().ok()?;
        let ms = number * *seconds as f64 * 1000.0;
        // Far beyond every bound, and far from where numbers overflow.
        if !(0.0..1e17).contains(&ms) {
            return None;
        }
        sum = sum.checked_add(ms as i64)?;
        text = &rest[unit.len_utf8()..];
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_as_iso_8601_has_them() {
        let seconds = |text: &str| parse_duration(text).map(|span| span.0 / 1000);
        for (text, expected) in [
            ("PT1H", Some(3600)),
            ("PT90M", Some(5400)),
            ("P1D", Some(86_400)),
            ("P1DT12H", Some(129_600)),
            ("P2W", Some(1_209_600)),
            ("P1M", Some(2_592_000)),
            ("P1Y2M3DT4H5M6S", Some(31_536_000 + 5_184_000 + 259_200 + 14_706)),
            ("PT0.5S", Some(0)),
            ("PT1,5H", Some(5400)),
            ("PT0S", Some(0)),
            ("P", None),
            ("PT", None),
            ("P1DT", None),
            ("1D", None),
            ("P1H", None),
            ("PT1D", None),
            ("PT1M1H", None),
            ("P-1D", None),
            ("PT1", None),
            ("PTH", None),
            ("P1Dé", None),
            ("P9999999999999999999999Y", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    #[test]
    fn a_stage_request_is_read_with_what_nobody_knows() {
        let body: StageBody = serde_json::from_str(
            r#"{"files": [{"path": "/f", "diskLifetime": "PT1H", "odd": 1, "targetedMetadata":
                {"here": {"activity": "x"}, "there": {}}}, {"path": "/g", "diskLifetime": "soon"}], "more": []}"#,
        )
        .unwrap();
        let files: Vec<_> = body.files.into_iter().map(|file| file.into_file("here")).collect();
        assert_eq!(files[0].lifetime, Some(Millis::from_seconds(3600)));
        assert_eq!(files[0].metadata.as_deref(), Some(r#"{"activity":"x"}"#));
        assert_eq!((files[0].refused.as_deref(), files[1].lifetime), (None, None));
        assert!(files[1].refused.as_ref().unwrap().contains("\"soon\""));
        assert_eq!((parse_request_id("12"), parse_request_id("+1")), (Some(StageRequestId(12)), None));
        assert_eq!(parse_request_id("99999999999999999999"), None);
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in ".{0,80}") {
            let _ = (parse_duration(&text), parse_duration(&format!("P{text}")), parse_request_id(&text));
        }

        #[test]
        fn whole_units_come_back(days in 0..10_000i64, hours in 0..10_000i64) {
            let text = format!("P{days}DT{hours}H");
            prop_assert_eq!(parse_duration(&text), Some(Millis::from_seconds(days * 86_400 + hours * 3600)));
        }
    }
}
