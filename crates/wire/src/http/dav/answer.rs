//! The XML of answers, written piece by piece so that a large directory is never held as a whole.

use super::{
    change::PropertyOutcome,
    names::{LiveProperty, PropertyName, is_text},
    request::Propfind,
};
use crate::http::{EntityTag, http_date};
use base::{Adler32, Civil, Timestamp};
use std::fmt::Write as _;

/// Media type of all XML here.
pub const XML_TYPE: &str = "application/xml; charset=utf-8";
/// What stands before the first response of a 207.
pub const MULTISTATUS_HEAD: &str =
    "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">";
/// What stands after the last response of a 207.
pub const MULTISTATUS_TAIL: &str = "\n</D:multistatus>\n";

/// Bytes used and free, as far as the asker is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Bytes stored.
    pub used_bytes: u64,
    /// Bytes that can still be stored.
    pub available_bytes: u64,
}

/// A file or directory as `PROPFIND` tells of it.
#[derive(Debug, Clone)]
pub struct Resource<'a> {
    /// Where it is: an encoded path, with a slash at the end for a directory.
    pub href: &'a str,
    /// Last component; empty for the root.
    pub name: &'a str,
    /// Whether it is a directory.
    pub is_collection: bool,
    /// Bytes.
    pub size: u64,
    /// Last change.
    pub modified: Timestamp,
    /// Permission bits.
    pub mode: u32,
    /// Tag of the content; none for directories.
    pub tag: Option<&'a EntityTag>,
    /// Adler-32 of the content, if there is content.
    pub adler32: Option<Adler32>,
    /// Media type of files.
    pub content_type: &'a str,
    /// Room; directories only, and only if asked for.
    pub quota: Option<Quota>,
}

impl Resource<'_> {
    /// As [`Self::value`], for a property that is asked for by its name.
    fn named_value(&self, live: LiveProperty) -> Option<String> {
        // Clients of the grid show the length of the entry before if a directory has none.
        let is_length = live == LiveProperty::ContentLength && self.is_collection;
        if is_length { Some("0".to_owned()) } else { self.value(live) }
    }

    /// The element's content, as XML; none if this resource has no such property.
    fn value(&self, live: LiveProperty) -> Option<String> {
        let is_file = !self.is_collection;
        match live {
            LiveProperty::ResourceType => {
                Some(if self.is_collection { "<D:collection/>".to_owned() } else { String::new() })
            }
            LiveProperty::DisplayName => Some(escape(self.name)),
            LiveProperty::LastModified => Some(http_date(self.modified.seconds())),
            LiveProperty::CreationDate => Some(iso_date(self.modified.seconds())),
            LiveProperty::ContentLength => is_file.then(|| self.size.to_string()),
            LiveProperty::ContentType => is_file.then(|| escape(self.content_type)),
            LiveProperty::Etag => self.tag.map(|tag| escape(tag.as_str())),
            LiveProperty::QuotaUsed => self.quota.map(|quota| quota.used_bytes.to_string()),
            LiveProperty::QuotaAvailable => self.quota.map(|quota| quota.available_bytes.to_string()),
            LiveProperty::Mode => {
                let kind = if self.is_collection { 0o040_000 } else { 0o100_000 };
                Some(format!("{:07o}", kind | self.mode & 0o7777))
            }
            LiveProperty::SumType => self.adler32.map(|_| "AD".to_owned()),
            LiveProperty::SumValue => self.adler32.map(|sum| sum.to_string()),
            // The prefix is that of the element around it.
            LiveProperty::Checksums => {
                self.adler32.map(|sum| format!("<x:checksum>ADLER32:{sum}</x:checksum>"))
            }
        }
    }
}

/// Writes the `response` element of one resource.
pub fn write_resource(out: &mut String, resource: &Resource<'_>, asked: &Propfind) {
    let (mut found, mut missing) = (String::new(), String::new());
    match asked {
        Propfind::Names => {
            for live in LiveProperty::ALL {
                if resource.value(live).is_some() {
                    write_element(&mut found, live.namespace(), live.local(), "");
                }
            }
        }
        Propfind::All(also) => {
            let usual = LiveProperty::ALL.into_iter().filter(|live| live.is_in_allprop());
            for live in usual {
                if let Some(value) = resource.value(live) {
                    write_element(&mut found, live.namespace(), live.local(), &value);
                }
            }
            let also = also.iter().filter(|name| !name.live().is_some_and(LiveProperty::is_in_allprop));
            write_named(&mut found, &mut missing, resource, also);
        }
        Propfind::Named(names) => write_named(&mut found, &mut missing, resource, names.iter()),
    }
    out.push_str("\n<D:response><D:href>");
    out.push_str(&escape(resource.href));
    out.push_str("</D:href>");
    if !found.is_empty() || missing.is_empty() {
        write_propstat(out, &found, "200 OK");
    }
    if !missing.is_empty() {
        write_propstat(out, &missing, "404 Not Found");
    }
    out.push_str("</D:response>");
}

