use super::{testing::Signer, *};
use crate::auth::token::{Right, Scopes, TokenKey};
use base::FilePath;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::LazyLock;

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const URL: &str = "https://issuer.example/vo";
const OURS: &str = "https://door.example:8443";

static RSA: LazyLock<Signer> = LazyLock::new(|| Signer::new(Algorithm::Rs256));
static P256: LazyLock<Signer> = LazyLock::new(|| Signer::new(Algorithm::Es256));
static KEYS: LazyLock<KeySet> = LazyLock::new(|| {
    let jwks = format!(r#"{{"keys":[{},{}]}}"#, RSA.jwk("r1"), P256.jwk("e1"));
    KeySet::parse(jwks.as_bytes()).unwrap()
});

fn path(text: &str) -> FilePath {
    text.parse().unwrap()
}

fn wlcg() -> Value {
    let s = NOW.seconds();
    json!({ "iss": URL, "sub": "s1", "aud": OURS, "exp": s + 10, "nbf": s, "iat": s, "jti": "j1",
        "wlcg.ver": "1.0", "scope": "openid storage.read:/data storage.create:/home/s1" })
}

fn changed(changes: Value) -> Value {
    let mut claims = wlcg();
    for (key, value) in changes.as_object().unwrap() {
        claims[key] = value.clone();
    }
    claims
}

fn without(key: &str) -> Value {
    let mut claims = wlcg();
    claims.as_object_mut().unwrap().remove(key);
    claims
}

fn rsa(claims: &Value) -> String {
    RSA.sign(r#"{"alg":"RS256","kid":"r1","typ":"at+jwt"}"#, &claims.to_string())
}

fn p256(claims: &Value) -> String {
    P256.sign(r#"{"alg":"ES256","kid":"e1"}"#, &claims.to_string())
}

fn verify_at(token: &str, now: Timestamp) -> Result<Verified> {
    let presented = Presented::parse(token)?.ok_or_else(|| Failure::internal("signed with HS256"))?;
    presented.verify(&KEYS, &[OURS.to_owned(), "door".to_owned()], now)
}

fn verify(token: &str) -> Result<Verified> {
    verify_at(token, NOW)
}

fn refusal(claims: &Value) -> String {
    let refused = verify(&p256(claims)).unwrap_err();
    assert_eq!(verify(&rsa(claims)).unwrap_err(), refused);
    refused.what
}

fn issuer() -> Issuer {
    Issuer {
        url: URL.to_owned(),
        base: path("/vo"),
        user: Some("vo".to_owned()),
        users: [("s1".to_owned(), "ann".to_owned())].into(),
        groups: [("/vo".to_owned(), "vo".to_owned()), ("/vo/prod".to_owned(), "prod".to_owned())].into(),
    }
}

#[test]
fn both_algorithms_are_taken() {
    for token in [rsa(&wlcg()), p256(&wlcg())] {
        let verified = verify(&token).unwrap();
        assert_eq!((&*verified.issuer, &*verified.subject, &*verified.id), (URL, "s1", "j1"));
        assert_eq!((verified.profile, verified.expires), (Profile::Wlcg, Timestamp(NOW.0 + 10_000)));
        assert_eq!(verified.scopes.unwrap().to_string(), "storage.read:/data storage.create:/home/s1");
        let presented = Presented::parse(&token).unwrap().unwrap();
        assert_eq!(presented.issuer(), URL);
        assert!(KEYS.knows(presented.key_id()) && KEYS.knows(None) && !KEYS.knows(Some("other")));
    }
    let own = TokenKey::derive(&[1; 32]);
    let claims = crate::auth::token::Claims {
        issuer: URL.to_owned(),
        subject: "s1".to_owned(),
        audience: vec![OURS.to_owned()],
        id: String::new(),
        issued: NOW,
        starts: NOW,
        expires: Timestamp(NOW.0 + 1000),
        scopes: None,
        groups: Vec::new(),
        is_of_job: false,
        host: None,
    };
    assert!(Presented::parse(&own.sign(&claims)).unwrap().is_none());
}

#[test]
fn forged_tokens_are_refused() {
    let (other_rsa, other_p256) = (Signer::new(Algorithm::Rs256), Signer::new(Algorithm::Es256));
    for token in [
        other_rsa.sign(r#"{"alg":"RS256","kid":"r1"}"#, &wlcg().to_string()),
        other_p256.sign(r#"{"alg":"ES256","kid":"e1"}"#, &wlcg().to_string()),
    ] {
        assert!(verify(&token).unwrap_err().what.contains("was not signed by"), "{token}");
    }
    // The head of one token on the body of another.
    let (one, other) = (rsa(&wlcg()), rsa(&changed(json!({"sub": "s2"}))));
    let parts: Vec<_> = one.split('.').zip(other.split('.')).collect();
    let mixed = [parts[0].0, parts[1].1, parts[2].0].join(".");
    assert!(verify(&mixed).unwrap_err().what.contains("was not signed by"));
    let (text, _) = one.rsplit_once('.').unwrap();
    assert!(verify(&format!("{text}.")).is_err());
}

#[test]
fn the_algorithm_cannot_be_chosen_by_the_token() {
    let payload = wlcg().to_string();
    let refused = |signer: &Signer, header: &str| verify(&signer.sign(header, &payload)).unwrap_err().what;
    for name in ["none", "None", "", "RS384", "PS256", "ES384", "EdDSA", "rs256"] {
        let text = refused(&RSA, &format!(r#"{{"alg":"{name}","kid":"r1"}}"#));
        assert!(text.contains("not taken here"), "{name}: {text}");
    }
    assert!(refused(&RSA, r#"{"alg":"ES256","kid":"r1"}"#).contains("a key of another kind"));
    assert!(refused(&P256, r#"{"alg":"RS256","kid":"e1"}"#).contains("a key of another kind"));
    assert!(refused(&RSA, r#"{"alg":"RS256","kid":"r2"}"#).contains("does not publish"));
    // A public key as the secret of HMAC: such a token is for the facility's own key, which has not signed it.
    let hmac = RSA.sign(r#"{"alg":"HS256","kid":"r1"}"#, &payload);
    assert!(Presented::parse(&hmac).unwrap().is_none());
    assert!(TokenKey::derive(&[1; 32]).verify(&hmac, URL, NOW).is_err());
    assert!(Presented::parse(&RSA.sign("{}", &payload)).is_err());
    for header in [r#"{"alg":"RS256","kid":"r1","crit":["exp"]}"#, r#"{"alg":"RS256","kid":"r1","crit":[]}"#]
    {
        assert!(refused(&RSA, header).contains("extensions"), "{header}");
    }
}

#[test]
fn keys_in_the_header_are_ignored() {
    let stranger = Signer::new(Algorithm::Es256);
    let jwk = stranger.jwk("e1");
    let header = format!(
        r#"{{"alg":"ES256","kid":"e1","jku":"https://evil.example/","x5u":"https://evil.example/","jwk":{jwk}}}"#
    );
    assert!(verify(&stranger.sign(&header, &wlcg().to_string())).is_err());
    assert!(verify(&P256.sign(&header, &wlcg().to_string())).is_ok());
}

#[test]
fn a_token_without_a_key_id_needs_an_issuer_with_one_key() {
    let token = P256.sign(r#"{"alg":"ES256"}"#, &wlcg().to_string());
    assert!(verify(&token).is_ok());
    let two = format!(r#"{{"keys":[{},{}]}}"#, P256.jwk("a"), Signer::new(Algorithm::Es256).jwk("b"));
    let two = KeySet::parse(two.as_bytes()).unwrap();
    let presented = Presented::parse(&token).unwrap().unwrap();
    let refused = presented.verify(&two, &[OURS.to_owned()], NOW).unwrap_err();
    assert!(refused.what.contains("several"), "{refused}");
}

#[test]
fn times_are_kept() {
    let token = rsa(&wlcg());
    assert!(verify_at(&token, Timestamp(NOW.0 + 9_999)).is_ok());
    assert!(verify_at(&token, Timestamp(NOW.0 + 10_000)).unwrap_err().what.contains("has expired"));
    assert!(verify_at(&token, Timestamp(NOW.0 - 60_000)).is_ok());
    assert!(verify_at(&token, Timestamp(NOW.0 - 61_000)).unwrap_err().what.contains("not valid yet"));
    let s = NOW.seconds();
    assert!(refusal(&changed(json!({"iat": s + 61, "nbf": s}))).contains("not valid yet"));
    assert!(verify(&rsa(&changed(json!({"exp": s as f64 + 1.5})))).is_ok());
    for wrong in [json!("1900000000"), json!(null), json!([1]), json!(true)] {
        assert!(refusal(&changed(json!({"exp": wrong}))).contains("malformed"), "{wrong}");
    }
    assert!(refusal(&without("exp")).contains("malformed"));
    assert!(refusal(&changed(json!({"nbf": "soon"}))).contains("malformed"));
    assert!(verify(&rsa(&changed(json!({"exp": u64::MAX})))).is_ok());
    assert!(refusal(&changed(json!({"exp": -1}))).contains("has expired"));
}

#[test]
fn audiences_are_demanded() {
    for good in [json!("door"), json!(["x", OURS]), json!(crate::auth::token::ANY_AUDIENCE)] {
        assert!(verify(&rsa(&changed(json!({"aud": good})))).is_ok(), "{good}");
    }
    for bad in
        [json!("https://door.example:8443/"), json!(["x", "y"]), json!([]), json!("ANY"), json!("DOOR")]
    {
        assert!(refusal(&changed(json!({"aud": bad}))).contains("audience"), "{bad}");
    }
    assert!(refusal(&without("aud")).contains("names no audience"));
    assert!(refusal(&changed(json!({"aud": 7}))).contains("malformed"));
}

#[test]
fn versions_that_are_known() {
    for good in ["1.0", "1.2", "1.15"] {
        assert!(verify(&rsa(&changed(json!({"wlcg.ver": good})))).is_ok());
    }
    for bad in ["2.0", "1", "1.", "1.x", "", "11.0"] {
        assert!(refusal(&changed(json!({"wlcg.ver": bad}))).contains("version"), "{bad}");
    }
    let sci = |ver: Option<&str>| {
        let mut claims = without("wlcg.ver");
        claims["scope"] = json!("read:/a write:/b");
        claims["aud"] = json!(SCITOKENS_ANY_AUDIENCE);
        if let Some(ver) = ver {
            claims["ver"] = json!(ver);
        }
        claims
    };
    for good in [None, Some("scitoken:2.0"), Some("scitokens:2.0")] {
        let verified = verify(&p256(&sci(good))).unwrap();
        assert_eq!(verified.profile, Profile::SciTokens);
        assert_eq!(verified.scopes, Some(Scopes::parse("storage.read:/a storage.modify:/b").unwrap()));
    }
    assert!(refusal(&sci(Some("scitoken:3.0"))).contains("version"));
}

#[test]
fn scopes_and_groups() {
    let groups = json!(["/vo", "/vo/prod", "/vo/other"]);
    let scoped = verify(&rsa(&changed(json!({"wlcg.groups": groups})))).unwrap();
    assert!(scoped.groups.is_empty() && scoped.scopes.is_some());
    let computing = changed(json!({"wlcg.groups": groups, "scope": "compute.read"}));
    let computing = verify(&rsa(&computing)).unwrap();
    assert_eq!((computing.scopes, computing.groups), (Some(Scopes::default()), vec![]));
    let free = changed(json!({"wlcg.groups": groups, "scope": "openid offline_access"}));
    let free = verify(&rsa(&free)).unwrap();
    assert_eq!((free.scopes, free.groups.len()), (None, 3));
    for bad in [
        "storage.read",
        "storage.read:",
        "storage.modify:data",
        "storage.read:/a/../b",
        "storage.read:/%2E./b",
    ] {
        let text = refusal(&changed(json!({"scope": format!("storage.read:/a {bad}")})));
        assert!(text.contains("scope storage."), "{bad}: {text}");
    }
    assert!(refusal(&changed(json!({"sub": ""}))).contains("no subject"));
    assert!(refusal(&changed(json!({"scope": "", "wlcg.groups": vec!["/g"; 129]}))).contains("groups"));
}

#[test]
fn an_issuer_says_who_its_subjects_are_here() {
    let admit = |claims: Value| issuer().admit(verify(&rsa(&claims)).unwrap());
    let ann = admit(wlcg()).unwrap();
    assert_eq!((&*ann.user, ann.groups.len()), ("ann", 0));
    assert_eq!(ann.scopes.to_string(), "storage.read:/vo/data storage.create:/vo/home/s1");
    assert!(!ann.scopes.allow(Right::Read, &path("/data/x")));
    let other = admit(changed(json!({"sub": "s2"}))).unwrap();
    assert_eq!(other.user, "vo");
    let groups = json!(["/vo/prod", "/vo/prod", "/strange", "/vo"]);
    let member = admit(changed(json!({"sub": "s2", "scope": "", "wlcg.groups": groups}))).unwrap();
    assert_eq!((&*member.user, member.groups), ("vo", vec!["prod".to_owned(), "vo".to_owned()]));
    assert!(
        member.scopes.allow(Right::Modify, &path("/vo/x")) && !member.scopes.allow(Right::Read, &path("/x"))
    );
    // A subgroup does not make a member of the group above it.
    let stranger =
        admit(changed(json!({"sub": "s2", "scope": "", "wlcg.groups": ["/vo/other"]}))).unwrap_err();
    assert!(stranger.what.contains("neither a storage scope nor a group"), "{stranger}");
    assert!(admit(changed(json!({"scope": ""}))).is_ok());
    let closed = Issuer { user: None, ..issuer() };
    let refused = closed.admit(verify(&rsa(&changed(json!({"sub": "s2"})))).unwrap()).unwrap_err();
    assert!(refused.what.contains("has no user here"), "{refused}");
}

#[test]
fn what_is_too_long_is_refused() {
    let long = changed(json!({"scope": "x".repeat(5000)}));
    assert!(verify(&rsa(&long)).unwrap_err().what.contains("longer than"));
    let header = format!(r#"{{"alg":"RS256","kid":"{}"}}"#, "k".repeat(NAME_BYTES_MAX + 1));
    assert!(Presented::parse(&RSA.sign(&header, &wlcg().to_string())).is_err());
    let many = format!(r#"{{"keys":[{}]}}"#, vec!["{}"; KEYS_MAX + 1].join(","));
    assert!(KeySet::parse(many.as_bytes()).unwrap_err().what.contains("more than"));
    for text in ["", ".", "..", "a.b.c", "a.b", "e30.e30.", "....."] {
        assert!(Presented::parse(text).is_err(), "{text}");
    }
    let twice = wlcg().to_string().replacen('{', r#"{"sub":"root","#, 1);
    assert!(Presented::parse(&RSA.sign(r#"{"alg":"RS256","kid":"r1"}"#, &twice)).is_err());
}

#[test]
fn keys_for_something_else_are_passed_over() {
    let good = P256.jwk("e1");
    let lists = [
        r#"{"kty":"oct","kid":"k","k":"AAAA"}"#.to_owned(),
        good.replace("sig", "enc"),
        good.replace("P-256", "P-384"),
        good.replace(r#""kty":"EC""#, r#""kty":"EC","alg":"ES512""#),
        RSA.jwk("r1").replace(r#""kty":"RSA""#, r#""kty":"RSA","alg":"PS256""#),
        r#"{"kty":"RSA","kid":"short","n":"AQAB","e":"AQAB"}"#.to_owned(),
        r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#.to_owned(),
        r#""text""#.to_owned(),
    ];
    for bad in &lists {
        assert!(KeySet::parse(format!(r#"{{"keys":[{bad}]}}"#).as_bytes()).is_err(), "{bad}");
    }
    let all = format!(r#"{{"keys":[{},{good}]}}"#, lists.join(","));
    let all = KeySet::parse(all.as_bytes()).unwrap();
    assert!(all.knows(Some("e1")) && !all.knows(Some("k")) && !all.knows(Some("r1")));
    for bad in ["", "{}", "[]", r#"{"keys":7}"#] {
        assert!(KeySet::parse(bad.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn keys_are_where_their_issuer_says_by_https() {
    let said = |text: &str| jwks_place(text.as_bytes(), URL);
    let good = format!(r#"{{"issuer":"{URL}","jwks_uri":"https://keys.example/jwk"}}"#);
    assert_eq!(said(&good).unwrap(), "https://keys.example/jwk");
    assert!(said(&good.replace("https://keys", "http://keys")).unwrap_err().what.contains("https"));
    assert!(said(&good.replace("example/vo", "example/vo/")).unwrap_err().what.contains("another issuer"));
    assert!(said("{}").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_changed_token_is_taken(at in 0..10_000_usize, byte in b'!'..b'~', is_rsa: bool) {
        let token = if is_rsa { rsa(&wlcg()) } else { p256(&wlcg()) };
        let mut bytes = token.clone().into_bytes();
        let at = at % bytes.len();
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        prop_assert!(verify(std::str::from_utf8(&bytes).unwrap()).is_err());
        prop_assert!(verify(&token[..at]).is_err());
    }

    #[test]
    fn whatever_comes_nothing_panics(text in "[A-Za-z0-9_.-]{0,200}", body in r#"[\[\]{}",:a-z0-9.]{0,80}"#) {
        fuzz_foreign(text.as_bytes());
        fuzz_foreign(body.as_bytes());
    }

    #[test]
    fn nobody_leaves_the_directory_of_their_issuer(name in "[a-z/.%]{0,20}", words in "(read|write|storage.read|storage.modify):/[a-z/.%0-9]{0,12}") {
        for profile in [Scopes::parse(&words), Scopes::parse_scitokens(&words)] {
            let Ok(scopes) = profile.and_then(|scopes| scopes.below(&path("/vo"))) else { continue };
            let Ok(at) = format!("/{name}").parse::<FilePath>() else { continue };
            for right in [Right::Read, Right::List, Right::Create, Right::Modify, Right::Stage] {
                prop_assert!(!scopes.allow(right, &at) || at.is_within(&path("/vo")));
            }
        }
    }
}
