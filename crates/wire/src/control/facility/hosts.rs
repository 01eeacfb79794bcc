//! Hosts of a facility: invitation, joining, removal.

use crate::{
    auth::token::base64url,
    control::{HostCapKeys, HostLabel, Presence},
};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use base::{Failure, FileId, FilePath, Millis, Result, Timestamp};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// What the daemon of a host does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Decides, and keeps the catalogue.
    Head,
    /// Serves partitions.
    Disk,
    /// Drives a tape library.
    Tape,
    /// Runs jobs.
    Cpu,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Head, Self::Disk, Self::Tape, Self::Cpu];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Disk => "disk",
            Self::Tape => "tape",
            Self::Cpu => "cpu",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = Failure;

    fn from_str(word: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|role| role.as_str() == word);
        found.ok_or_else(|| {
            Failure::invalid(format!("{word:?} is not a role")).hint("roles: head, disk, tape, cpu")
        })
    }
}

/// Creates an invitation for one host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Invite {
    /// The allowed roles.
    pub roles: Vec<Role>,
    /// How long the invitation is valid.
    pub lifetime: Millis,
}

/// The answer to [`Invite`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invited {
    /// The [`JoinToken`] that the host must present. It is a secret, and valid once.
    pub token: String,
    /// When it expires.
    pub expires: Timestamp,
}

/// Where to join, and by what right. It never shows its secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinToken {
    /// HTTP door of the head, `https://host:port`.
    pub head: String,
    /// The facility's id.
    pub facility: String,
    /// SHA-256 of the certificate of its authority, in hex.
    pub authority: String,
    /// What proves that this host was invited.
    pub secret: String,
}

/// Begins the text of a join token, so that nobody takes it for another.
const JOIN_PREFIX: &str = "bpjoin1.";
/// Begins what a host signs when it joins: its key signs handshakes, too, and nothing is to be taken for the other.
const JOIN_PROOF: &[u8] = b"backplane join 1\n";
/// Longest text of a join token.
const JOIN_TOKEN_BYTES_MAX: usize = 4096;

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinToken").field("head", &self.head).finish_non_exhaustive()
    }
}

impl JoinToken {
    /// The text that people carry to the other host.
    #[must_use]
    pub fn reveal(&self) -> String {
        let text = serde_json::to_vec(self).expect("plain strings always serialise");
        format!("{JOIN_PREFIX}{}", base64url::encode(&text))
    }
}

impl FromStr for JoinToken {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        let refused = || {
            Failure::invalid("this is not a join token").hint("`bp host invite` on the first host makes one")
        };
        let text = text.trim();
        let coded = text.strip_prefix(JOIN_PREFIX).filter(|_| text.len() <= JOIN_TOKEN_BYTES_MAX);
        let document = coded.and_then(base64url::decode).ok_or_else(refused)?;
        serde_json::from_slice(&document).map_err(|_| refused())
    }
}

/// The names and addresses of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostNames {
    /// Names.
    pub names: Vec<String>,
    /// Addresses.
    pub addresses: Vec<core::net::IpAddr>,
}

/// A host joins the facility; its right is the secret of a [`JoinToken`].
#[derive(Clone, Serialize, Deserialize)]
pub struct JoinFacility {
    /// The secret.
    pub secret: String,
    /// What the host wants to be called in the facility.
    pub name: String,
    /// The requested roles; the invitation must allow them.
    pub roles: Vec<Role>,
    /// Its public key: a point of P-256, uncompressed, base64url.
    pub key: String,
    /// The names and addresses of its doors; its certificates name nothing else.
    pub reached: HostNames,
    /// Version of its daemon.
    pub version: String,
    /// Signature of [`Self::signed`] by the key, ASN.1, base64url: who has only seen the key has not joined with it.
    pub proof: String,
}

impl JoinFacility {
    /// What the host signs: all that it says, the secret as well, so that no proof is good for another invitation.
    #[must_use]
    pub fn signed(&self) -> Vec<u8> {
        let said = Self { proof: String::new(), ..self.clone() };
        let said = serde_json::to_vec(&said).expect("plain strings always serialise");
        [JOIN_PROOF, &said].concat()
    }

    /// Refuses whoever does not have the private key.
    pub fn check_proof(&self) -> Result<()> {
        let refused = || {
            Failure::permission(format!(
                "host {} did not prove that it has the key of its certificate",
                self.name
            ))
            .hint("run `bpd join` on that host, with its own directory")
        };
        let decoded = |text| base64url::decode(text).ok_or_else(refused);
        let (key, proof) = (decoded(&self.key)?, decoded(&self.proof)?);
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key);
        key.verify(&self.signed(), &proof).map_err(|_| refused())
    }
}

