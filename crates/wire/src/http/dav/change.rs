//! `PROPPATCH` (RFC 4918 §9.2): which properties can be set, and to what. The time of the content is the only one.

use super::{
    DAV, OWNCLOUD, PROPERTIES_MAX, PropertyName, parse_mtime,
    request::{Step, walk},
};
use crate::http::parse_http_date;
use base::{Failure, Result, Timestamp};

/// The namespace of what Windows sends behind each upload.
const WINDOWS: &str = "urn:schemas-microsoft-com:";
/// Longest value that is read: dates and numbers are shorter, and nothing else is understood.
const VALUE_BYTES_MAX: usize = 64;

/// A property that is to be set or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PropertyChange {
    /// Which one.
    pub name: PropertyName,
    /// The text of its new value, as far as it can be a date; `None` if it is to be removed.
    pub value: Option<String>,
}

/// What becomes of one property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PropertyOutcome {
    /// It is set.
    Done,
    /// It could be set, but another one of the request cannot: all are set or none.
    Dependent,
    /// The value makes no sense.
    Senseless,
    /// It follows from the file, or is not kept.
    Protected,
}

/// What a `PROPPATCH` does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PropertyPlan {
    /// The new time of the content, if all is well.
    pub modified: Option<Timestamp>,
    /// What becomes of each property.
    pub outcomes: Vec<(PropertyName, PropertyOutcome)>,
}

/// What a property is here.
enum Meaning {
    /// The time of the content.
    Time(fn(&str) -> Option<Timestamp>),
    /// Taken, and not kept: clients send it beside the time and take a refusal for that of the file.
    Ignored,
    Protected,
}

fn date(text: &str) -> Option<Timestamp> {
    parse_http_date(text).filter(|seconds| *seconds >= 0).map(|seconds| Timestamp(seconds * 1000))
}

fn seconds(text: &str) -> Option<Timestamp> {
    parse_mtime(text).ok()
}

fn meaning(name: &PropertyName) -> Meaning {
    match (name.namespace(), name.local()) {
        (DAV, "getlastmodified") | (WINDOWS, "Win32LastModifiedTime") => Meaning::Time(date),
        (DAV | OWNCLOUD, "lastmodified") => Meaning::Time(seconds),
        (WINDOWS, "Win32CreationTime" | "Win32LastAccessTime" | "Win32FileAttributes")
        | (OWNCLOUD, "checksums") => Meaning::Ignored,
        _ => Meaning::Protected,
    }
}

impl PropertyPlan {
    /// Decides what becomes of each property, in the order of the request.
    #[must_use]
    pub fn of(changes: &[PropertyChange]) -> Self {
        let mut modified = None;
        let judge = |change: &PropertyChange| match (meaning(&change.name), &change.value) {
            (Meaning::Ignored, _) => PropertyOutcome::Done,
            (Meaning::Time(read), Some(value)) => match read(value.trim()) {
                Some(time) => {
                    modified = Some(time);
                    PropertyOutcome::Done
                }
                None => PropertyOutcome::Senseless,
            },
            _ => PropertyOutcome::Protected,
        };
        let mut outcomes: Vec<_> = changes.iter().map(judge).collect();
        if outcomes.iter().any(|outcome| *outcome > PropertyOutcome::Done) {
            modified = None;
            let done = outcomes.iter_mut().filter(|outcome| **outcome == PropertyOutcome::Done);
            done.for_each(|outcome| *outcome = PropertyOutcome::Dependent);
        }
        let names = changes.iter().map(|change| change.name.clone());
        Self { modified, outcomes: names.zip(outcomes).collect() }
    }
}

/// Reads a body of `PROPPATCH`: the properties that are to be set or removed, in their order.
pub fn parse_proppatch(body: &[u8]) -> Result<Vec<PropertyChange>> {
    let (mut path, mut changes) = (Vec::<PropertyName>::new(), Vec::new());
    walk(body, |step| {
        match step {
            Step::Leave => drop(path.pop()),
            Step::Text(text) if path.len() == 4 && is_change(&path) => add_text(&mut changes, text),
            Step::Text(_) => {}
            Step::Enter(name) => {
                if path.is_empty() && !name.is_dav("propertyupdate") {
                    return Err(Failure::invalid("the XML body is not DAV: propertyupdate"));
                }
                path.push(name.clone());
                if path.len() == 4 && is_change(&path) {
                    let value = path[1].is_dav("set").then(String::new);
                    add(&mut changes, PropertyChange { name, value })?;
                }
            }
        }
        Ok(())
    })?;
    if changes.is_empty() {
        return Err(Failure::invalid("propertyupdate names no property"));
    }
    Ok(changes)
}

