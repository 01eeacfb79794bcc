//! Bearer tokens that the facility issues: JSON web tokens (RFC 7519) with the claims of the WLCG token profile.
//!
//! Signed with HS256 (RFC 7515): whoever can check such a token can also make one, so only the facility's own doors
//! take them. A door checks a token by itself; nobody is asked. The clock is an argument.

pub mod base64url;
pub mod foreign;
mod scope;
pub mod ztn;

pub use scope::{Grant, Right, SCOPES_MAX, Scope, Scopes};

use base::{Failure, Result, Timestamp};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;

/// Longest token: what servers of the field take by default.
pub const TOKEN_BYTES_MAX: usize = 4096;
/// The audience that means any service, as the profile defines it.
pub const ANY_AUDIENCE: &str = "https://wlcg.cern.ch/jwt/v1/any";
/// Version of the token profile.
const PROFILE: &str = "1.0";
/// Hosts of a facility agree on the time to this many seconds.
const CLOCKS_DIFFER_S: i64 = 60;
/// Separates this use of the facility's key from all others.
const KEY_LABEL: &[u8] = b"backplane bearer token 1";

/// The key that signs tokens. It never shows itself.
#[derive(Clone)]
pub struct TokenKey([u8; 32]);

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey(..)")
    }
}

/// What a token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The facility that issued it, by its id.
    pub issuer: String,
    /// The user.
    pub subject: String,
    /// Services that may take it; empty: any.
    pub audience: Vec<String>,
    /// Number of the token, for logs.
    pub id: String,
    /// When it was issued.
    pub issued: Timestamp,
    /// When it begins to be good.
    pub starts: Timestamp,
    /// When it ends.
    pub expires: Timestamp,
    /// What it allows; `None`: all that the user may do.
    pub scopes: Option<Scopes>,
    /// Groups of the user; with scopes they mean nothing.
    pub groups: Vec<String>,
    /// It was made for a job, and must not make others: it would last as long as somebody submits with it.
    pub is_of_job: bool,
    /// The host for whose jobs it was made, as [`enrolment`] says; it is good as long as that belongs to the facility.
    pub host: Option<String>,
}

/// A host as it joined then: one that joins anew, under whatever name, is another.
#[must_use]
pub fn enrolment(host: &str, joined: Timestamp) -> String {
    format!("{host}/{}", joined.0)
}

#[derive(Serialize, Deserialize)]
struct Header {
    alg: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    typ: Option<String>,
    /// Which of an issuer's keys signed it; a facility has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kid: Option<String>,
    /// Extensions that must be understood; we understand none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crit: Option<serde_json::Value>,
}

/// One audience or several.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

#[derive(Serialize, Deserialize)]
struct Payload {
    iss: String,
    sub: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    aud: Option<Audience>,
    #[serde(default)]
    jti: String,
    #[serde(default)]
    iat: i64,
    #[serde(default)]
    nbf: i64,
    exp: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    #[serde(rename = "wlcg.ver", default, skip_serializing_if = "String::is_empty")]
    version: String,
    #[serde(rename = "wlcg.groups", default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    #[serde(rename = "backplane.job", default, skip_serializing_if = "std::ops::Not::not")]
    is_of_job: bool,
    #[serde(rename = "backplane.host", default, skip_serializing_if = "Option::is_none")]
    host: Option<String>,
}

impl TokenKey {
    /// The key for tokens that follows from the facility's key.
    #[must_use]
    pub fn derive(facility_key: &[u8; 32]) -> Self {
        let mut mac = hmac(facility_key);
        mac.update(KEY_LABEL);
        Self(mac.finalize().into_bytes().into())
    }

    /// Makes a token. Times are cut to seconds.
    #[must_use]
    pub fn sign(&self, claims: &Claims) -> String {
        let header = Header { alg: "HS256".to_owned(), typ: Some("JWT".to_owned()), kid: None, crit: None };
        let text = format!("{}.{}", part(&header), part(&Payload::of(claims)));
        let mut mac = hmac(&self.0);
        mac.update(text.as_bytes());
        format!("{text}.{}", base64url::encode(&mac.finalize().into_bytes()))
    }

    /// Checks a token: who signed it, for which facility, and whether it is good now.
    pub fn verify(&self, token: &str, facility: &str, now: Timestamp) -> Result<Claims> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Failure::invalid(format!("token is longer than {TOKEN_BYTES_MAX} bytes")));
        }
        let (text, signature) = token.rsplit_once('.').ok_or_else(malformed)?;
        let (header, payload) = text.split_once('.').ok_or_else(malformed)?;
        check_header(header)?;
        let signature = base64url::decode(signature).ok_or_else(malformed)?;
        let mut mac = hmac(&self.0);
        mac.update(text.as_bytes());
        // Takes the same time wherever they differ.
        mac.verify_slice(&signature)
            .map_err(|_| Failure::permission("token was not signed by this facility"))?;
        let payload: Payload = json(payload)?;
        let claims = payload.claims()?;
        claims.check(facility, now)?;
        Ok(claims)
    }
}