fn write_named<'a>(
    found: &mut String,
    missing: &mut String,
    resource: &Resource<'_>,
    names: impl Iterator<Item = &'a PropertyName>,
) {
    for name in names {
        match name.live().and_then(|live| resource.named_value(live)) {
            Some(value) => write_element(found, name.namespace(), name.local(), &value),
            None => write_element(missing, name.namespace(), name.local(), ""),
        }
    }
}

fn write_propstat(out: &mut String, properties: &str, status: &str) {
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "<D:propstat><D:prop>{properties}</D:prop><D:status>HTTP/1.1 {status}</D:status></D:propstat>"
    );
}

/// One element; `D` stands for `DAV:` everywhere, other namespaces are declared where they are used.
fn write_element(out: &mut String, namespace: &str, local: &str, value: &str) {
    let _ = match namespace {
        super::DAV if value.is_empty() => write!(out, "<D:{local}/>"),
        super::DAV => write!(out, "<D:{local}>{value}</D:{local}>"),
        "" => write!(out, "<{local}>{value}</{local}>"),
        other => write!(out, "<x:{local} xmlns:x=\"{}\">{value}</x:{local}>", escape(other)),
    };
}

/// Writes the `response` element of a resource on which the request failed.
pub fn write_status(out: &mut String, href: &str, status: &str, why: &str) {
    let _ = write!(
        out,
        "\n<D:response><D:href>{}</D:href><D:status>HTTP/1.1 {}</D:status><D:responsedescription>{}\
         </D:responsedescription></D:response>",
        escape(href),
        escape(status),
        escape(why)
    );
}

/// Writes the `response` element of a `PROPPATCH`: what became of each property, those of one outcome together.
pub fn write_proppatch(out: &mut String, href: &str, outcomes: &[(PropertyName, PropertyOutcome)]) {
    let _ = write!(out, "\n<D:response><D:href>{}</D:href>", escape(href));
    for (outcome, status, more) in PROPPATCH_STATUSES {
        let names = || outcomes.iter().filter(|(_, found)| *found == outcome).map(|(name, _)| name);
        if names().next().is_none() {
            continue;
        }
        out.push_str("<D:propstat><D:prop>");
        names().for_each(|name| write_element(out, name.namespace(), name.local(), ""));
        let _ = write!(out, "</D:prop><D:status>HTTP/1.1 {status}</D:status>{more}</D:propstat>");
    }
    out.push_str("</D:response>");
}

/// What each outcome is in an answer, and what is said beside it.
const PROPPATCH_STATUSES: [(PropertyOutcome, &str, &str); 4] = [
    (PropertyOutcome::Done, "200 OK", ""),
    (
        PropertyOutcome::Protected,
        "403 Forbidden",
        "<D:error><D:cannot-modify-protected-property/></D:error>\
         <D:responsedescription>properties of this server follow from the files; only the time of a file can be set\
         </D:responsedescription>",
    ),
    (
        PropertyOutcome::Senseless,
        "409 Conflict",
        "<D:responsedescription>the value is no time: getlastmodified takes a date as in Last-Modified, lastmodified seconds \
         since 1970</D:responsedescription>",
    ),
    (PropertyOutcome::Dependent, "424 Failed Dependency", ""),
];

/// A body that names a precondition of RFC 4918 §16, for example `propfind-finite-depth`.
#[must_use]
pub fn error_body(condition: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\"><D:{condition}/></D:error>\n"
    )
}

/// `1994-11-06T08:49:37Z` (RFC 3339).
fn iso_date(seconds: i64) -> String {
    let Civil { year, month, day, hour, minute, second } = Civil::of(seconds);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Text as it can stand in content and attributes; what XML cannot say becomes U+FFFD.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            c if is_text(c) => out.push(c),
            _ => out.push('\u{fffd}'),
        }
    }
    out
}