/// A host asks for a new certificate with the names and the key with which it joined; its right is the old one.
#[derive(Clone, Serialize, Deserialize)]
pub struct RenewCertificate {
    /// As in [`JoinFacility`].
    pub key: String,
}

/// The answer to [`RenewCertificate`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCertificate {
    /// PEM.
    pub certificate: String,
}

/// The configuration and credentials of a joined host.
#[derive(Clone, Serialize, Deserialize)]
pub struct Membership {
    /// The facility's id.
    pub facility: String,
    /// Its name, for people.
    pub facility_name: String,
    /// The user who runs it.
    pub owner: String,
    /// The certificate of the host, PEM.
    pub certificate: String,
    /// The certificate of the authority, PEM.
    pub authority: String,
    /// Check the capabilities of this disk server.
    pub cap_keys: HostCapKeys,
    /// XRootD door of the head, `host:port`.
    pub root: String,
}

/// Returns the certificate of the authority, for hosts that want to join. It is public.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct GetAuthority {}

/// The answer to [`GetAuthority`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AuthorityCertificate {
    /// PEM.
    pub certificate: String,
}

/// Keeps an invitation; the secret stays with the door that made it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AddInvitation {
    /// SHA-256 of the secret, hex.
    pub hash: String,
    /// What the host may do.
    pub roles: Vec<Role>,
    /// Until when it is good.
    pub expires: Timestamp,
}

/// What a host that joins says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Admission {
    /// SHA-256 of the secret that it showed, hex.
    pub hash: String,
    /// Its name.
    pub name: String,
    /// What it wants to do.
    pub roles: Vec<Role>,
    /// SHA-256 of its public key, hex.
    pub key: String,
    /// By what it is reached, as its certificate says.
    pub reached: HostNames,
    /// By what the head's host is reached: that no other host is called.
    pub head: HostNames,
}

/// Looks whether a host may be taken in, before anything is signed for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CheckAdmission {
    /// The host.
    pub admission: Admission,
}

/// Takes a host in, if its invitation is good. Saying it again with the same key is fine: the reply may have been lost.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AdmitHost {
    /// The host; that it has its key was proven.
    pub admission: Admission,
    /// SHA-256 of its certificate, hex.
    pub certificate: String,
}

/// The answer to [`AdmitHost`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admitted {
    /// When it joined, as the head counts it: its key for capabilities follows from that.
    pub joined: Timestamp,
}

/// Gives a host another certificate. The one that it shows is good until the new one is shown.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChangeCertificate {
    /// The host.
    pub name: String,
    /// SHA-256 of its public key, hex.
    pub key: String,
    /// SHA-256 of the certificate that it has shown, hex.
    pub shown: String,
    /// SHA-256 of the new certificate, hex.
    pub certificate: String,
}

/// Removes a host: its certificate is not accepted any more. Its files are out of reach, but not lost, until it
/// joins again; what is being written there ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoveHost {
    /// The host.
    pub name: String,
    /// Remove it even if it has the only copy of files; otherwise that is refused.
    #[serde(default)]
    pub force: bool,
}

/// Lists the files that become unreadable when a host is removed: they have no other copy, or too few pieces, on
/// disk or on tape.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetSoleFiles {
    /// The host.
    pub host: String,
    /// Only files with a larger number; none for the first page.
    #[serde(default)]
    pub after: Option<FileId>,
}

/// A file whose only copy is on one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoleFile {
    /// Its number.
    pub id: FileId,
    /// Its path.
    pub path: FilePath,
    /// Bytes.
    pub size: u64,
    /// Its owner.
    pub owner: String,
}

/// A page of such files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoleFiles {
    /// By their numbers, at most [`base::limits::LIST_ENTRIES_MAX`].
    pub files: Vec<SoleFile>,
    /// Whether there may be more.
    pub is_partial: bool,
}

/// Lists the hosts that joined.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct GetHosts {}

/// The answer to [`GetHosts`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts {
    /// By name.
    pub hosts: Vec<HostInfo>,
}

