//! Bodies of `PROPFIND`, and the parts that bodies of `PROPPATCH` share with them.
//!
//! The parser is strict: a body is UTF-8 and well-formed, has one root, no document type and no unbound prefix. It skips
//! elements that the schema does not have, as RFC 4918 §17 demands.

use super::{
    DAV_BODY_BYTES_MAX, LiveProperty, PROPERTIES_MAX, PropertyName,
    change::{PropertyPlan, parse_proppatch},
};
use base::{Failure, Result};
use quick_xml::{
    NsReader,
    events::{BytesStart, Event},
    name::ResolveResult,
};

/// Elements within elements: no schema here needs more than five.
const DEPTH_MAX: usize = 32;

/// What a `PROPFIND` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Propfind {
    /// All properties that are usually told, and these.
    All(Vec<PropertyName>),
    /// Only the names of those there are.
    Names,
    /// These.
    Named(Vec<PropertyName>),
}

impl Propfind {
    /// Whether a value of `live` is needed.
    #[must_use]
    pub fn wants(&self, live: LiveProperty) -> bool {
        match self {
            Self::All(also) => live.is_in_allprop() || also.iter().any(|name| name.live() == Some(live)),
            Self::Names => false,
            Self::Named(names) => names.iter().any(|name| name.live() == Some(live)),
        }
    }
}

/// What may stand directly in a `propfind`, each alone.
const QUESTIONS: [&str; 3] = ["allprop", "propname", "prop"];

/// One element on the way from the root.
pub(super) enum Step<'a> {
    Enter(PropertyName),
    /// Text as it stands there: what is escaped in it comes as other events, which no value that is understood has.
    Text(&'a str),
    Leave,
}

/// Reads a body of `PROPFIND`; an empty one asks for all properties.
///
/// ```
/// use wire::http::dav::{Propfind, parse_propfind};
/// let body = br#"<propfind xmlns="DAV:"><propname/></propfind>"#;
/// assert_eq!(parse_propfind(body), Ok(Propfind::Names));
/// ```
pub fn parse_propfind(body: &[u8]) -> Result<Propfind> {
    if body.trim_ascii().is_empty() {
        return Ok(Propfind::All(Vec::new()));
    }
    let (mut path, mut kind, mut names) = (Vec::<PropertyName>::new(), None::<&'static str>, Vec::new());
    walk(body, |step| {
        let name = match step {
            Step::Enter(name) => name,
            Step::Text(_) => return Ok(()),
            Step::Leave => {
                path.pop();
                return Ok(());
            }
        };
        match path.len() {
            0 if !name.is_dav("propfind") => {
                return Err(Failure::invalid("the XML body is not DAV: propfind"));
            }
            1 if name.namespace() == super::DAV => {
                if let Some(known) = QUESTIONS.into_iter().find(|known| *known == name.local())
                    && kind.replace(known).is_some()
                {
                    return Err(Failure::invalid("propfind contains several kinds of request"));
                }
            }
            2 if path[1].is_dav("prop") || path[1].is_dav("include") => keep(&mut names, name.clone())?,
            _ => {}
        }
        path.push(name);
        Ok(())
    })?;
    match kind {
        Some("allprop") => Ok(Propfind::All(names)),
        Some("propname") => Ok(Propfind::Names),
        Some(_) => Ok(Propfind::Named(names)),
        None => Err(Failure::invalid("propfind is empty")),
    }
}

fn keep(names: &mut Vec<PropertyName>, name: PropertyName) -> Result<()> {
    if names.len() == PROPERTIES_MAX {
        return Err(Failure::invalid(format!("more than {PROPERTIES_MAX} properties are named at once")));
    }
    if !names.contains(&name) {
        names.push(name);
    }
    Ok(())
}

/// Visits the elements of a document in order.
pub(super) fn walk(body: &[u8], mut visit: impl FnMut(Step<'_>) -> Result<()>) -> Result<()> {
    if body.len() > DAV_BODY_BYTES_MAX {
        return Err(Failure::invalid(format!("XML body is longer than {DAV_BODY_BYTES_MAX} bytes")));
    }
    let text = std::str::from_utf8(body).map_err(|_| Failure::invalid("XML body is not UTF-8"))?;
    let mut reader = NsReader::from_str(text.trim_start_matches('\u{feff}'));
    let config = reader.config_mut();
    config.expand_empty_elements = true;
    config.check_comments = true;
    let (mut depth, mut is_over) = (0, false);
    loop {
        let (namespace, event) = reader.read_resolved_event().map_err(|cause| malformed(&cause))?;
        match event {
            Event::Start(start) => {
                if is_over || depth == DEPTH_MAX {
                    return Err(Failure::invalid("XML body has a second root or too many levels"));
                }
                depth += 1;
                check_attributes(&start)?;
                visit(Step::Enter(name_of(&namespace, &start)?))?;
            }
            Event::End(_) => {
                depth -= 1;
                is_over = depth == 0;
                visit(Step::Leave)?;
            }
            Event::DocType(_) => return Err(Failure::invalid("XML body has a document type")),
            Event::Text(text) if depth == 0 && !text.trim_ascii().is_empty() => {
                return Err(Failure::invalid("XML body has text outside of its root"));
            }
            Event::Text(text) => visit(Step::Text(&text))?,
            Event::CData(_) | Event::GeneralRef(_) if depth == 0 => {
                return Err(Failure::invalid("XML body has text outside of its root"));
            }
            Event::Eof if is_over => return Ok(()),
            Event::Eof => return Err(Failure::invalid("XML body ends too early")),
            _ => {}
        }
    }
}

fn malformed(cause: &dyn std::fmt::Display) -> Failure {
    Failure::invalid(format!("XML body is not well-formed: {cause}"))
}

fn name_of(namespace: &ResolveResult<'_>, start: &BytesStart<'_>) -> Result<PropertyName> {
    let local = start.local_name();
    match namespace {
        ResolveResult::Bound(namespace) => {
            let namespace =
                quick_xml::escape::unescape(namespace.as_ref()).map_err(|cause| malformed(&cause))?;
            PropertyName::new(&namespace, local.as_ref())
        }
        ResolveResult::Unbound => PropertyName::new("", local.as_ref()),
        ResolveResult::Unknown(_) => {
            Err(Failure::invalid(format!("the prefix of XML element {:?} is not bound", local.as_ref())))
        }
    }
}

/// Attributes must be well-formed and differ; a prefix cannot be bound to nothing (Namespaces in XML 1.0 §2.2).
fn check_attributes(start: &BytesStart<'_>) -> Result<()> {
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|cause| malformed(&cause))?;
        if attribute.key.as_ref().starts_with("xmlns:") && attribute.value.is_empty() {
            return Err(Failure::invalid("an XML prefix is bound to an empty name"));
        }
    }
    Ok(())
}

