//! Names of properties, and those whose values we know.

use base::{Failure, Result};

/// The namespace of RFC 4918.
pub const DAV: &str = "DAV:";
/// The namespace in which the grid's clients ask for modes and checksums.
pub const LCGDM: &str = "LCGDM:";
/// The namespace in which clients that synchronize ask for checksums.
pub const OWNCLOUD: &str = "http://owncloud.org/ns";
/// Longest local name or namespace that is echoed.
const NAME_BYTES_MAX: usize = 1024;

/// A property's name: what it is called in which namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PropertyName {
    namespace: String,
    local: String,
}

impl PropertyName {
    /// Checks that the name can be written back: the local part is an XML name, the namespace is legal text.
    pub fn new(namespace: &str, local: &str) -> Result<Self> {
        let mut characters = local.chars();
        let is_name = characters.next().is_some_and(is_name_start) && characters.all(is_name_part);
        if !is_name || local.len() > NAME_BYTES_MAX {
            return Err(Failure::invalid("an element of the XML body has a name that is none"));
        }
        if namespace.len() > NAME_BYTES_MAX || !namespace.chars().all(is_text) {
            return Err(Failure::invalid(format!("the namespace of element {local} cannot be")));
        }
        Ok(Self { namespace: namespace.to_owned(), local: local.to_owned() })
    }

    /// The namespace; empty for none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name within the namespace.
    #[must_use]
    pub fn local(&self) -> &str {
        &self.local
    }

    /// Whether this is `local` of [`DAV`].
    pub(super) fn is_dav(&self, local: &str) -> bool {
        self.namespace == DAV && self.local == local
    }

    /// The property whose value we know by this name.
    #[must_use]
    pub fn live(&self) -> Option<LiveProperty> {
        LiveProperty::ALL
            .into_iter()
            .find(|live| live.namespace() == self.namespace && live.local() == self.local)
    }
}

/// A property whose value follows from what the catalogue knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LiveProperty {
    /// `resourcetype`: a collection or not.
    ResourceType,
    /// `displayname`: the last component.
    DisplayName,
    /// `getlastmodified`
    LastModified,
    /// `creationdate`: the catalogue keeps only the last change, which is the earliest date it can vouch for.
    CreationDate,
    /// `getcontentlength`
    ContentLength,
    /// `getcontenttype`
    ContentType,
    /// `getetag`
    Etag,
    /// `quota-used-bytes` (RFC 4331)
    QuotaUsed,
    /// `quota-available-bytes` (RFC 4331)
    QuotaAvailable,
    /// `mode` of [`LCGDM`]: octal, with the bits of the file type.
    Mode,
    /// `sumtype` of [`LCGDM`]: `AD`, Adler-32.
    SumType,
    /// `sumvalue` of [`LCGDM`]
    SumValue,
    /// `checksums` of [`OWNCLOUD`]: `ADLER32:` and the sum.
    Checksums,
}

impl LiveProperty {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::ResourceType,
        Self::DisplayName,
        Self::LastModified,
        Self::CreationDate,
        Self::ContentLength,
        Self::ContentType,
        Self::Etag,
        Self::QuotaUsed,
        Self::QuotaAvailable,
        Self::Mode,
        Self::SumType,
        Self::SumValue,
        Self::Checksums,
    ];

    /// Those that `allprop` means: quotas are told only to those who ask for them (RFC 4331 §3).
    pub(super) fn is_in_allprop(self) -> bool {
        self.namespace() == DAV && !matches!(self, Self::QuotaUsed | Self::QuotaAvailable)
    }

    /// Its namespace.
    #[must_use]
    pub fn namespace(self) -> &'static str {
        match self {
            Self::Mode | Self::SumType | Self::SumValue => LCGDM,
            Self::Checksums => OWNCLOUD,
            _ => DAV,
        }
    }

    /// Its name within the namespace.
    #[must_use]
    pub fn local(self) -> &'static str {
        match self {
            Self::ResourceType => "resourcetype",
            Self::DisplayName => "displayname",
            Self::LastModified => "getlastmodified",
            Self::CreationDate => "creationdate",
            Self::ContentLength => "getcontentlength",
            Self::ContentType => "getcontenttype",
            Self::Etag => "getetag",
            Self::QuotaUsed => "quota-used-bytes",
            Self::QuotaAvailable => "quota-available-bytes",
            Self::Mode => "mode",
            Self::SumType => "sumtype",
            Self::SumValue => "sumvalue",
            Self::Checksums => "checksums",
        }
    }
}

/// A character that XML 1.0 allows (production 2).
pub(super) fn is_text(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// The first character of a name (production 4 of XML 1.0, without the colon that Namespaces in XML takes away).
fn is_name_start(c: char) -> bool {
    matches!(c,
        'A'..='Z' | '_' | 'a'..='z' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{2ff}'
        | '\u{370}'..='\u{37d}' | '\u{37f}'..='\u{1fff}' | '\u{200c}'..='\u{200d}' | '\u{2070}'..='\u{218f}'
        | '\u{2c00}'..='\u{2fef}' | '\u{3001}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}'
        | '\u{fdf0}'..='\u{fffd}' | '\u{10000}'..='\u{effff}')
}

/// A later character of a name (production 4a).
fn is_name_part(c: char) -> bool {
    is_name_start(c)
        || matches!(c, '-' | '.' | '0'..='9' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}'..='\u{2040}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_can_be_written_back() {
        let name = PropertyName::new(DAV, "getetag").unwrap();
        assert_eq!(name.live(), Some(LiveProperty::Etag));
        assert_eq!(PropertyName::new("other:", "getetag").unwrap().live(), None);
        assert!(PropertyName::new("", "größe-2.x_y").is_ok());
        for bad in ["", "1a", "-a", "a b", "a:b", "a<b", "a\u{0}", "×"] {
            assert!(PropertyName::new(DAV, bad).is_err(), "{bad}");
        }
        assert!(PropertyName::new("a\u{1}", "x").is_err());
        assert!(PropertyName::new(&"n".repeat(2000), "x").is_err());
    }
}
