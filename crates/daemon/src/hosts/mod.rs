//! The hosts of the facility as the head's process sees them: who has joined, and how one does.

pub mod authority;
pub(crate) mod presence;

use crate::{
    access::host_registry::Member,
    hosts::authority::{Authority, Signed},
};
use base::{Clock, Failure, Millis, Result, Timestamp, hex};
use head::{Head, Principal, store::FacilityRow};
use net::blocking;
use sha2::{Digest, Sha256};
use wire::{
    auth::{
        capability::{CapKeys, ServerKey},
        token::base64url,
    },
    control::{
        AddInvitation, Admission, AdmitHost, ChangeCertificate, CheckAdmission, DiskServer, HostCapKeys,
        HostCertificate, HostNames, Invite, Invited, JoinFacility, JoinToken, Membership, RenewCertificate,
        check_version,
    },
};

/// Longest life of an invitation.
const INVITATION_LIFETIME_MAX: Millis = Millis::from_seconds(30 * 86_400);
/// Names and addresses of one host.
const NAMES_MAX: usize = 32;

/// What the facility gives to hosts that join.
#[derive(Clone)]
pub struct JoinService {
    /// Signs certificates.
    pub authority: Authority,
    /// The keys of disk servers.
    pub keys: CapKeys,
    /// The facility.
    pub facility: FacilityRow,
    /// Where the head's doors are.
    pub head: DiskServer,
    /// By what its host is reached.
    pub names: HostNames,
    /// Now.
    pub clock: Clock,
}

impl JoinService {
    /// The certificate of the authority, PEM.
    pub async fn authority_certificate(&self) -> Result<String> {
        let file = self.authority.certificate();
        blocking(move || {
            std::fs::read_to_string(&file)
                .map_err(|cause| Failure::io(format!("read {}", base::tail(&file)), &cause))
        })
        .await
    }

    /// Makes a join token.
    pub async fn invite(&self, head: &Head, who: &Principal, wish: Invite) -> Result<Invited> {
        if wish.lifetime <= Millis(0) || wish.lifetime > INVITATION_LIFETIME_MAX {
            return Err(Failure::invalid("a join token is valid for 30 days at most").hint("1h is usual"));
        }
        let mut secret = [0; 16];
        getrandom::fill(&mut secret)
            .map_err(|cause| Failure::internal(format!("the system gives no random bytes: {cause}")))?;
        let (secret, expires) = (hex(&secret), (self.clock)() + wish.lifetime);
        let call = AddInvitation { hash: sha256(secret.as_bytes()), roles: wish.roles, expires };
        head.call(who, call).await?;
        let token = JoinToken {
            head: self.head.https_url(),
            facility: self.facility.id.clone(),
            authority: fingerprint(&self.authority_certificate().await?)?,
            secret,
        };
        Ok(Invited { token: token.reveal(), expires })
    }

    /// Takes a host in.
    pub async fn admit(&self, head: &Head, wish: JoinFacility) -> Result<Membership> {
        check_version(&wish.name, Some(&wish.version))?;
        wish.check_proof()?;
        let (point, reached) = (point(&wish.key)?, checked(&wish.name, wish.reached)?);
        let admission = Admission {
            hash: sha256(wish.secret.as_bytes()),
            name: wish.name.clone(),
            roles: wish.roles,
            key: sha256(&point),
            reached: reached.clone(),
            head: self.names.clone(),
        };
        let room = Principal::room("hosts");
        // Nothing is signed for whoever is not invited.
        head.call(&room, CheckAdmission { admission: admission.clone() }).await?;
        let certificate = self.sign(&wish.name, reached, point).await?;
        let call = AdmitHost { admission, certificate: sha256(&certificate.der) };
        let admitted = head.call(&room, call).await?;
        self.membership((&wish.name, admitted.joined), certificate.pem).await
    }

