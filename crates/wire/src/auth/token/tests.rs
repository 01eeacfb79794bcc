use super::*;
use proptest::prelude::*;

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn key() -> TokenKey {
    TokenKey::derive(&[1; 32])
}

fn claims() -> Claims {
    Claims {
        issuer: "f00".to_owned(),
        subject: "alice".to_owned(),
        audience: vec!["f00".to_owned()],
        id: "0123".to_owned(),
        issued: NOW,
        starts: NOW,
        expires: Timestamp(NOW.0 + 10_000),
        scopes: Some(Scopes::parse("storage.read:/data").unwrap()),
        groups: Vec::new(),
        is_of_job: false,
        host: None,
    }
}

fn refusal(claims: &Claims, now: Timestamp) -> String {
    key().verify(&key().sign(claims), "f00", now).unwrap_err().what
}

#[test]
fn tokens_hold_until_they_expire() {
    let token = key().sign(&claims());
    assert_eq!(key().verify(&token, "f00", NOW).unwrap(), claims());
    assert!(key().verify(&token, "f00", Timestamp(NOW.0 + 9_999)).is_ok());
    assert!(refusal(&claims(), Timestamp(NOW.0 + 10_000)).contains("has expired"));
    assert!(refusal(&claims(), Timestamp(NOW.0 - 61_000)).contains("not valid yet"));
    let groups = vec!["prod".to_owned()];
    let host = Some(enrolment("c1", NOW));
    let free = Claims { audience: Vec::new(), scopes: None, groups, host, ..claims() };
    assert_eq!(key().verify(&key().sign(&free), "f00", NOW).unwrap(), free);
    let job = Claims { is_of_job: true, ..claims() };
    assert_eq!(key().verify(&key().sign(&job), "f00", NOW).unwrap(), job);
}

/// A token with this payload, signed as it should be, by the generation that its header names.
fn made(header: &str, payload: &str) -> String {
    let text = format!("{}.{}", base64url::encode(header.as_bytes()), base64url::encode(payload.as_bytes()));
    let mut mac = hmac(&derived(&[1; 32]));
    mac.update(text.as_bytes());
    format!("{text}.{}", base64url::encode(&mac.finalize().into_bytes()))
}

