//! Tests.

use super::signing::*;
use super::*;
use crate::{
    auth::keys::Keyring,
    control::{Coding, HostCapKey, HostCapKeys},
    media::object::{Holder, Piece},
};
use base::{ByteRange, Checksums, FileId, Millis, ObjectId, Timestamp};
use proptest::prelude::*;

fn example() -> Cap {
    Cap {
        access: Access::Fill,
        partition: "disk-1.example".into(),
        object: ObjectId(7),
        file: FileId(3),
        generation: 2,
        holder: Some(Holder { owner: "ada".into(), group: "atlas".into(), mode: 0o640 }),
        range: ByteRange { offset: 0, end: 9 },
        content: Some(Content { size: 9, checksums: Checksums::of(b"123456789") }),
        user: "alice.b".into(),
        expires: Timestamp(1000),
        piece: None,
        times: None,
    }
}

fn of_piece() -> Cap {
    let (coding, file_checksums) = (Coding { data: 4, parity: 2 }, Checksums::of(b"123456789"));
    let piece = Piece { coding, cell_bytes: 4096, index: 5, file_bytes: 9, file_checksums };
    Cap { content: None, piece: Some(piece), ..example() }
}

const JOINED: Timestamp = Timestamp(5);

fn keys() -> CapKeys {
    CapKeys::derive(&[1; 32])
}

fn key() -> CapKey {
    keys().of("server1", JOINED)
}

fn sign(cap: &Cap) -> String {
    keys().sign(("server1", JOINED), cap)
}

#[test]
fn a_disk_server_cannot_make_rights_that_it_shows_to_the_head() {
    let right = Cap { access: Access::Gather, ..example() };
    let given = sign(&right);
    assert_eq!(key().verify(&given, Timestamp(0)).unwrap(), right);
    assert_eq!(keys().verify_shown(&given, Timestamp(0)).unwrap(), right);
    assert!(keys().verify_shown(&given, Timestamp(1001)).unwrap_err().what.contains("expired"));
    // With its own key it signs what it likes, with the seal of another right, or one of its own making.
    let (sealed, _) = given.rsplit_once('.').unwrap();
    let (_, seal) = sealed.rsplit_once('.').unwrap();
    let wanted = Cap { file: FileId(4), ..right.clone() }.text();
    for forged in [format!("{wanted}.{seal}"), key().signed(&wanted), wanted] {
        assert!(keys().verify_shown(&key().signed(&forged), Timestamp(0)).is_err(), "{forged}");
    }
    // Other rights have no seal, and one without it is none to gather.
    assert!(keys().verify_shown(&sign(&example()), Timestamp(0)).is_err());
    assert!(key().verify(&key().signed(&right.text()), Timestamp(0)).is_err());
}

#[test]
fn signed_rights_hold_until_they_expire() {
    let signed = sign(&example());
    assert_eq!(key().verify(&signed, Timestamp(1000)).unwrap(), example());
    assert!(key().verify(&signed, Timestamp(1001)).unwrap_err().what.contains("expired"));
    assert_eq!(format!("{:?}", key()), "CapKey(..)");
    let user = String::new();
    let open = Cap { access: Access::Write, holder: None, content: None, range: WHOLE, user, ..example() };
    let times = Some(Times::of(Timestamp(1_700_000_000_123), Some(Timestamp(-5))));
    let read = Cap { access: Access::Read, times, ..example() };
    let gather = Cap { access: Access::Gather, ..read.clone() };
    for cap in [open, of_piece(), read, gather, Cap { times, ..of_piece() }] {
        assert_eq!(key().verify(&sign(&cap), Timestamp(0)).unwrap(), cap);
    }
}

#[test]
fn rights_are_for_one_disk_server_of_one_facility() {
    let signed = sign(&example());
    let (ours, others) = (CapKeys::derive(&[1; 32]), CapKeys::derive(&[2; 32]));
    let (then, later) = (Timestamp(5), Timestamp(6));
    for other in [ours.of("server2", then), ours.of("server1", later), others.of("server1", then)] {
        let failure = other.verify(&signed, Timestamp(0)).unwrap_err();
        assert!(failure.what.contains("not signed for this disk server"), "{failure}");
    }
    assert!(CapKey::new(key().reveal()).verify(&signed, Timestamp(0)).is_ok());
}

