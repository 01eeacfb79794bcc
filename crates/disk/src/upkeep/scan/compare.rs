//! Compares an object with its row in the catalogue.

use crate::object::scanner::{Seen, Whole};
use base::units::counted;
use wire::control::{FindingKind, Known, KnownObject};

/// What is wrong with an object as it was seen, given what the catalogue knows.
pub(super) fn compare(seen: &Seen, known: &Known) -> Option<(FindingKind, String)> {
    match (seen, known) {
        (Seen::Writing, _) | (_, Known::Moving) | (Seen::Missing, Known::Unknown | Known::Unheard) => None,
        (Seen::Missing | Seen::Rest, Known::Online(_)) => {
            Some((FindingKind::Lost, "the object is missing".to_owned()))
        }
        (Seen::Whole(info), Known::Online(known)) if info.size != known.size => {
            Some((FindingKind::WrongSize, format!("{}, the catalogue says {}", bytes(info.size), known.size)))
        }
        (Seen::Whole(info), Known::Online(known)) if info.checksums != known.checksums => {
            let (here, there) = (info.checksums.adler32, known.checksums.adler32);
            Some((FindingKind::WrongChecksum, format!("adler32 {here}, the catalogue says {there}")))
        }
        // What this release cannot read it does not judge.
        (Seen::Whole(_) | Seen::Newer(_), Known::Online(_)) => None,
        (Seen::Damaged { size: Some(size), .. }, Known::Online(known)) if *size != known.size => {
            Some((FindingKind::WrongSize, format!("{}, the catalogue says {}", bytes(*size), known.size)))
        }
        (Seen::Damaged { failure, .. }, Known::Online(_)) => {
            Some((FindingKind::Damaged, failure.to_string()))
        }
        (seen, Known::Unheard) => Some((FindingKind::Orphan, format!("{UNHEARD}; {}", describe(seen)))),
        (Seen::Newer(failure), Known::Unknown) => Some((FindingKind::Orphan, format!("{NEWER}: {failure}"))),
        (seen, Known::Unknown) => Some((FindingKind::Orphan, describe(seen))),
    }
}

/// Begins the detail of what may be newer than the catalogue.
pub(super) const UNHEARD: &str = "its number was never assigned: is the catalogue an old one?";
/// Begins the detail of what a newer release has described.
pub(super) const NEWER: &str = "a newer release has written it";

fn bytes(number: u64) -> String {
    counted(number, "byte", "bytes")
}

fn describe(seen: &Seen) -> String {
    match seen {
        Seen::Whole(Whole { size, path: Some(path), .. }) => format!("{} of {path}", bytes(*size)),
        Seen::Whole(Whole { size, file, .. }) => format!("{} of file {file}", bytes(*size)),
        Seen::Damaged { failure, .. } | Seen::Newer(failure) => failure.to_string(),
        _ => "left by an interrupted step".to_owned(),
    }
}

pub(super) fn file_of(seen: &Seen, known: &Known) -> Option<base::FileId> {
    match (known, seen) {
        (Known::Online(KnownObject { file, .. }), _) => Some(*file),
        (_, Seen::Whole(info)) => Some(info.file),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Checksums, Failure, FileId, ObjectId, Timestamp};
    use wire::media::object::{Holder, Label, ObjectInfo};

    fn info(content: &[u8]) -> ObjectInfo {
        let (path, holder) = ("/a".parse().expect("a legal path"), Holder::default());
        let label = Label { file: FileId(2), path, generation: 1, holder, piece: None };
        let content = (content.len() as u64, Checksums::of(content));
        ObjectInfo::new("f", ObjectId(1), &label, content, Timestamp(1))
    }

    fn online(content: &[u8]) -> Known {
        let ObjectInfo { object, file, size, checksums, .. } = info(content);
        Known::Online(KnownObject { object, file, size, checksums })
    }

    fn kind(seen: &Seen, known: &Known) -> Option<FindingKind> {
        compare(seen, known).map(|(kind, _)| kind)
    }

    #[test]
    fn what_is_written_or_removed_is_never_wrong() {
        let all = [Seen::Missing, Seen::Writing, Seen::Rest, Seen::Whole(info(b"a").into())];
        for seen in &all {
            assert_eq!(kind(seen, &Known::Moving), None, "{seen:?}");
        }
        for known in [online(b"a"), Known::Unknown, Known::Unheard] {
            assert_eq!(kind(&Seen::Writing, &known), None, "{known:?}");
        }
        assert_eq!(kind(&Seen::Missing, &Known::Unknown), None);
    }

    #[test]
    fn what_a_newer_release_has_written_is_no_damage() {
        let newer = Seen::Newer(Failure::unsupported("object description has version 9"));
        for known in [online(b"abc"), Known::Moving] {
            assert_eq!(kind(&newer, &known), None, "{known:?}");
        }
        let (kind, detail) = compare(&newer, &Known::Unknown).expect("nobody knows it");
        assert!(kind == FindingKind::Orphan && detail.starts_with(NEWER), "{detail}");
    }

    #[test]
    fn what_disk_and_catalogue_do_not_agree_on_is_told_apart() {
        let whole = Seen::Whole(info(b"abc").into());
        let damaged = |size| Seen::Damaged { size: Some(size), failure: Failure::corrupt("damaged") };
        for (seen, known, expected) in [
            (&whole, online(b"abc"), None),
            (&whole, online(b"abcd"), Some(FindingKind::WrongSize)),
            (&whole, online(b"abd"), Some(FindingKind::WrongChecksum)),
            (&whole, Known::Unknown, Some(FindingKind::Orphan)),
            (&whole, Known::Unheard, Some(FindingKind::Orphan)),
            (&Seen::Missing, online(b"abc"), Some(FindingKind::Lost)),
            (&Seen::Rest, online(b"abc"), Some(FindingKind::Lost)),
            (&Seen::Rest, Known::Unknown, Some(FindingKind::Orphan)),
            (&damaged(3), online(b"abc"), Some(FindingKind::Damaged)),
            (&damaged(2), online(b"abc"), Some(FindingKind::WrongSize)),
        ] {
            assert_eq!(kind(seen, &known), expected, "{seen:?} {known:?}");
        }
    }
}