/// A host that joined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInfo {
    /// Its name.
    pub name: String,
    /// Its roles.
    pub roles: Vec<Role>,
    /// SHA-256 of the certificates that it may show, hex; empty if it was removed.
    pub certificates: Vec<String>,
    /// When it joined.
    pub joined: Timestamp,
    /// When it was removed.
    pub removed: Option<Timestamp>,
    /// The names and addresses that its certificates may contain.
    pub reached: HostNames,
    /// Its labels, by name.
    #[serde(default)]
    pub labels: Vec<HostLabel>,
    /// Its presence.
    #[serde(default)]
    pub presence: Presence,
    /// When it was heard last; `None`: not since the head started.
    #[serde(default)]
    pub heard: Option<Timestamp>,
    /// Where clients are sent, `host:port` of its XRootD door; `None`: it has not said so since the head started.
    #[serde(default)]
    pub door: Option<String>,
}

/// Fuzz body: what is not a join token is refused, and one that is read says the same when written again.
pub fn fuzz_join_token(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for text in [text.to_string(), format!("{JOIN_PREFIX}{}", base64url::encode(data))] {
        if let Ok(token) = text.parse::<JoinToken>() {
            assert_eq!(token.reveal().parse::<JoinToken>().expect("what was written can be read"), token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
    use proptest::prelude::*;

    fn token() -> JoinToken {
        JoinToken {
            head: "https://head:8443".into(),
            facility: "f".into(),
            authority: "00ff".into(),
            secret: "s3cret".into(),
        }
    }

    #[test]
    fn a_join_token_survives_being_carried_and_hides_its_secret() {
        assert_eq!(format!(" {}\n", token().reveal()).parse::<JoinToken>().unwrap(), token());
        assert!(!format!("{:?}", token()).contains("s3cret"));
    }

    #[test]
    fn a_host_proves_that_it_has_its_key() {
        let pair = || EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
        let (key, other) = (pair(), pair());
        let mut call = JoinFacility {
            secret: "s3cret".into(),
            name: "d1".into(),
            roles: vec![Role::Disk],
            key: base64url::encode(key.public_key().as_ref()),
            reached: HostNames { names: vec!["d1".into()], addresses: vec!["::1".parse().unwrap()] },
            version: "1".into(),
            proof: String::new(),
        };
        let refused = |call: &JoinFacility| call.check_proof().unwrap_err().hint.is_some();
        assert!(refused(&call), "the public key alone");
        let signed = |call: &JoinFacility, key: &EcdsaKeyPair| {
            let proof = key.sign(&aws_lc_rs::rand::SystemRandom::new(), &call.signed()).unwrap();
            base64url::encode(proof.as_ref())
        };
        call.proof = signed(&call, &other);
        assert!(refused(&call), "another key");
        call.proof = signed(&call, &key);
        let carried: JoinFacility = serde_json::from_slice(&serde_json::to_vec(&call).unwrap()).unwrap();
        carried.check_proof().unwrap();
        assert!(refused(&JoinFacility { secret: "another".into(), ..call.clone() }), "another invitation");
        assert!(refused(&JoinFacility { key: "AA".into(), ..call.clone() }), "no key");
        assert!(refused(&JoinFacility { reached: HostNames::default(), ..call }), "other names");
    }

    #[test]
    fn other_texts_are_refused_with_the_next_step() {
        for text in ["", "bpjoin1.", "bpjoin1.e30", "eyJhbGciOiJIUzI1NiJ9.e30.x", "bpjoin2.e30"] {
            let failure = text.parse::<JoinToken>().unwrap_err();
            assert!(failure.hint.unwrap().contains("bp host invite"), "{text}");
        }
    }

    #[test]
    fn every_call_says_who_may_make_it() {
        use crate::control::{Audience, audience_of};
        assert_eq!(audience_of("renew_certificate"), Some(Audience::Hosts));
        assert_eq!(audience_of("get_hosts"), Some(Audience::People));
        assert_eq!(audience_of("next_job"), Some(Audience::Cpu));
        assert_eq!(audience_of("nothing"), None);
    }

    #[test]
    fn roles_have_words() {
        for role in Role::ALL {
            assert_eq!(role.as_str().parse::<Role>().unwrap(), role);
            assert_eq!(serde_json::to_string(&role).unwrap(), format!("\"{role}\""));
        }
        assert!("king".parse::<Role>().unwrap_err().hint.is_some());
    }

    proptest! {
        #[test]
        fn noise_never_panics(data in prop::collection::vec(any::<u8>(), 0..200)) {
            fuzz_join_token(&data);
        }
    }
}