    /// Gives the host that has shown the certificate with the SHA-256 `shown` a new one, which says what the host joined with.
    pub async fn renew(
        &self,
        head: &Head,
        (host, shown): (&Member, [u8; 32]),
        wish: RenewCertificate,
    ) -> Result<HostCertificate> {
        let point = point(&wish.key)?;
        if host.reached.names.is_empty() {
            return Err(Failure::invalid(format!(
                "the names by which host {} joined are not recorded",
                host.name
            ))
            .hint("let it join again: `bp host invite`, then `bpd join` with its directory"));
        }
        let certificate = self.sign(&host.name, host.reached.clone(), point.clone()).await?;
        let call = ChangeCertificate {
            name: host.name.clone(),
            key: sha256(&point),
            shown: hex(&shown),
            certificate: sha256(&certificate.der),
        };
        head.call(&Principal::room("hosts"), call).await?;
        Ok(HostCertificate { certificate: certificate.pem })
    }

    async fn sign(&self, name: &str, reached: HostNames, point: Vec<u8>) -> Result<Signed> {
        let (authority, name, now) = (self.authority.clone(), name.to_owned(), (self.clock)());
        blocking(move || authority.sign(&name, &reached, &point, now)).await
    }

    fn cap_keys(&self, host: &str, joined: Timestamp) -> HostCapKeys {
        // Read before the keys: at worst the host asks once more.
        let serial = self.keys.serial();
        let keys = self.keys.all_of(host, joined, (self.clock)());
        HostCapKeys { serial, keys: keys.iter().map(ServerKey::told).collect() }
    }

    async fn membership(&self, (host, joined): (&str, Timestamp), certificate: String) -> Result<Membership> {
        Ok(Membership {
            facility: self.facility.id.clone(),
            facility_name: self.facility.name.clone(),
            owner: self.facility.owner.clone(),
            certificate,
            authority: self.authority_certificate().await?,
            cap_keys: self.cap_keys(host, joined),
            root: self.head.root.clone(),
        })
    }
}

/// The public key of a host.
fn point(key: &str) -> Result<Vec<u8>> {
    base64url::decode(key).ok_or_else(|| Failure::invalid("the host's public key is not base64url"))
}

/// What the certificates of a host will say, with its name: in the one form in which names are compared.
fn checked(host: &str, asked: HostNames) -> Result<HostNames> {
    if asked.names.len() + asked.addresses.len() > NAMES_MAX {
        return Err(Failure::invalid(format!("host {host} has more than {NAMES_MAX} names and addresses"))
            .hint("see --address of `bpd join`"));
    }
    let mut names: Vec<_> = asked.names.iter().map(|name| name.to_ascii_lowercase()).collect();
    names.push(host.to_owned());
    names.sort_unstable();
    names.dedup();
    if let Some(bad) = names.iter().find(|name| !is_name(name)) {
        return Err(Failure::invalid(format!(
            "host {host} cannot be reached as {bad:?}: that is no host name"
        ))
        .hint("choose another with --address or --name of `bpd join`"));
    }
    let mut addresses: Vec<_> = asked.addresses.iter().map(std::net::IpAddr::to_canonical).collect();
    addresses.sort_unstable();
    addresses.dedup();
    Ok(HostNames { names, addresses })
}

/// No wildcard, and nothing that a client could take for an address.
fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    name.split('.').all(is_label) && !last.chars().all(|c| c.is_ascii_digit())
}

/// SHA-256 in hex.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// SHA-256 of the first certificate of a PEM text, in hex.
pub fn fingerprint(pem: &str) -> Result<String> {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes())
        .map_err(|cause| Failure::corrupt(format!("the authority's certificate is damaged: {cause}")))?;
    Ok(sha256(&certificate))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(names: &[&str], addresses: &[&str]) -> HostNames {
        HostNames {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn names_are_kept_in_one_form() {
        let kept = checked("d1", asked(&["Disk01.Example.org", "localhost"], &["::ffff:192.0.2.1"])).unwrap();
        assert_eq!(kept, asked(&["d1", "disk01.example.org", "localhost"], &["192.0.2.1"]));
    }

    #[test]
    fn what_is_no_name_of_a_host_is_not_signed() {
        for name in ["", "*.example.org", "a b", "example.org.", "192.0.2.1", "a..b", "7", "x/y", "d\u{e9}"] {
            assert!(checked("d1", asked(&[name], &[])).is_err(), "{name:?}");
        }
        assert!(checked("192.0.2.1", HostNames::default()).is_err());
        let many: Vec<_> = (0..=NAMES_MAX).map(|number| format!("n{number}")).collect();
        assert!(checked("d1", HostNames { names: many, addresses: Vec::new() }).is_err());
    }
}