#[test]
fn no_token_lives_longer_than_the_bound() {
    let now = NOW.seconds();
    let year = 365 * 86_400;
    let header = r#"{"alg":"HS256","kid":"1"}"#;
    let token = |times: String| made(header, &format!(r#"{{"iss":"f00","sub":"a",{times}}}"#));
    let is_good = |times: String| key().verify(&token(times), "f00", NOW);
    is_good(format!(r#""iat":{now},"nbf":{now},"exp":{}"#, now + 30 * 86_400)).unwrap();
    for times in [
        format!(r#""iat":{now},"nbf":{now},"exp":{}"#, now + 30 * 86_400 + 1),
        format!(r#""iat":{now},"nbf":{now},"exp":{}"#, now + 10 * year),
        format!(r#""iat":{now},"nbf":{now},"exp":{}"#, 1_i64 << 62),
        format!(r#""iat":{now},"nbf":{now},"exp":{}"#, i64::MAX),
        // Without a beginning it has lived since 1970.
        format!(r#""exp":{}"#, now + 60),
        format!(r#""iat":{now},"exp":{}"#, now + 60),
        format!(r#""nbf":{now},"exp":{}"#, now + 60),
        // What says that it was issued later than now was not.
        format!(r#""iat":{},"nbf":{now},"exp":{}"#, now + 10 * year, now + 10 * year),
        format!(r#""iat":{},"nbf":{now},"exp":{}"#, i64::MAX, i64::MAX),
        format!(r#""iat":{},"nbf":{},"exp":{}"#, i64::MIN, i64::MIN, i64::MAX),
    ] {
        let refused = is_good(times.clone()).unwrap_err();
        assert_eq!(refused.kind, base::ErrorKind::Permission, "{times}");
    }
    let short = TokenKey::new(Keyring::of_one([1; 32]), Millis::from_seconds(5));
    assert!(short.verify(&key().sign(&claims()), "f00", NOW).unwrap_err().hint.is_some());
}

#[test]
fn tokens_end_with_the_generation_that_signed_them() {
    use crate::auth::keys::KeyFile;
    let day = Millis::from_seconds(86_400);
    let first = KeyFile::first([1; 32], NOW);
    let keys = Keyring::new(&first);
    let tokens = TokenKey::new(keys.clone(), LIFETIME_MAX);
    let claims = Claims { expires: NOW + Millis(day.0 * 20), ..claims() };
    let old = tokens.sign(&claims);
    // Those of older versions name no generation.
    let payload = serde_json::to_string(&Payload::of(&claims)).unwrap();
    let older = made(r#"{"alg":"HS256","typ":"JWT"}"#, &payload);
    let second = first.rotate([2; 32], day, NOW).unwrap();
    keys.set(&second);
    let new = tokens.sign(&claims);
    for token in [&old, &older, &new] {
        assert!(tokens.verify(token, "f00", NOW).is_ok(), "within the grace");
    }
    assert_eq!(tokens.verify_generation(&new, "f00", NOW).unwrap().1, 2);
    let later = NOW + day;
    assert!(tokens.verify(&new, "f00", later).is_ok());
    for token in [&old, &older] {
        let refused = tokens.verify(token, "f00", later).unwrap_err();
        assert!(refused.what.contains("generation 1 of the facility's key"), "{refused}");
    }
    let of_old = tokens.sign_as(1, &claims, NOW).unwrap();
    keys.set(&second.revoke(1, [3; 32], NOW).unwrap());
    for token in [&old, &older, &of_old] {
        assert!(tokens.verify(token, "f00", NOW).is_err(), "revoked");
    }
    assert!(tokens.sign_as(1, &claims, NOW).is_err());
    assert!(tokens.verify(&new, "f00", NOW).is_ok());
    for kid in ["0", "-1", "4294967296", "2", "x", ""] {
        let forged = made(&format!(r#"{{"alg":"HS256","kid":"{kid}"}}"#), &payload);
        assert!(tokens.verify(&forged, "f00", NOW).is_err(), "{kid}");
    }
}

#[test]
fn tokens_of_others_and_for_others_are_refused() {
    let token = key().sign(&claims());
    assert!(TokenKey::derive(&[2; 32]).verify(&token, "f00", NOW).unwrap_err().what.contains("not signed"));
    assert!(refusal(&Claims { issuer: "f01".to_owned(), ..claims() }, NOW).contains("issued by"));
    let mut other = claims();
    other.audience = vec!["x".to_owned(), "y".to_owned()];
    assert!(refusal(&other, NOW).contains("another audience"));
    other.audience.push(ANY_AUDIENCE.to_owned());
    assert!(key().verify(&key().sign(&other), "f00", NOW).is_ok());
    assert_eq!(format!("{:?}", key()), "TokenKey(..)");
}

#[test]
fn the_algorithm_cannot_be_chosen_by_the_token() {
    let payload = part(&Payload::of(&claims()));
    for header in [r#"{"alg":"none"}"#, r#"{"alg":"RS256"}"#, r#"{"alg":"HS256","crit":["b64"]}"#, "{}"] {
        let token = format!("{}.{payload}.", base64url::encode(header.as_bytes()));
        assert!(key().verify(&token, "f00", NOW).is_err(), "{header}");
    }
    let empty = key().sign(&claims());
    let (text, _) = empty.rsplit_once('.').unwrap();
    assert!(key().verify(&format!("{text}."), "f00", NOW).is_err());
}

#[test]
fn a_known_token_is_made_byte_by_byte() {
    let token = key().sign(&claims());
    let (header, rest) = token.split_once('.').unwrap();
    let header = String::from_utf8(base64url::decode(header).unwrap()).unwrap();
    assert_eq!(header, r#"{"alg":"HS256","typ":"JWT","kid":"1"}"#);
    let payload = base64url::decode(rest.split_once('.').unwrap().0).unwrap();
    assert_eq!(
        String::from_utf8(payload).unwrap(),
        r#"{"iss":"f00","sub":"alice","aud":"f00","jti":"0123","iat":1800000000,"nbf":1800000000,"exp":1800000010,"scope":"storage.read:/data","wlcg.ver":"1.0"}"#
    );
}

#[test]
fn bearer_words_of_the_field_are_understood() {
    for text in ["Bearer a.b.c", "Bearer%20a.b.c", "bearer  a.b.c", "Bearer+a.b.c", "a.b.c", " a.b.c "] {
        assert_eq!(bearer(text), Some("a.b.c"), "{text}");
    }
    for text in ["", "Bearer", "Bearer ", "a b", "Basic a:b", "é"] {
        assert_ne!(bearer(text), Some("a.b.c"), "{text}");
    }
    assert_eq!(bearer("a b"), None);
}

proptest! {
    #[test]
    fn a_changed_token_is_refused(at in 0usize..1000, byte in 33u8..127) {
        let mut token = key().sign(&claims()).into_bytes();
        let at = at % token.len();
        prop_assume!(token[at] != byte);
        token[at] = byte;
        prop_assert!(key().verify(std::str::from_utf8(&token).unwrap(), "f00", NOW).is_err());
    }

    #[test]
    fn noise_never_panics(data in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzz_token(&data);
    }

    #[test]
    fn damaged_payloads_never_panic(at in 0usize..300, byte: u8) {
        let mut payload = serde_json::to_vec(&Payload::of(&claims())).unwrap();
        let length = payload.len();
        payload[at % length] = byte;
        fuzz_token(&payload);
    }
}