#[test]
fn rights_hold_as_long_as_the_generation_that_signed_them() {
    use crate::auth::keys::KeyFile;
    let (day, host) = (Millis::from_seconds(86_400), ("server1", JOINED));
    let soon = |cap: &Cap| Cap { expires: Timestamp(500), ..cap.clone() };
    let first = KeyFile::first([1; 32], Timestamp(0));
    let ring = Keyring::new(&first);
    let keys = CapKeys::new(ring.clone());
    let told = |name: &str, joined, now| {
        let told = keys.all_of(name, joined, now).iter().map(ServerKey::told).collect();
        ServerKeys::given(&HostCapKeys { serial: keys.serial(), keys: told }).unwrap()
    };
    let given = |now| told(host.0, host.1, now);
    let own_keys = ServerKeys::of_head(&keys, "own");
    let before = given(Timestamp(0));
    let (old, gather) = (keys.sign(host, &soon(&example())), Cap { access: Access::Gather, ..example() });
    let sealed = keys.sign(host, &gather);
    let second = first.rotate([2; 32], day, Timestamp(0)).unwrap();
    ring.set(&second);
    // The host has not fetched the new key yet, as far as it is known.
    assert!(before.verify(&keys.sign(host, &soon(&example())), Timestamp(0)).is_ok());
    keys.note_held("server1", JOINED, 1);
    assert!(before.verify(&keys.sign(host, &soon(&example())), Timestamp(0)).is_ok());
    let after = given(Timestamp(0));
    keys.note_held("server1", JOINED, 2);
    let new = keys.sign(host, &example());
    assert!(before.verify(&new, Timestamp(0)).is_err());
    for signed in [&old, &new, &sealed] {
        assert!(after.verify(signed, Timestamp(0)).is_ok());
    }
    // What was noted of a host that joined anew means nothing.
    let anew = ("server1", Timestamp(9));
    let given_anew = told(anew.0, anew.1, Timestamp(0));
    assert!(given_anew.verify(&keys.sign(anew, &example()), Timestamp(0)).is_ok());
    // The head's own disk server has what the head has.
    let own = ("own", NEVER_JOINED);
    let of_own = keys.sign(own, &example());
    assert!(own_keys.verify(&of_own, Timestamp(0)).is_ok());
    assert_eq!((own_keys.held(), after.held()), ((2, 2), (2, 2)));
    assert!(keys.verify_shown(&sealed, Timestamp(0)).is_ok());
    assert!(after.verify(&old, Timestamp(day.0)).unwrap_err().what.contains("not signed for"));
    ring.set(&second.revoke(1, [3; 32], Timestamp(0)).unwrap());
    let revoked = given(Timestamp(0));
    assert!(revoked.verify(&old, Timestamp(0)).is_err() && revoked.verify(&new, Timestamp(0)).is_ok());
    assert!(keys.verify_shown(&sealed, Timestamp(0)).is_err());
    ring.set(&second.revoke(2, [3; 32], Timestamp(0)).unwrap());
    assert!(own_keys.verify(&of_own, Timestamp(0)).is_err(), "the head's own disk server follows");
    // A right that lasts longer than the grace is signed with what will still verify.
    ring.set(&second);
    let silent = Cap { expires: Timestamp(day.0 + 1), ..example() };
    let other = ("server2", JOINED);
    let keys_of_other = told(other.0, other.1, Timestamp(0));
    assert!(keys_of_other.verify(&keys.sign(other, &silent), Timestamp(day.0 + 1)).is_ok());
}

#[test]
fn keys_survive_being_told() {
    let key = ServerKey { generation: 3, until: Some(Timestamp(9)), key: key() };
    assert_eq!(ServerKey::heard(&key.told()).unwrap(), key);
    for bad in ["", "00", &"0".repeat(63), &"g".repeat(64)] {
        let told = HostCapKey { key: bad.to_owned(), ..key.told() };
        assert!(ServerKey::heard(&told).unwrap_err().hint.is_some(), "{bad}");
    }
}

#[test]
fn a_known_right_is_written_byte_by_byte() {
    let signed = sign(&example());
    let (text, _) = signed.rsplit_once('.').unwrap();
    assert_eq!(text, "f.ZGlzay0xLmV4YW1wbGU.7.3.2.YWRh~YXRsYXM~416.0-9.9-091e01de-e3069283.YWxpY2UuYg.1000");
    let signed = sign(&of_piece());
    let (text, _) = signed.rsplit_once('.').unwrap();
    assert_eq!(
        text,
        "f.ZGlzay0xLmV4YW1wbGU.7.3.2.YWRh~YXRsYXM~416.0-9.-.YWxpY2UuYg.1000.4-2-4096-5-9-091e01de-e3069283"
    );
}

/// What reads as the same value in many languages, and is another text.
const SPELLINGS: [(&str, &str); 9] = [
    (".", ".0"),
    (".", ".+"),
    ("-", "-0"),
    ("-", "-+"),
    ("~", "~0"),
    ("a", "A"),
    ("e", "E"),
    (".", "=."),
    ("~", "=~"),
];

