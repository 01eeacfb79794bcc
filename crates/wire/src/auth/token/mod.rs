//! Bearer tokens that the facility issues: JSON web tokens (RFC 7519) with the claims of the WLCG token profile.
//!
//! They are signed with HS256 (RFC 7515). Every party that can check such a token can also make one, so only the
//! facility's own doors accept them. A door checks a token without asking anybody. The clock is an argument.

pub mod base64url;
pub mod issued;
mod scope;
pub mod ztn;

pub use scope::{Grant, Right, SCOPES_MAX, Scope, Scopes};

use crate::auth::keys::Keyring;
use base::{Failure, Millis, Result, Timestamp};
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
/// The generation that signed tokens which name none: they are from before there were others.
const FIRST_GENERATION: u32 = 1;
/// Longest life of a token unless the configuration says otherwise.
pub const LIFETIME_MAX: Millis = Millis::from_seconds(30 * 86_400);

/// Signs and checks tokens, with the generations of the facility's key. `Debug` shows no secret.
#[derive(Clone)]
pub struct TokenKey {
    keys: Keyring,
    lifetime_max: Millis,
}

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
    /// Which of an issuer's keys signed it: the generation, in tokens of this facility.
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
    /// Tokens of a facility with a single key.
    #[must_use]
    pub fn derive(facility_key: &[u8; 32]) -> Self {
        Self::new(Keyring::of_one(*facility_key), LIFETIME_MAX)
    }

    /// Tokens by these keys, which live for `lifetime_max` at most: whoever has a key cannot make one that lasts longer.
    #[must_use]
    pub fn new(keys: Keyring, lifetime_max: Millis) -> Self {
        Self { keys, lifetime_max }
    }

    /// Longest life of a token.
    #[must_use]
    pub fn lifetime_max(&self) -> Millis {
        self.lifetime_max
    }

    /// The keys.
    #[must_use]
    pub fn keys(&self) -> &Keyring {
        &self.keys
    }

    /// Makes a token with the newest generation. Times are cut to seconds.
    #[must_use]
    pub fn sign(&self, claims: &Claims) -> String {
        let current = self.keys.current();
        signed(&current.key, current.number, claims)
    }

    /// The same with another generation: what is made by the right of a token ends with the generation of that one.
    pub fn sign_as(&self, generation: u32, claims: &Claims, now: Timestamp) -> Result<String> {
        let secret = self.keys.find(generation, now)?;
        Ok(signed(&secret.key, secret.number, claims))
    }

    /// Checks a token: who signed it, for which facility, and whether it is good now.
    pub fn verify(&self, token: &str, facility: &str, now: Timestamp) -> Result<Claims> {
        self.verify_generation(token, facility, now).map(|(claims, _)| claims)
    }

    /// The same, and which generation has signed it.
    pub fn verify_generation(&self, token: &str, facility: &str, now: Timestamp) -> Result<(Claims, u32)> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Failure::invalid(format!("token is longer than {TOKEN_BYTES_MAX} bytes")));
        }
        let (text, signature) = token.rsplit_once('.').ok_or_else(malformed)?;
        let (header, payload) = text.split_once('.').ok_or_else(malformed)?;
        let generation = check_header(header)?;
        let signature = base64url::decode(signature).ok_or_else(malformed)?;
        let secret = self.keys.find(generation, now)?;
        let mut mac = hmac(&derived(&secret.key));
        mac.update(text.as_bytes());
        // Takes the same time wherever they differ.
        mac.verify_slice(&signature)
            .map_err(|_| Failure::permission("token was not signed by this facility"))?;
        let payload: Payload = json(payload)?;
        let claims = payload.claims()?;
        claims.check(facility, now)?;
        claims.check_lifetime(self.lifetime_max, now)?;
        Ok((claims, generation))
    }
}

/// The key for tokens that follows from a generation.
fn derived(facility_key: &[u8; 32]) -> [u8; 32] {
    let mut mac = hmac(facility_key);
    mac.update(KEY_LABEL);
    mac.finalize().into_bytes().into()
}

fn signed(facility_key: &[u8; 32], generation: u32, claims: &Claims) -> String {
    let kid = Some(generation.to_string());
    let header = Header { alg: "HS256".to_owned(), typ: Some("JWT".to_owned()), kid, crit: None };
    let text = format!("{}.{}", part(&header), part(&Payload::of(claims)));
    let mut mac = hmac(&derived(facility_key));
    mac.update(text.as_bytes());
    format!("{text}.{}", base64url::encode(&mac.finalize().into_bytes()))
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
            return Err(Failure::permission(format!("token of {:?} is not valid yet", self.subject)));
        }
        Ok(())
    }

    /// Refuses a token that lives longer than is allowed, whatever its times are: also if it does not say since when.
    fn check_lifetime(&self, lifetime_max: Millis, now: Timestamp) -> Result<()> {
        let begins = self.issued.0.min(self.starts.0);
        let is_too_long = self.expires.0.saturating_sub(begins) > lifetime_max.0;
        if is_too_long || self.issued.seconds() > now.seconds() + CLOCKS_DIFFER_S {
            let days = lifetime_max.0 / 86_400_000;
            return Err(Failure::permission(format!(
                "token of {:?} is valid for longer than this facility allows, {days} days",
                self.subject
            ))
            .hint("get a new one: `bp token create`; the operator sets tokens.lifetime_max"));
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

/// Checks how a token is signed, and says by which generation.
fn check_header(part: &str) -> Result<u32> {
    let header: Header = json(part)?;
    if header.crit.is_some() {
        return Err(Failure::unsupported("token has extensions that are not understood here"));
    }
    if header.alg != "HS256" {
        let what = format!("token is signed with {:?}: only tokens of this facility are taken", header.alg);
        return Err(Failure::permission(what).hint("`bp token create` makes one"));
    }
    match header.kid {
        None => Ok(FIRST_GENERATION),
        Some(generation) => generation.parse().map_err(|_| {
            Failure::permission("token was not signed by this facility")
                .hint("`bp token create` makes those of this facility")
        }),
    }
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
    assert!(TokenKey::derive(&[7; 32]).verify(&text, "f", Timestamp(0)).is_err());
    let _ = (bearer(&text), check_header(&text), Scopes::parse(&text));
    if let Ok(claims) = json::<Payload>(&base64url::encode(data)).and_then(Payload::claims) {
        let again = Payload::of(&claims).claims().expect("what was read can be written");
        assert_eq!(again.subject, claims.subject);
    }
}

#[cfg(test)]
mod tests;
