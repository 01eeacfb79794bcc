//! An issuer of tests: it has real keys and signs whatever it is told.

use super::Algorithm;
use crate::auth::token::base64url;
use aws_lc_rs::{
    rand::SystemRandom,
    rsa::{KeyPair as RsaPair, KeySize},
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256},
};

/// What signs.
pub(crate) enum Signer {
    Rsa(Box<RsaPair>),
    P256(EcdsaKeyPair),
}

impl Signer {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Rs256 => Self::Rsa(Box::new(RsaPair::generate(KeySize::Rsa2048).unwrap())),
            Algorithm::Es256 => Self::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap()),
        }
    }

    /// The public key as an entry of a list.
    pub(crate) fn jwk(&self, kid: &str) -> String {
        let text = base64url::encode;
        match self {
            Self::Rsa(pair) => {
                // SEQUENCE { INTEGER modulus, INTEGER exponent }, with a length of two bytes each.
                let der = pair.public_key().as_ref();
                let (n, e) = (&der[8..265], &der[der.len() - 3..]);
                format!(r#"{{"kty":"RSA","kid":"{kid}","n":"{}","e":"{}"}}"#, text(n), text(e))
            }
            Self::P256(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (text(&point[1..33]), text(&point[33..65]));
                format!(r#"{{"kty":"EC","crv":"P-256","kid":"{kid}","use":"sig","x":"{x}","y":"{y}"}}"#)
            }
        }
    }

    pub(crate) fn sign(&self, header: &str, payload: &str) -> String {
        let text =
            format!("{}.{}", base64url::encode(header.as_bytes()), base64url::encode(payload.as_bytes()));
        let random = SystemRandom::new();
        let signature = match self {
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature).unwrap();
                signature
            }
            Self::P256(pair) => pair.sign(&random, text.as_bytes()).unwrap().as_ref().to_vec(),
        };
        format!("{text}.{}", base64url::encode(&signature))
    }
}
