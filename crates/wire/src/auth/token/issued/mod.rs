//! Bearer tokens of other issuers: WLCG profile 1.x and SciTokens, signed with RS256 or ES256 (RFC 7518 §3).
//!
//! Four steps lead from a token to a user:
//!
//! 1. [`Presented`] parses the token;
//! 2. the caller finds the keys of its issuer ([`KeySet`]);
//! 3. [`Presented::verify`] checks signature, times, version and audience;
//! 4. [`Issuer::admit`] maps the subject to a user by the issuer's table.
//!
//! The key determines the algorithm, never the token. Nothing here does I/O: keys and the time are arguments.
//!
//! The rules are those of the common JWT profile of WLCG 1.3 and of the claims and scopes language of SciTokens. Where both leave
//! a choice, the code does as the servers of the field do.

mod claims;
mod issuer;
mod keys;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use claims::{Profile, SCITOKENS_ANY_AUDIENCE, Verified};
pub use issuer::{Issuer, Person};
pub use keys::{Algorithm, KEYS_MAX, Key, KeySet, jwks_place};

use super::{Header, TOKEN_BYTES_MAX, json, malformed};
use crate::auth::token::base64url;
use base::{Failure, Result, Timestamp};
use claims::Payload;

/// Longest id of a key, and longest URL of an issuer.
pub const NAME_BYTES_MAX: usize = 512;

/// A token that somebody shows, taken apart and not yet believed.
pub struct Presented<'a> {
    algorithm: Algorithm,
    key_id: Option<String>,
    payload: Payload,
    signed: &'a str,
    signature: Vec<u8>,
}

impl<'a> Presented<'a> {
    /// Takes a token apart; none if it is one that only a facility signs for itself (HS256).
    pub fn parse(token: &'a str) -> Result<Option<Self>> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Failure::invalid(format!("token is longer than {TOKEN_BYTES_MAX} bytes")));
        }
        let (signed, signature) = token.rsplit_once('.').ok_or_else(malformed)?;
        let (header, payload) = signed.split_once('.').ok_or_else(malformed)?;
        // What else a header says, such as where to find a key, is not believed: the issuer's own list counts.
        let header: Header = json(header)?;
        if header.crit.is_some() {
            return Err(Failure::unsupported("token has extensions that are not understood here"));
        }
        if header.alg == "HS256" {
            return Ok(None);
        }
        let algorithm = Algorithm::parse(&header.alg).ok_or_else(|| {
            let name: String = header.alg.chars().take(16).collect();
            Failure::permission(format!("token is signed with {name:?}, which is not taken here"))
                .hint("RS256 and ES256 are taken from other issuers")
        })?;
        let payload: Payload = json(payload)?;
        let key_id = header.kid.filter(|kid| !kid.is_empty());
        if payload.iss.len() > NAME_BYTES_MAX || key_id.as_ref().is_some_and(|kid| kid.len() > NAME_BYTES_MAX)
        {
            return Err(malformed());
        }
        let signature = base64url::decode(signature).ok_or_else(malformed)?;
        Ok(Some(Self { algorithm, key_id, payload, signed, signature }))
    }

    /// The issuer that it claims.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.payload.iss
    }

    /// The id of its key, if it says it.
    #[must_use]
    pub fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    /// Checks who signed it, whether it is good now, and whether it is for one of `audiences`.
    pub fn verify(self, keys: &KeySet, audiences: &[String], now: Timestamp) -> Result<Verified> {
        let key = keys.find(self.key_id(), self.algorithm)?;
        if !key.has_signed(self.signed.as_bytes(), &self.signature) {
            return Err(Failure::permission(format!(
                "token was not signed by {:?}, which it names as its issuer",
                self.payload.iss
            )));
        }
        self.payload.verify(audiences, now)
    }
}

/// Fuzz body: nothing that was not signed is accepted, nothing panics.
pub fn fuzz_foreign(data: &[u8]) {
    const JWKS: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"k",
        "x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;
    let text = String::from_utf8_lossy(data);
    let keys = KeySet::parse(JWKS.as_bytes()).expect("the example of RFC 7515 is a key");
    if let Ok(Some(token)) = Presented::parse(&text) {
        assert!(token.verify(&keys, &["a".to_owned()], Timestamp(0)).is_err());
    }
    if let Ok(payload) = serde_json::from_slice::<Payload>(data) {
        let _ = payload.verify(&["a".to_owned()], Timestamp(0)).map(|verified| verified.scopes);
    }
    let _ = (KeySet::parse(data), jwks_place(data, "https://a"));
}
