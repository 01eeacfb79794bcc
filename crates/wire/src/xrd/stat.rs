//! Attributes, listings, locations and space as text (spec/xrootd.md §5.5 to §5.8).

use super::{Malformed, StatFlags, frame::text};
use std::{fmt, fmt::Write as _};

/// Attributes of a file or directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatInfo {
    /// Number that is unique in the server, never 0.
    pub id: u64,
    /// Size in bytes.
    pub size: u64,
    /// What it is and what may be done.
    pub flags: StatFlags,
    /// Time of the last change, seconds since 1970.
    pub modified_s: i64,
    /// What newer clients show as well.
    pub owner: Option<StatOwner>,
}

/// The attributes that follow the first four.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatOwner {
    /// Time of the last change of attributes, seconds since 1970.
    pub changed_s: i64,
    /// Time of the last access, seconds since 1970.
    pub accessed_s: i64,
    /// Permission bits.
    pub mode: u32,
    /// Name of the owner, without spaces.
    pub user: String,
    /// Name of the group, without spaces.
    pub group: String,
}

impl fmt::Display for StatInfo {
    /// `id size flags mtime`, and with an owner `ctime atime mode user group`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.id, self.size, self.flags.0, self.modified_s)?;
        let Some(owner) = &self.owner else { return Ok(()) };
        let (user, group) = (word(&owner.user), word(&owner.group));
        write!(f, " {} {} {:04o} {user} {group}", owner.changed_s, owner.accessed_s, owner.mode)
    }
}

/// A name that cannot break the line it stands in.
fn word(name: &str) -> String {
    let name: String =
        name.chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }).collect();
    if name.is_empty() { "-".to_owned() } else { name }
}

impl StatInfo {
    /// Parses the text of an answer.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let fields: Vec<_> = text.split_ascii_whitespace().collect();
        let bad = || Malformed::NotText("stat");
        let [id, size, flags, modified, rest @ ..] = fields.as_slice() else {
            return Err(bad());
        };
        let owner = match rest {
            [changed, accessed, mode, user, group, ..] => Some(StatOwner {
                changed_s: changed.parse().map_err(|_| bad())?,
                accessed_s: accessed.parse().map_err(|_| bad())?,
                mode: u32::from_str_radix(mode, 8).map_err(|_| bad())?,
                user: (*user).to_owned(),
                group: (*group).to_owned(),
            }),
            _ => None,
        };
        Ok(Self {
            // Servers print the id signed.
            id: id.parse().or_else(|_| id.parse::<i64>().map(|id| id as u64)).map_err(|_| bad())?,
            size: size.parse().map_err(|_| bad())?,
            flags: StatFlags(flags.parse().map_err(|_| bad())?),
            modified_s: modified.parse().map_err(|_| bad())?,
            owner,
        })
    }

    /// Whether it is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.flags.contains(StatFlags::DIRECTORY)
    }

    /// Whether its bytes are on disk.
    #[must_use]
    pub fn is_online(&self) -> bool {
        !self.flags.contains(StatFlags::OFFLINE)
    }

    /// The one byte of a statx answer.
    #[must_use]
    pub fn flags_byte(&self) -> u8 {
        self.flags.0 as u8
    }
}

/// One name of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListEntry {
    /// The name.
    pub name: String,
    /// Attributes, if they were asked for.
    pub stat: Option<StatInfo>,
}

/// Writes a listing in parts (§5.6).
#[derive(Debug)]
pub struct ListingWriter {
    with_stat: bool,
    is_first: bool,
}

impl ListingWriter {
    /// Starts a listing.
    #[must_use]
    pub fn new(with_stat: bool) -> Self {
        Self { with_stat, is_first: true }
    }

    /// The body of the next part. Each but the last ends with a line feed, the last with NUL instead.
    pub fn part(&mut self, entries: &[ListEntry], is_last: bool) -> Vec<u8> {
        let mut text = String::new();
        if self.with_stat && self.is_first {
            text.push_str(".\n0 0 0 0\n");
        }
        self.is_first = false;
        for entry in entries {
            text.push_str(&entry.name);
            text.push('\n');
            if self.with_stat {
                let unknown = StatInfo { flags: StatFlags::OTHER, ..StatInfo::default() };
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{}", entry.stat.as_ref().unwrap_or(&unknown));
            }
        }
        let mut bytes = text.into_bytes();
        if let (true, Some(last)) = (is_last, bytes.last_mut()) {
            *last = 0;
        }
        bytes
    }
}

/// Parses a whole listing, with or without attributes: the leading `.` tells.
pub fn parse_listing(body: &[u8]) -> Result<Vec<ListEntry>, Malformed> {
    let listing = text(body, "listing")?;
    let Some(rest) = listing.strip_prefix(".\n0 0 0 0") else {
        let names = listing.lines().filter(|name| !name.is_empty());
        return Ok(names.map(|name| ListEntry { name: name.to_owned(), stat: None }).collect());
    };
    let lines: Vec<_> = rest.lines().filter(|line| !line.is_empty()).collect();
    if !lines.len().is_multiple_of(2) {
        return Err(Malformed::Missing("attributes of the last entry"));
    }
    lines
        .chunks_exact(2)
        .map(|pair| Ok(ListEntry { name: pair[0].to_owned(), stat: Some(StatInfo::parse(pair[1])?) }))
        .collect()
}