fn any_cap() -> impl Strategy<Value = Cap> {
    let ids = (any::<u64>(), any::<u64>(), any::<u64>());
    let piece = (1u8..9, 0u8..5, any::<u32>(), any::<u8>());
    let names = (
        "[a-z.]{0,9}",
        "[a-zA-Z0-9@._-]{0,9}",
        prop::option::of(("[a-z]{0,9}", "[a-z]{0,9}", 0u32..0o10000)),
    );
    (
        ids,
        names,
        (any::<u64>(), any::<u64>()),
        prop::option::of(any::<Vec<u8>>()),
        any::<i64>(),
        prop::option::of(piece),
    )
        .prop_map(
            |((object, file, generation), (partition, user, holder), (a, b), content, expires, piece)| {
                let content = content
                    .map(|bytes| Content { size: bytes.len() as u64, checksums: Checksums::of(&bytes) });
                let example = of_piece().piece.unwrap();
                Cap {
                    access: Access::Fill,
                    partition,
                    object: ObjectId(object >> 1),
                    file: FileId(file >> 1),
                    generation,
                    holder: holder.map(|(owner, group, mode)| Holder { owner, group, mode }),
                    range: ByteRange { offset: a.min(b), end: a.max(b) },
                    content,
                    user,
                    expires: Timestamp(expires),
                    piece: piece
                        .map(|(data, parity, _, _)| Piece { coding: Coding { data, parity }, ..example }),
                    times: content
                        .is_none()
                        .then(|| Times::of(Timestamp(expires), Some(Timestamp(expires >> 1)))),
                }
            },
        )
}

#[test]
fn another_spelling_of_a_right_is_none() {
    let good = example().text();
    assert!(Cap::parse(&good).is_some());
    for (from, to) in [
        (".7.", ".07."),
        (".7.", ".+7."),
        (".3.", ".03."),
        (".0-9.", ".00-9."),
        (".0-9.", ".0-+9."),
        ("~416", "~0416"),
        ("091e01de", "091E01DE"),
        ("091e01de", "91e01de"),
        ("ZGlzay0xLmV4YW1wbGU", "ZGlzay0xLmV4YW1wbGU="),
        // The last character has bits that no byte takes.
        ("ZGlzay0xLmV4YW1wbGU", "ZGlzay0xLmV4YW1wbGV"),
        (".1000", ".+1000"),
        (".1000", ".01000"),
    ] {
        let other = good.replacen(from, to, 1);
        assert_ne!(other, good, "{from}");
        assert!(Cap::parse(&other).is_none(), "{other}");
        // Signed or not: the text is what counts.
        let failure = key().verify(&key().signed(&other), Timestamp(0)).unwrap_err();
        assert!(failure.what.contains("malformed"), "{failure}");
    }
    let signed = sign(&example());
    let (text, mac) = signed.rsplit_once('.').unwrap();
    let loud = format!("{text}.{}", mac.to_ascii_uppercase());
    assert_ne!(loud, signed);
    assert!(key().verify(&loud, Timestamp(0)).is_err());
}

proptest! {
    #[test]
    fn a_changed_right_is_refused(at in 0usize..200, byte in 32u8..127) {
        let key = key();
        let signed = sign(&example());
        let mut bytes = signed.clone().into_bytes();
        let at = at % bytes.len();
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        prop_assert!(key.verify(std::str::from_utf8(&bytes).unwrap(), Timestamp(0)).is_err());
    }

    #[test]
    fn only_the_canonical_spelling_is_read(cap in any_cap(), at in 0usize..300, what in 0usize..SPELLINGS.len()) {
        let text = cap.text();
        prop_assert_eq!(Cap::parse(&text).map(|cap| cap.text()), Some(text.clone()));
        let (from, to) = SPELLINGS[what];
        // Another spelling at the first place from `at` on.
        let at = at.min(text.len());
        let changed = format!("{}{}", &text[..at], text[at..].replacen(from, to, 1));
        if let Some(read) = Cap::parse(&changed) {
            prop_assert_eq!(read.text(), changed);
        }
    }

    #[test]
    fn what_is_read_is_written_the_same(text in "[rgfw]\\.[A-Za-z=+/_-]{0,4}\\.[+0-9]{1,3}\\.[0-9]{1,3}\\.0?[0-9]\\.-\\.0?[0-9]-[0-9]{2}\\.(-|[0-9]-0{0,8}[0-9a-fA-F]{1,8}-[0-9a-fA-F]{8})\\.[A-Za-z]{0,4}\\.[-+]?[0-9]{1,4}") {
        if let Some(cap) = Cap::parse(&text) {
            prop_assert_eq!(cap.text(), text);
        }
    }

    #[test]
    fn noise_never_panics(data in prop::collection::vec(any::<u8>(), 0..100)) {
        fuzz_cap(&data);
    }
}