/// Fuzz body: bodies never panic, and every name that is taken can be written back.
pub fn fuzz_propfind(data: &[u8]) {
    let changes = parse_proppatch(data).unwrap_or_default();
    let mut names: Vec<_> = changes.iter().map(|change| change.name.clone()).collect();
    let _ = PropertyPlan::of(&changes);
    if let Ok(Propfind::All(more) | Propfind::Named(more)) = parse_propfind(data) {
        names.extend(more);
    }
    assert!(names.len() <= 2 * PROPERTIES_MAX);
    for name in &names {
        assert_eq!(PropertyName::new(name.namespace(), name.local()).as_ref(), Ok(name));
    }
    let answer = super::answer::tests_answer(&names);
    walk(answer.as_bytes(), |_| Ok(())).expect("what is answered to any names is well-formed");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dav(local: &str) -> PropertyName {
        PropertyName::new("DAV:", local).unwrap()
    }

    #[test]
    fn the_three_questions() {
        let body = r#"<?xml version="1.0" encoding="utf-8"?>
            <D:propfind xmlns:D="DAV:" xmlns:L="LCGDM:"><D:prop>
              <D:getetag/><D:resourcetype><D:collection/></D:resourcetype><L:mode/><x/>
            </D:prop></D:propfind>"#;
        let other = PropertyName::new("", "x").unwrap();
        let mode = PropertyName::new("LCGDM:", "mode").unwrap();
        let named = Propfind::Named(vec![dav("getetag"), dav("resourcetype"), mode, other]);
        assert_eq!(parse_propfind(body.as_bytes()).unwrap(), named);
        assert!(named.wants(LiveProperty::Mode) && !named.wants(LiveProperty::QuotaUsed));
        assert_eq!(parse_propfind(b" \r\n").unwrap(), Propfind::All(vec![]));
        let all = br#"<a:propfind xmlns:a="DAV:"><a:allprop/><a:include><a:quota-used-bytes/></a:include></a:propfind>"#;
        let all = parse_propfind(all).unwrap();
        assert_eq!(all, Propfind::All(vec![dav("quota-used-bytes")]));
        assert!(all.wants(LiveProperty::QuotaUsed) && all.wants(LiveProperty::Etag));
        assert!(!all.wants(LiveProperty::Mode));
    }

    #[test]
    fn what_is_not_understood_is_skipped() {
        let body = br#"<propfind xmlns="DAV:" xmlns:E="http://e/"><E:leave-out/><propname/></propfind>"#;
        assert_eq!(parse_propfind(body).unwrap(), Propfind::Names);
        let body = br#"<propfind xmlns="DAV:"><prop><getetag xmlns="http://e/"/></prop></propfind>"#;
        let name = PropertyName::new("http://e/", "getetag").unwrap();
        assert_eq!(parse_propfind(body).unwrap(), Propfind::Named(vec![name]));
    }

    #[test]
    fn malformed_bodies_are_refused() {
        let deep = format!("{}{}", "<a>".repeat(40), "</a>".repeat(40));
        for bad in [
            "<foo>",
            "<D:propfind xmlns:D=\"DAV:\">",
            "<propfind xmlns=\"DAV:\"/>",
            "<propfind><allprop/></propfind>",
            "<propfind xmlns=\"DAV:\"><prop/></propfind><x/>",
            "<propfind xmlns=\"DAV:\"><prop/></propfind>text",
            "text<propfind xmlns=\"DAV:\"><prop/></propfind>",
            "<propfind xmlns=\"DAV:\"><prop></propfind></prop>",
            "<propfind xmlns=\"DAV:\"><prop><b:x/></prop></propfind>",
            "<D:propfind xmlns:D=\"DAV:\"><D:prop><bar:foo xmlns:bar=\"\"/></D:prop></D:propfind>",
            "<!DOCTYPE x [<!ENTITY a \"aaaa\">]><propfind xmlns=\"DAV:\"><allprop/></propfind>",
            "<propfind xmlns=\"DAV:\"><allprop/><propname/></propfind>",
            "<propfind xmlns=\"DAV:\" a=\"1\" a=\"2\"><allprop/></propfind>",
            &deep,
        ] {
            assert!(parse_propfind(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(parse_propfind(b"\xff\xfe<").is_err());
        assert!(parse_propfind(&vec![b' '; DAV_BODY_BYTES_MAX + 1]).is_ok(), "blanks are nothing");
        let many: String = (0..=PROPERTIES_MAX).map(|n| format!("<p{n}/>")).collect();
        let many = format!("<propfind xmlns=\"DAV:\"><prop>{many}</prop></propfind>");
        assert!(parse_propfind(many.as_bytes()).unwrap_err().what.contains("256"));
    }

    const VALID: &str = r#"<?xml version="1.0"?><D:propfind xmlns:D="DAV:" xmlns:Z="z&amp;&lt;"><D:prop><D:getetag/><Z:a><b/></Z:a></D:prop></D:propfind>"#;

    proptest! {
        #[test]
        fn noise_never_panics(data in prop::collection::vec(any::<u8>(), 0..200)) {
            fuzz_propfind(&data);
        }

        #[test]
        fn mutations_never_panic(at in 0..VALID.len(), byte: u8, cut in 0..VALID.len(), is_cut: bool) {
            let mut data = VALID.as_bytes().to_vec();
            data[at] = byte;
            if is_cut { data.truncate(cut) }
            fuzz_propfind(&data);
        }

        #[test]
        fn pieces_never_panic(pieces in prop::collection::vec(prop::sample::select(vec![
            "<D:propfind xmlns:D=\"DAV:\">", "</D:propfind>", "<D:prop>", "</D:prop>", "<D:allprop/>", "<x \
                xmlns='&#1;'/>",
            "<!--", "-->", "<![CDATA[", "]]>", "&amp;", "&x;", "<?p", "?>", "<é/>", "<D:propertyupdate xmlns:D='DAV:'>",
            "<D:set>", "</D:set>", "</D:propertyupdate>", "<", ">", "'", "\"", "xmlns:D=''",
        ]), 0..12)) {
            fuzz_propfind(pieces.concat().as_bytes());
        }
    }
}