/// An answer in which any names occur in every place; for the fuzz body.
pub(super) fn tests_answer(names: &[PropertyName]) -> String {
    let resource = Resource {
        href: "/a%20b",
        name: "a b",
        is_collection: false,
        size: 1,
        modified: Timestamp(0),
        mode: 0o644,
        tag: None,
        adler32: None,
        content_type: "text/plain",
        quota: None,
    };
    let mut out = MULTISTATUS_HEAD.to_owned();
    write_resource(&mut out, &resource, &Propfind::Named(names.to_vec()));
    write_resource(&mut out, &resource, &Propfind::All(names.to_vec()));
    let refused: Vec<_> = names.iter().map(|name| (name.clone(), PropertyOutcome::Protected)).collect();
    write_proppatch(&mut out, "/a%20b", &refused);
    out.push_str(MULTISTATUS_TAIL);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Checksums, FileId};
    use proptest::prelude::*;

    fn resource(tag: &EntityTag) -> Resource<'_> {
        Resource {
            href: "/d/a%26b",
            name: "a&b",
            is_collection: false,
            size: 9,
            modified: Timestamp(784_111_777_000),
            mode: 0o644,
            tag: Some(tag),
            adler32: Some(Adler32(0x91e_01de)),
            content_type: "application/octet-stream",
            quota: None,
        }
    }

    #[test]
    fn a_file() {
        let tag = EntityTag::of(FileId(1), Timestamp(0), &Checksums::EMPTY);
        let mut out = String::new();
        write_resource(&mut out, &resource(&tag), &Propfind::All(vec![]));
        for part in [
            "<D:href>/d/a%26b</D:href>",
            "<D:resourcetype/>",
            "<D:displayname>a&amp;b</D:displayname>",
            "<D:getlastmodified>Sun, 06 Nov 1994 08:49:37 GMT</D:getlastmodified>",
            "<D:creationdate>1994-11-06T08:49:37Z</D:creationdate>",
            "<D:getcontentlength>9</D:getcontentlength>",
            "<D:getetag>&quot;",
        ] {
            assert!(out.contains(part), "{part} in {out}");
        }
        assert!(!out.contains("quota") && !out.contains("LCGDM") && !out.contains("404"));
    }

    #[test]
    fn what_is_asked_for_and_not_there() {
        let names = [
            ("LCGDM:", "mode"),
            ("LCGDM:", "sumvalue"),
            ("http://owncloud.org/ns", "checksums"),
            ("DAV:", "quota-used-bytes"),
            ("z\"<", "zz"),
        ];
        let names: Vec<_> =
            names.iter().map(|(space, local)| PropertyName::new(space, local).unwrap()).collect();
        let tag = EntityTag::of(FileId(1), Timestamp(0), &Checksums::EMPTY);
        let mut out = String::new();
        write_resource(&mut out, &resource(&tag), &Propfind::Named(names.clone()));
        let (found, missing) = out.split_once("HTTP/1.1 200 OK").unwrap();
        assert!(found.contains(">0100644<") && found.contains(">091e01de<"));
        let checksums = "xmlns:x=\"http://owncloud.org/ns\"><x:checksum>ADLER32:091e01de</x:checksum>";
        assert!(found.contains(checksums), "{found}");
        assert!(missing.contains("<D:quota-used-bytes/>") && missing.contains("404 Not Found"));
        assert!(missing.contains("<x:zz xmlns:x=\"z&quot;&lt;\"></x:zz>"));
        let outcomes = [PropertyOutcome::Protected, PropertyOutcome::Dependent].into_iter().cycle();
        let outcomes: Vec<_> = names.into_iter().zip(outcomes).collect();
        let mut refused = String::new();
        write_proppatch(&mut refused, "/", &outcomes);
        assert_eq!(refused.matches("<D:propstat>").count(), 2, "{refused}");
        assert!(
            refused.contains("403 Forbidden")
                && refused.contains("424 Failed")
                && !refused.contains("200 OK")
        );
    }

    #[test]
    fn a_directory() {
        let quota = Some(Quota { used_bytes: 5, available_bytes: 7 });
        let mut directory =
            Resource { tag: None, adler32: None, is_collection: true, quota, ..resource_of_nothing() };
        directory.href = "/d/";
        let mut out = String::new();
        let asked = PropertyName::new("DAV:", "quota-available-bytes").unwrap();
        write_resource(&mut out, &directory, &Propfind::All(vec![asked]));
        assert!(out.contains("<D:resourcetype><D:collection/></D:resourcetype>"));
        assert!(out.contains("<D:quota-available-bytes>7<"));
        assert!(!out.contains("getcontentlength"));
    }

    fn resource_of_nothing() -> Resource<'static> {
        Resource {
            href: "/",
            name: "",
            is_collection: true,
            size: 0,
            modified: Timestamp(0),
            mode: 0o755,
            tag: None,
            adler32: None,
            content_type: "",
            quota: None,
        }
    }

    proptest! {
        #[test]
        fn names_never_break_the_document(name: String) {
            let escaped = escape(&name);
            let is_broken = escaped.contains(['<', '>', '"']) || !escaped.chars().all(is_text);
            prop_assert!(!is_broken);
        }
    }
}
