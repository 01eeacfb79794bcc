//! Keys of issuers (RFC 7517), and their discovery.

use crate::auth::token::base64url;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base::{Failure, Result};
use serde::Deserialize;

/// Keys of one issuer that are kept; real ones have a handful.
pub const KEYS_MAX: usize = 64;
/// Bytes of a number of P-256.
const P256_BYTES: usize = 32;
/// Bytes of the shortest and the longest modulus.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

/// How a token is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// RSA, PKCS #1 1.5, SHA-256
    Rs256,
    /// ECDSA, P-256, SHA-256
    Es256,
}

impl Algorithm {
    /// `None`: one that is not taken.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            _ => None,
        }
    }

    /// Its name in tokens.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
        }
    }
}

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// For RS256.
    Rsa {
        /// Modulus, without leading zeros.
        n: Vec<u8>,
        /// Exponent, without leading zeros.
        e: Vec<u8>,
    },
    /// For ES256: the point, uncompressed.
    P256(Vec<u8>),
}

impl Key {
    /// What it signs with.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Self::Rsa { .. } => Algorithm::Rs256,
            Self::P256(_) => Algorithm::Es256,
        }
    }

    /// Whether its owner has signed `text`.
    #[must_use]
    pub fn has_signed(&self, text: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, text, signature).is_ok()
            }
            Self::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(text, signature).is_ok()
            }
        }
    }
}

/// The keys that an issuer signs with now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeySet(Vec<(Option<String>, Key)>);

#[derive(Deserialize)]
struct Jwks {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Reads the list of an issuer. Keys for other purposes, and of kinds that we do not take, are passed over.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let jwks: Jwks = serde_json::from_slice(text)
            .map_err(|_| Failure::invalid("the issuer's list of keys is not a list of keys"))?;
        if jwks.keys.len() > KEYS_MAX {
            return Err(Failure::invalid(format!("the issuer has more than {KEYS_MAX} keys")));
        }
        let keys = jwks.keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(key).ok()?.key());
        let keys: Vec<_> = keys.collect();
        if keys.is_empty() {
            return Err(Failure::invalid("the issuer has no key for RS256 or ES256"));
        }
        Ok(Self(keys))
    }

    /// Whether there is a key of that id, or one at all for tokens that name none.
    #[must_use]
    pub fn knows(&self, id: Option<&str>) -> bool {
        self.candidates(id).next().is_some()
    }

    /// The key of that id. A token without an id is checked with the only key that its issuer has.
    pub fn find<'a>(&'a self, id: Option<&'a str>, algorithm: Algorithm) -> Result<&'a Key> {
        let named = || id.map_or_else(|| "no key".to_owned(), |id| format!("key {id:?}"));
        let mut candidates = self.candidates(id).filter(|key| key.algorithm() == algorithm);
        match (candidates.next(), candidates.next()) {
            (Some(key), None) => Ok(key),
            (None, _) if self.knows(id) => Err(Failure::permission(format!(
                "token is signed with {}, but names {}, a key of another kind",
                algorithm.as_str(),
                named()
            ))),
            (None, _) => Err(Failure::permission(format!(
                "token names {}, which its issuer does not publish",
                named()
            ))),
            (Some(_), Some(_)) => Err(Failure::permission(format!(
                "token names {}, and its issuer has several such keys",
                named()
            ))),
        }
    }

    fn candidates<'a>(&'a self, id: Option<&'a str>) -> impl Iterator<Item = &'a Key> {
        let is_meant = move |known: &Option<String>| id.is_none() || known.as_deref() == id;
        self.0.iter().filter(move |(known, _)| is_meant(known)).map(|(_, key)| key)
    }
}

impl Jwk {
    fn key(self) -> Option<(Option<String>, Key)> {
        if self.purpose.is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let key = match &*self.kty {
            "RSA" => {
                let (n, e) = (number(self.n.as_deref()?)?, number(self.e.as_deref()?)?);
                (RSA_BYTES.contains(&n.len()) && (1..=8).contains(&e.len())).then_some(Key::Rsa { n, e })?
            }
            "EC" if self.crv.as_deref() == Some("P-256") => {
                let (x, y) = (base64url::decode(self.x.as_deref()?)?, base64url::decode(self.y.as_deref()?)?);
                let is_point = x.len() == P256_BYTES && y.len() == P256_BYTES;
                is_point.then(|| Key::P256([&[4], &x[..], &y[..]].concat()))?
            }
            _ => return None,
        };
        let is_for_it = self.alg.is_none_or(|alg| Algorithm::parse(&alg) == Some(key.algorithm()));
        is_for_it.then_some((self.kid, key))
    }
}

/// A number without its leading zeros.
fn number(text: &str) -> Option<Vec<u8>> {
    let bytes = base64url::decode(text)?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    Some(bytes[zeros..].to_vec())
}

/// Where the keys are, as `{issuer}/.well-known/openid-configuration` says it.
pub fn jwks_place(text: &[u8], issuer: &str) -> Result<String> {
    #[derive(Deserialize)]
    struct Discovery {
        issuer: Option<String>,
        jwks_uri: String,
    }
    let found: Discovery = serde_json::from_slice(text)
        .map_err(|_| Failure::invalid(format!("{issuer} does not publish the address of its keys")))?;
    if found.issuer.is_some_and(|named| named != issuer) {
        return Err(Failure::invalid(format!("the metadata of {issuer} name another issuer")));
    }
    if !found.jwks_uri.starts_with("https://") {
        return Err(Failure::invalid(format!("the keys of {issuer} are not at an https address")));
    }
    Ok(found.jwks_uri)
}