/// Where a file is (§5.7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// A server that holds data, rather than one that redirects.
    pub is_server: bool,
    /// Online there, rather than to be recalled.
    pub is_online: bool,
    /// Whether it may be written there.
    pub is_writable: bool,
    /// `host:port`, IPv6 in brackets.
    pub address: String,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match (self.is_server, self.is_online) {
            (true, true) => 'S',
            (true, false) => 's',
            (false, true) => 'M',
            (false, false) => 'm',
        };
        write!(f, "{kind}{}{}", if self.is_writable { 'w' } else { 'r' }, self.address)
    }
}

impl Location {
    /// Parses the answer to a locate: locations between spaces.
    pub fn parse_all(body: &[u8]) -> Result<Vec<Self>, Malformed> {
        text(body, "locations")?.split_ascii_whitespace().map(Self::parse).collect()
    }

    fn parse(text: &str) -> Result<Self, Malformed> {
        let mut chars = text.chars();
        let (is_server, is_online) = match chars.next() {
            Some('S') => (true, true),
            Some('s') => (true, false),
            Some('M') => (false, true),
            Some('m') => (false, false),
            _ => return Err(Malformed::NotText("location")),
        };
        let is_writable = match chars.next() {
            Some('w') => true,
            Some('r') => false,
            _ => return Err(Malformed::NotText("location")),
        };
        Ok(Self { is_server, is_online, is_writable, address: chars.as_str().to_owned() })
    }
}

/// Space of the storage, in bytes (§5.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpaceInfo {
    /// All of it.
    pub total: u64,
    /// Free.
    pub free: u64,
    /// Largest file that fits.
    pub largest_free: u64,
    /// Taken.
    pub used: u64,
    /// Allowed; `None` without a quota.
    pub quota: Option<u64>,
}

impl SpaceInfo {
    /// Answer to a space query.
    #[must_use]
    pub fn to_query_text(&self, group: &str) -> String {
        let quota = self.quota.map_or("-1".to_owned(), |quota| quota.to_string());
        format!(
            "oss.cgroup={group}&oss.space={}&oss.free={}&oss.maxf={}&oss.used={}&oss.quota={quota}",
            self.total, self.free, self.largest_free, self.used
        )
    }

    /// Answer to a stat of the file system: for writing and for staging each nodes, free MiB, percent used.
    #[must_use]
    pub fn to_filesystem_text(&self) -> String {
        let percent = (u128::from(self.used) * 100).checked_div(u128::from(self.total)).unwrap_or(0).min(100);
        format!("1 {} {percent} 0 0 0", self.free >> 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(size: u64) -> StatInfo {
        let owner =
            StatOwner { changed_s: 2, accessed_s: 3, mode: 0o640, user: "a b".into(), group: String::new() };
        StatInfo { id: 7, size, flags: StatFlags(48), modified_s: 1, owner: Some(owner) }
    }

    #[test]
    fn size_stands_before_flags() {
        assert_eq!(stat(9).to_string(), "7 9 48 1 2 3 0640 a_b -");
        assert_eq!(StatInfo::parse("7 9 48 1").unwrap(), StatInfo { owner: None, ..stat(9) });
        assert_eq!(StatInfo::parse("-1 9 48 1\0").map(|stat| stat.id), Err(Malformed::NotText("stat")));
        assert_eq!(StatInfo::parse("-1 9 48 1").unwrap().id, u64::MAX);
    }

    #[test]
    fn listings_in_parts_are_one_listing() {
        let entry = |name: &str| ListEntry { name: name.into(), stat: StatInfo::parse("1 2 3 4").ok() };
        let entries = [entry("a"), entry("b c"), entry("d")];
        let mut writer = ListingWriter::new(true);
        let mut body = writer.part(&entries[..2], false);
        body.extend(writer.part(&entries[2..], true));
        assert!(body.starts_with(b".\n0 0 0 0\na\n1 2 3 4\n"));
        assert_eq!(parse_listing(&body).unwrap(), entries);
        let mut plain = ListingWriter::new(false);
        assert_eq!(plain.part(&entries, true), b"a\nb c\nd\0");
        assert!(ListingWriter::new(false).part(&[], true).is_empty());
        assert_eq!(parse_listing(&ListingWriter::new(true).part(&[], true)).unwrap(), []);
    }

    #[test]
    fn locations_and_space_have_their_texts() {
        let here = Location {
            is_server: true,
            is_online: true,
            is_writable: true,
            address: "[::127.0.0.1]:1094".into(),
        };
        assert_eq!(here.to_string(), "Sw[::127.0.0.1]:1094");
        assert_eq!(Location::parse_all(b"Sw[::127.0.0.1]:1094 \0").unwrap(), [here]);
        let space =
            SpaceInfo { total: 200 << 20, free: 50 << 20, largest_free: 1, used: 150 << 20, quota: None };
        assert_eq!(space.to_filesystem_text(), "1 50 75 0 0 0");
        assert!(space.to_query_text("public").ends_with("&oss.quota=-1"));
    }
}
