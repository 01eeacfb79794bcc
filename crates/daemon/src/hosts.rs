//! The hosts of the facility as the head's process sees them: who has joined, and how one does.

use crate::{
    authority::{Authority, HostNames},
    files::blocking,
};
use base::{Failure, Millis, Result};
use head::{Clock, Head, Principal, store::FacilityRow};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};
use wire::{
    cap::CapKeys,
    control::{
        AddInvitation, AdmitHost, ChangeCertificate, DiskServer, GetHosts, Invite, Invited, JoinFacility,
        JoinToken, Membership, RenewCertificate, Role, check_version,
    },
    token::base64url,
};

/// Longest life of an invitation.
const INVITATION_LIFETIME_MAX: Millis = Millis::from_seconds(30 * 86_400);
/// Names and addresses of one host.
const NAMES_MAX: usize = 32;

/// A host that joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub roles: Vec<Role>,
}

/// Who has joined, by the certificates that they show. Clones share it.
#[derive(Clone, Default)]
pub struct Roster(Arc<RwLock<HashMap<String, Member>>>);

impl Roster {
    /// The host that shows the certificate with this SHA-256.
    pub(crate) fn find(&self, certificate: [u8; 32]) -> Option<Member> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&hex(&certificate)).cloned()
    }

    /// Whether nobody has joined.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Who has joined, as the head says.
    pub async fn of(head: &Head) -> Result<Self> {
        let roster = Self::default();
        roster.reload(head).await?;
        Ok(roster)
    }

    /// Asks the head who has joined.
    pub async fn reload(&self, head: &Head) -> Result<()> {
        let hosts = head.call(&Principal::room("hosts"), GetHosts {}).await?.hosts;
        let members = hosts.into_iter().flat_map(|host| {
            let member = Member { name: host.name, roles: host.roles };
            host.certificates.into_iter().map(move |certificate| (certificate, member.clone()))
        });
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = members.collect();
        Ok(())
    }
}

/// What the facility gives to hosts that join.
#[derive(Clone)]
pub struct Reception {
    /// Signs certificates.
    pub authority: Authority,
    /// The keys of disk servers.
    pub keys: CapKeys,
    /// The facility.
    pub facility: FacilityRow,
    /// Where the head's doors are.
    pub head: DiskServer,
    /// Now.
    pub clock: Clock,
}

impl Reception {
    /// The certificate of the authority, PEM.
    pub async fn authority_certificate(&self) -> Result<String> {
        let file = self.authority.certificate();
        blocking(move || {
            std::fs::read_to_string(&file)
                .map_err(|cause| Failure::io(format!("read {}", file.display()), &cause))
        })
        .await
    }

    /// Makes a join token.
    pub async fn invite(&self, head: &Head, who: &Principal, wish: Invite) -> Result<Invited> {
        if wish.lifetime <= Millis(0) || wish.lifetime > INVITATION_LIFETIME_MAX {
            return Err(Failure::invalid("a join token is good for 30 days at most").hint("1h is usual"));
        }
        let mut secret = [0; 16];
        getrandom::fill(&mut secret)
            .map_err(|cause| Failure::internal(format!("the system gives no random bytes: {cause}")))?;
        let (secret, expires) = (hex(&secret), (self.clock)() + wish.lifetime);
        let call = AddInvitation { hash: sha256(secret.as_bytes()), roles: wish.roles, expires };
        head.call(who, call).await?;
        let token = JoinToken {
            head: format!("https://{}", self.head.https),
            facility: self.facility.id.clone(),
            authority: fingerprint(&self.authority_certificate().await?)?,
            secret,
        };
        Ok(Invited { token: token.reveal(), expires })
    }

    /// Takes a host in.
    pub async fn admit(&self, head: &Head, wish: JoinFacility) -> Result<Membership> {
        check_version(&wish.name, Some(&wish.version))?;
        let (point, names) = checked(&wish.key, (&wish.name, &wish.names), &wish.addresses)?;
        let certificate = self.sign(names, point.clone()).await?;
        let call = AdmitHost {
            hash: sha256(wish.secret.as_bytes()),
            name: wish.name.clone(),
            roles: wish.roles,
            key: sha256(&point),
            certificate: sha256(&certificate.der),
        };
        head.call(&Principal::room("hosts"), call).await?;
        self.membership(&wish.name, certificate.pem).await
    }

    /// Gives a host a new certificate.
    pub async fn renew(&self, head: &Head, host: &Member, wish: RenewCertificate) -> Result<Membership> {
        let (point, names) = checked(&wish.key, (&host.name, &wish.names), &wish.addresses)?;
        let certificate = self.sign(names, point).await?;
        let call = ChangeCertificate { name: host.name.clone(), certificate: sha256(&certificate.der) };
        head.call(&Principal::room("hosts"), call).await?;
        self.membership(&host.name, certificate.pem).await
    }

    async fn sign(&self, names: HostNames, point: Vec<u8>) -> Result<crate::authority::Signed> {
        let (authority, now) = (self.authority.clone(), (self.clock)());
        blocking(move || authority.sign(&names, &point, now)).await
    }

    async fn membership(&self, host: &str, certificate: String) -> Result<Membership> {
        Ok(Membership {
            facility: self.facility.id.clone(),
            facility_name: self.facility.name.clone(),
            owner: self.facility.owner.clone(),
            certificate,
            authority: self.authority_certificate().await?,
            cap_key: hex(&self.keys.of(host).reveal()),
            root: self.head.root.clone(),
        })
    }
}

/// The key and the names of a host, if they can be ones.
fn checked(
    key: &str,
    (name, names): (&str, &[String]),
    addresses: &[std::net::IpAddr],
) -> Result<(Vec<u8>, HostNames)> {
    let point =
        base64url::decode(key).ok_or_else(|| Failure::invalid("the host's public key is not base64url"))?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let is_name = |name: &&String| !name.is_empty() && name.chars().all(is_plain);
    if names.len() + addresses.len() > NAMES_MAX {
        return Err(Failure::invalid(format!("a host with more than {NAMES_MAX} names and addresses")));
    }
    let mut names: Vec<_> = names.iter().filter(is_name).cloned().collect();
    names.push(name.to_owned());
    Ok((point, HostNames { names, addresses: addresses.to_vec() }))
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

/// Bytes in hex.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
