//! Conditional requests: which precondition fields hold, in the order that RFC 9110 §13.2.2 demands.

use super::{EntityTag, parse_http_date};
use base::Timestamp;

/// The precondition fields of one request, as they came.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conditions<'a> {
    /// `If-Match`
    pub if_match: Option<&'a str>,
    /// `If-None-Match`
    pub if_none_match: Option<&'a str>,
    /// `If-Modified-Since`
    pub if_modified_since: Option<&'a str>,
    /// `If-Unmodified-Since`
    pub if_unmodified_since: Option<&'a str>,
}

/// What is known of the present content, for comparing.
#[derive(Debug, Clone, Copy)]
pub struct Validators<'a> {
    /// Its tag; none for a directory.
    pub tag: Option<&'a EntityTag>,
    /// Its last change here.
    pub modified: Timestamp,
    /// What `Last-Modified` says, which may be when it changed where it came from.
    pub shown: Timestamp,
}

impl Validators<'_> {
    /// Whether it is as it was on a date: what was shown then, or not changed since. What is shown may go back when the
    /// content is replaced, so that no other date is compared with it.
    fn is_unchanged(&self, date: i64) -> bool {
        self.shown.seconds() == date || self.modified.seconds() <= date
    }
}

/// How to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Carry the request out.
    Proceed,
    /// Answer 304: the client has it.
    NotModified,
    /// Answer 412 and change nothing.
    Failed,
}

impl Conditions<'_> {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.if_match.is_none()
            && self.if_none_match.is_none()
            && self.if_modified_since.is_none()
            && self.if_unmodified_since.is_none()
    }

    /// Evaluates the fields against the present content, if there is any; `is_read` is true for `GET` and `HEAD`.
    ///
    /// ```
    /// use wire::http::{Conditions, Verdict};
    /// let only_if_new = Conditions { if_none_match: Some("*"), ..Conditions::default() };
    /// assert_eq!(only_if_new.evaluate(None, false), Verdict::Proceed);
    /// ```
    #[must_use]
    pub fn evaluate(&self, now: Option<Validators<'_>>, is_read: bool) -> Verdict {
        let tag = now.and_then(|now| now.tag);
        let since = |field: Option<&str>| field.and_then(|text| parse_http_date(text.trim()));
        if let Some(field) = self.if_match {
            let is_match = match tag {
                Some(tag) => tag.is_match(field),
                None => now.is_some() && field.trim() == "*",
            };
            if !is_match {
                return Verdict::Failed;
            }
        } else if let (Some(date), Some(now)) = (since(self.if_unmodified_since), now)
            && !now.is_unchanged(date)
        {
            return Verdict::Failed;
        }
        if let Some(field) = self.if_none_match {
            let is_none = match tag {
                Some(tag) => tag.is_none_match(field),
                None => now.is_none() || field.trim() != "*",
            };
            return match (is_none, is_read) {
                (true, _) => Verdict::Proceed,
                (false, true) => Verdict::NotModified,
                (false, false) => Verdict::Failed,
            };
        }
        if is_read
            && let (Some(date), Some(now)) = (since(self.if_modified_since), now)
            && now.is_unchanged(date)
        {
            return Verdict::NotModified;
        }
        Verdict::Proceed
    }
}

/// Fuzz body: conditions never panic, and nothing is both there and not.
pub fn fuzz_condition(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let conditions =
        Conditions { if_match: Some(&text), if_none_match: Some(&text), ..Conditions::default() };
    assert_ne!(conditions.evaluate(None, true), Verdict::NotModified);
    let dates = Conditions {
        if_modified_since: Some(&text),
        if_unmodified_since: Some(&text),
        ..Conditions::default()
    };
    let _ = dates.evaluate(Some(Validators { tag: None, modified: Timestamp(0), shown: Timestamp(0) }), true);
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Checksums, FileId};
    use proptest::prelude::*;

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const MODIFIED: Timestamp = Timestamp(784_111_777_900);
    const SHOWN: Timestamp = Timestamp(0);
    const LONG_BEFORE: &str = "Thu, 01 Jan 1970 00:00:00 GMT";

    fn verdict(conditions: Conditions<'_>, is_read: bool) -> Verdict {
        let tag = EntityTag::of(FileId(1), MODIFIED, &Checksums::EMPTY);
        let now = Validators { tag: Some(&tag), modified: MODIFIED, shown: SHOWN };
        conditions.evaluate(Some(now), is_read)
    }

    #[test]
    fn dates() {
        let none = Conditions::default();
        assert_eq!(verdict(Conditions { if_modified_since: Some(THEN), ..none }, true), Verdict::NotModified);
        assert_eq!(verdict(Conditions { if_modified_since: Some(BEFORE), ..none }, true), Verdict::Proceed);
        assert_eq!(verdict(Conditions { if_modified_since: Some(THEN), ..none }, false), Verdict::Proceed);
        assert_eq!(verdict(Conditions { if_unmodified_since: Some(BEFORE), ..none }, false), Verdict::Failed);
        assert_eq!(verdict(Conditions { if_unmodified_since: Some(THEN), ..none }, false), Verdict::Proceed);
        assert_eq!(
            verdict(Conditions { if_modified_since: Some(LONG_BEFORE), ..none }, true),
            Verdict::NotModified
        );
        assert_eq!(
            verdict(Conditions { if_unmodified_since: Some(LONG_BEFORE), ..none }, false),
            Verdict::Proceed
        );
        assert_eq!(verdict(Conditions { if_unmodified_since: Some("soon"), ..none }, true), Verdict::Proceed);
    }

    #[test]
    fn tags_go_before_dates() {
        let tag = EntityTag::of(FileId(1), MODIFIED, &Checksums::EMPTY);
        let none = Conditions::default();
        let matched = Conditions { if_match: Some(tag.as_str()), if_unmodified_since: Some(BEFORE), ..none };
        assert_eq!(verdict(matched, false), Verdict::Proceed);
        let other = Conditions { if_none_match: Some("\"x\""), if_modified_since: Some(THEN), ..none };
        assert_eq!(verdict(other, true), Verdict::Proceed);
        let same = Conditions { if_none_match: Some(tag.as_str()), ..none };
        assert_eq!((verdict(same, true), verdict(same, false)), (Verdict::NotModified, Verdict::Failed));
    }

    #[test]
    fn stars_ask_whether_anything_is_there() {
        let is = Conditions { if_match: Some("*"), ..Conditions::default() };
        let is_not = Conditions { if_none_match: Some("*"), ..Conditions::default() };
        assert_eq!(
            (is.evaluate(None, false), is_not.evaluate(None, false)),
            (Verdict::Failed, Verdict::Proceed)
        );
        let directory = Some(Validators { tag: None, modified: MODIFIED, shown: MODIFIED });
        assert_eq!(is.evaluate(directory, false), Verdict::Proceed);
        assert_eq!(is_not.evaluate(directory, false), Verdict::Failed);
    }

    proptest! {
        #[test]
        fn noise_never_panics(data in prop::collection::vec(any::<u8>(), 0..60)) {
            fuzz_condition(&data);
        }
    }
}
