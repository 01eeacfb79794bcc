//! Lines of the audit log: who did what, to which thing, from where, and with what outcome. Each line is one JSON
//! object.
//!
//! A line contains no secret: the reason of a refusal is cut before the first token or capability in it. Paths are not
//! cut, because a user could then hide an action behind the name of a file.

use base::{ErrorKind, Failure, Result, Timestamp};
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Name of the file that is written; older ones have a number before the end.
pub const FILE: &str = "audit.jsonl";
/// Name of the file that tells what peers were refused that have proven nothing.
pub const REFUSED_FILE: &str = "refused.jsonl";
/// The directory of the files in that of the facility.
pub const DIRECTORY: &str = "audit";
/// Longest reason that is kept.
const WHY_BYTES_MAX: usize = 400;
/// Longest name, path or list that is kept: every path fits.
const WHAT_BYTES_MAX: usize = base::limits::PATH_BYTES_MAX + 256;
/// Longest name of a user that is kept.
const USER_BYTES_MAX: usize = 256;
/// What a proof follows in texts.
const PROOFS: [&str; 4] = ["authz=", "bearer", "eyj", "bp.cap="];

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// When.
    pub at: Timestamp,
    /// The door: `root`, `http`, or `audit` for the log itself.
    pub door: Cow<'static, str>,
    /// From where; none if it was this process itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Who, as far as it was proven.
    pub user: String,
    /// What they wanted. Older files call it `deed`.
    #[serde(alias = "deed")]
    pub action: Cow<'static, str>,
    /// With which path or other thing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// The other path, of those that have two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Why it was refused; none if it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<ErrorKind>,
    /// The reason in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Of several like it that are told together: how many. The line is the last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl Record {
    /// Notes the outcome.
    #[must_use]
    pub fn with_outcome(self, failure: Option<&Failure>) -> Self {
        let refused = failure.map(|failure| failure.kind);
        Self { refused, why: failure.map(|failure| said(&failure.what)), ..self }
    }

    /// The line, with its end.
    #[must_use]
    pub fn line(&self) -> String {
        let what = cut(&self.what, WHAT_BYTES_MAX);
        let to = self.to.as_ref().map(|to| cut(to, WHAT_BYTES_MAX));
        let user = cut(&self.user, USER_BYTES_MAX);
        let mut text = serde_json::to_string(&Self { user, what, to, ..self.clone() })
            .expect("plain values always serialise");
        text.push('\n');
        text
    }

    /// Reads a line.
    pub fn parse(line: &str) -> Result<Self> {
        serde_json::from_str(line)
            .map_err(|cause| Failure::corrupt(format!("a line of the audit log is damaged: {cause}")))
    }
}

/// A reason without what proves something.
fn said(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let proof = PROOFS.iter().filter_map(|proof| lower.find(proof)).min();
    cut(text, proof.unwrap_or(WHY_BYTES_MAX).min(WHY_BYTES_MAX))
}

/// A text of at most `max` bytes, and a sign that it was longer.
fn cut(text: &str, max: usize) -> String {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    if end == text.len() { text.to_owned() } else { format!("{}…", &text[..end]) }
}

/// Fuzz body: a line that is read says the same when it is written again.
pub fn fuzz_audit(data: &[u8]) {
    if let Ok(record) = Record::parse(&String::from_utf8_lossy(data)) {
        let line = record.line();
        let again = Record::parse(line.trim_end()).expect("what was written can be read");
        assert_eq!(again.line(), line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            at: Timestamp(5),
            door: "root".into(),
            address: Some("192.0.2.1".parse().unwrap()),
            user: "ann".to_owned(),
            action: "rename".into(),
            what: "/a \"b\"\n".to_owned(),
            to: Some("/c".to_owned()),
            refused: None,
            why: None,
            count: None,
        }
    }

    #[test]
    fn a_line_is_made_byte_by_byte() {
        let line = record().line();
        assert_eq!(
            line,
            "{\"at\":5,\"door\":\"root\",\"address\":\"192.0.2.1\",\"user\":\"ann\",\"action\":\"rename\",\
             \"what\":\"/a \\\"b\\\"\\n\",\"to\":\"/c\"}\n"
        );
        assert_eq!(Record::parse(line.trim_end()).unwrap(), record());
        assert!(Record::parse("{").is_err());
        fuzz_audit(line.as_bytes());
    }

    #[test]
    fn refusals_say_why_and_no_secret() {
        let refused = |what: &str| {
            let record = record().with_outcome(Some(&Failure::permission(what)));
            (record.refused, record.why.unwrap())
        };
        assert_eq!(refused("user ann may not"), (Some(ErrorKind::Permission), "user ann may not".to_owned()));
        assert_eq!(refused("path /a?authz=Bearer%20x.y.z is odd").1, "path /a?…");
        assert_eq!(refused("token EYJhbGciOi is odd").1, "token …");
        let long = refused(&"ü".repeat(300)).1;
        assert!(long.len() <= WHY_BYTES_MAX + 3 && long.ends_with("ü…"), "{long}");
        let named = Record { what: "/bearer/authz=/eyja".to_owned(), ..record() };
        assert!(named.line().contains("/bearer/authz=/eyja"), "nobody hides behind a name");
    }
}
