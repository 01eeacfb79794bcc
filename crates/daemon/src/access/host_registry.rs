//! The hosts that have joined, by the certificates that they show.

use base::{Result, hex};
use head::{Head, Principal};
use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};
use wire::{
    auth::token::enrolment,
    control::{GetHosts, HostNames, Role},
};

/// A host that joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// That it is this one, in tokens.
    pub enrolment: String,
    /// What it may do.
    pub roles: Vec<Role>,
    /// What its certificates may say.
    pub reached: HostNames,
}

/// The registry of joined hosts, by certificate. Clones share it.
#[derive(Clone, Default)]
pub struct HostRegistry {
    members: Arc<RwLock<HashMap<String, Member>>>,
    /// Held from the question to the head until its answer is here: none is overtaken by an older one.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl HostRegistry {
    /// The host that shows the certificate with this SHA-256.
    pub(crate) fn find(&self, certificate: [u8; 32]) -> Option<Member> {
        self.members.read().unwrap_or_else(PoisonError::into_inner).get(&hex(&certificate)).cloned()
    }

    /// Whether a host still belongs to the facility as it joined then.
    pub(crate) fn has(&self, enrolment: &str) -> bool {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        members.values().any(|member| member.enrolment == enrolment)
    }

    /// Whether nobody has joined.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Loads the joined hosts from the head.
    pub async fn of(head: &Head) -> Result<Self> {
        let host_registry = Self::default();
        host_registry.reload(head).await?;
        Ok(host_registry)
    }

    /// Asks the head who has joined.
    pub async fn reload(&self, head: &Head) -> Result<()> {
        let _turn = self.turn.lock().await;
        let hosts = head.call(&Principal::room("hosts"), GetHosts {}).await?.hosts;
        let members = hosts.into_iter().flat_map(|host| {
            let enrolment = enrolment(&host.name, host.joined);
            let member = Member { name: host.name, enrolment, roles: host.roles, reached: host.reached };
            host.certificates.into_iter().map(move |certificate| (certificate, member.clone()))
        });
        self.set(members);
        Ok(())
    }

    /// Who has joined, by certificate.
    pub(crate) fn set(&self, members: impl IntoIterator<Item = (String, Member)>) {
        let members = members.into_iter().collect();
        *self.members.write().unwrap_or_else(PoisonError::into_inner) = members;
    }
}