impl Claims {
    /// Refuses a token of another facility, for another audience, or of another time.
    fn check(&self, facility: &str, now: Timestamp) -> Result<()> {
        if self.issuer != facility {
            return Err(Failure::permission(format!(
                "token was issued by {:?}, not by this facility",
                self.issuer
            )));
        }
        let is_ours = |audience: &String| audience == facility || audience == ANY_AUDIENCE;
        if !self.audience.is_empty() && !self.audience.iter().any(is_ours) {
            let audience = self.audience.join(", ");
            return Err(Failure::permission(format!("token is for another audience: {audience:?}")));
        }
        if self.expires <= now {
            return Err(Failure::permission(format!("token of {:?} has expired", self.subject))
                .hint("`bp token create` makes a new one"));
        }
        if self.starts.seconds() > now.seconds() + CLOCKS_DIFFER_S {
            return Err(Failure::permission(format!("token of {:?} is not good yet", self.subject)));
        }
        Ok(())
    }
}

impl Payload {
    fn of(claims: &Claims) -> Self {
        let aud = match &claims.audience[..] {
            [] => None,
            [one] => Some(Audience::One(one.clone())),
            many => Some(Audience::Many(many.to_vec())),
        };
        Self {
            iss: claims.issuer.clone(),
            sub: claims.subject.clone(),
            aud,
            jti: claims.id.clone(),
            iat: claims.issued.seconds(),
            nbf: claims.starts.seconds(),
            exp: claims.expires.seconds(),
            scope: claims.scopes.as_ref().map(ToString::to_string),
            version: PROFILE.to_owned(),
            groups: claims.groups.clone(),
            is_of_job: claims.is_of_job,
            host: claims.host.clone(),
        }
    }

    fn claims(self) -> Result<Claims> {
        let audience = match self.aud {
            None => Vec::new(),
            Some(Audience::One(one)) => vec![one],
            Some(Audience::Many(many)) if many.is_empty() => return Err(malformed()),
            Some(Audience::Many(many)) => many,
        };
        if self.sub.is_empty() {
            return Err(Failure::invalid("token names no user"));
        }
        let at = |seconds: i64| Timestamp(seconds.saturating_mul(1000));
        Ok(Claims {
            issuer: self.iss,
            subject: self.sub,
            audience,
            id: self.jti,
            issued: at(self.iat),
            starts: at(self.nbf),
            expires: at(self.exp),
            scopes: self.scope.as_deref().map(Scopes::parse).transpose()?,
            groups: self.groups,
            is_of_job: self.is_of_job,
            host: self.host,
        })
    }
}

/// Finds the token in what stands after `authz=` or `Authorization:`: `Bearer TOKEN`, escaped or not, or it alone.
#[must_use]
pub fn bearer(text: &str) -> Option<&str> {
    let text = text.trim();
    let word = text.get(..6).filter(|word| word.eq_ignore_ascii_case("bearer"));
    let token = match word {
        Some(_) => {
            let rest = &text[6..];
            let rest = rest.strip_prefix("%20").or_else(|| rest.strip_prefix('+')).unwrap_or(rest);
            rest.trim_start()
        }
        None => text,
    };
    let is_token = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
    (!token.is_empty() && token.chars().all(is_token)).then_some(token)
}

fn hmac(key: &[u8; 32]) -> Hmac<Sha256> {
    Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length")
}

fn check_header(part: &str) -> Result<()> {
    let header: Header = json(part)?;
    if header.crit.is_some() {
        return Err(Failure::unsupported("token has extensions that are not understood here"));
    }
    if header.alg != "HS256" {
        let what = format!("token is signed with {:?}: only tokens of this facility are taken", header.alg);
        return Err(Failure::permission(what).hint("`bp token create` makes one"));
    }
    Ok(())
}

fn part<T: Serialize>(value: &T) -> String {
    base64url::encode(&serde_json::to_vec(value).expect("plain values always serialise"))
}

fn json<T: for<'a> Deserialize<'a>>(part: &str) -> Result<T> {
    let bytes = base64url::decode(part).ok_or_else(malformed)?;
    serde_json::from_slice(&bytes).map_err(|_| malformed())
}

fn malformed() -> Failure {
    Failure::permission("token is malformed").hint("it must be a signed JSON web token")
}

/// Fuzz body: nothing that was not signed is accepted, nothing panics.
pub fn fuzz_token(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    assert!(TokenKey([7; 32]).verify(&text, "f", Timestamp(0)).is_err());
    let _ = (bearer(&text), check_header(&text), Scopes::parse(&text));
    if let Ok(claims) = json::<Payload>(&base64url::encode(data)).and_then(Payload::claims) {
        let again = Payload::of(&claims).claims().expect("what was read can be written");
        assert_eq!(again.subject, claims.subject);
    }
}

#[cfg(test)]
mod tests {
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
        assert!(refusal(&claims(), Timestamp(NOW.0 - 61_000)).contains("not good yet"));
        let groups = vec!["prod".to_owned()];
        let host = Some(enrolment("c1", NOW));
        let free = Claims { audience: Vec::new(), scopes: None, groups, host, ..claims() };
        assert_eq!(key().verify(&key().sign(&free), "f00", NOW).unwrap(), free);
        let job = Claims { is_of_job: true, ..claims() };
        assert_eq!(key().verify(&key().sign(&job), "f00", NOW).unwrap(), job);
    }

    #[test]
    fn tokens_of_others_and_for_others_are_refused() {
        let token = key().sign(&claims());
        assert!(
            TokenKey::derive(&[2; 32]).verify(&token, "f00", NOW).unwrap_err().what.contains("not signed")
        );
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
        assert_eq!(header, "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9");
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
}