/// Whether the way from the root is that to a property.
fn is_change(path: &[PropertyName]) -> bool {
    path[2].is_dav("prop") && (path[1].is_dav("set") || path[1].is_dav("remove"))
}

/// Adds a change; of several of one property the last one counts (RFC 4918 §9.2: they are made in their order).
fn add(changes: &mut Vec<PropertyChange>, change: PropertyChange) -> Result<()> {
    changes.retain(|known| known.name != change.name);
    if changes.len() == PROPERTIES_MAX {
        return Err(Failure::invalid(format!("more than {PROPERTIES_MAX} properties are named at once")));
    }
    changes.push(change);
    Ok(())
}

fn add_text(changes: &mut [PropertyChange], text: &str) {
    if let Some(PropertyChange { value: Some(value), .. }) = changes.last_mut()
        && value.len() + text.len() <= VALUE_BYTES_MAX
    {
        value.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PropertyOutcome::{Dependent, Done, Protected, Senseless};

    fn name(namespace: &str, local: &str) -> PropertyName {
        PropertyName::new(namespace, local).unwrap()
    }

    #[test]
    fn updates() {
        let body = br#"<D:propertyupdate xmlns:D="DAV:" xmlns:Z="http://z/?a&amp;b">
            <D:set><D:prop><Z:authors> a<Z:author>x</Z:author>b</Z:authors></D:prop></D:set>
            <D:remove><D:prop><Z:old/></D:prop></D:remove></D:propertyupdate>"#;
        let name = |local| name("http://z/?a&b", local);
        let authors = PropertyChange { name: name("authors"), value: Some(" ab".into()) };
        let old = PropertyChange { name: name("old"), value: None };
        assert_eq!(parse_proppatch(body).unwrap(), [authors, old]);
        let empty = br#"<propertyupdate xmlns="DAV:"><set><prop/></set></propertyupdate>"#;
        assert!(parse_proppatch(empty).is_err());
        assert!(parse_proppatch(br#"<propfind xmlns="DAV:"><prop/></propfind>"#).is_err());
    }

    fn plan(properties: &str) -> (Option<i64>, Vec<PropertyOutcome>) {
        let body = format!(
            r#"<D:propertyupdate xmlns:D="DAV:" xmlns:O="{OWNCLOUD}" xmlns:W="{WINDOWS}"><D:set><D:prop>{properties}</D:prop></D:set>
            </D:propertyupdate>"#
        );
        let plan = PropertyPlan::of(&parse_proppatch(body.as_bytes()).unwrap());
        (plan.modified.map(|time| time.0), plan.outcomes.into_iter().map(|(_, outcome)| outcome).collect())
    }

    #[test]
    fn times_as_clients_write_them() {
        let when = Some(784_111_777_000);
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (properties, count) in [
            (format!("<D:getlastmodified> {date}\n</D:getlastmodified>"), 1),
            ("<D:lastmodified>784111777</D:lastmodified>".into(), 1),
            (
                "<O:lastmodified>784111777</O:lastmodified><O:checksums><O:checksum>x</O:checksum></O:checksums>"
                    .into(),
                2,
            ),
            (
                format!(
                    "<W:Win32CreationTime>{date}</W:Win32CreationTime><W:Win32LastAccessTime>{date}</W:Win32LastAccessTime>\
                     <W:Win32LastModifiedTime>{date}</W:Win32LastModifiedTime><W:Win32FileAttributes>00000020</W:Win32FileAttributes>"
                ),
                4,
            ),
        ] {
            assert_eq!(plan(&properties), (when, vec![Done; count]), "{properties}");
        }
    }

    #[test]
    fn all_are_set_or_none() {
        let time = "<D:lastmodified>784111777</D:lastmodified>";
        assert_eq!(plan(&format!("{time}<D:getetag>x</D:getetag>")), (None, vec![Dependent, Protected]));
        for bad in ["yesterday", "", "-1", &"1".repeat(VALUE_BYTES_MAX + 1)] {
            assert_eq!(
                plan(&format!("<D:lastmodified>{bad}</D:lastmodified>")),
                (None, vec![Senseless]),
                "{bad}"
            );
        }
        let last = plan(&format!("<D:lastmodified>1</D:lastmodified>{time}"));
        assert_eq!(last, (Some(784_111_777_000), vec![Done]), "the last one counts");
        let removed = PropertyChange { name: name(DAV, "getlastmodified"), value: None };
        assert_eq!(PropertyPlan::of(&[removed]).outcomes[0].1, Protected);
    }
}
