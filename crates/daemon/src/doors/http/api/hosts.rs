//! Calls by which hosts join and stay known: the door carries them out itself, because it has the certificates and the registry of hosts.

use crate::{
    doors::http::{
        HttpDoor,
        api::{AtDoor, unbroken},
        guard::caller::Caller,
    },
    hosts::JoinService,
};
use base::{Failure, Result};
use std::sync::Arc;
use tracing::info;
use wire::control::{
    AuthorityCertificate, Done, GetAuthority, HostCertificate, HostHeartbeat, Invite, Invited, JoinFacility,
    Membership, RemoveHost, RenewCertificate,
};

fn join_service(door: &HttpDoor) -> Result<&JoinService> {
    door.join_service.as_ref().ok_or_else(|| Failure::unsupported("hosts cannot join here"))
}

impl AtDoor for GetAuthority {
    async fn carry_out(self, door: Arc<HttpDoor>, _: Caller) -> Result<AuthorityCertificate> {
        let certificate = join_service(&door)?.authority_certificate().await?;
        Ok(AuthorityCertificate { certificate })
    }
}

impl AtDoor for Invite {
    async fn carry_out(self, door: Arc<HttpDoor>, caller: Caller) -> Result<Invited> {
        join_service(&door)?.invite(door.files.head()?, &caller.who, self).await
    }
}

impl AtDoor for JoinFacility {
    async fn carry_out(self, door: Arc<HttpDoor>, _: Caller) -> Result<Membership> {
        let (name, roles) = (self.name.clone(), self.roles.clone());
        let joining = async move {
            let membership = join_service(&door)?.admit(door.files.head()?, self).await?;
            door.host_registry.reload(door.files.head()?).await?;
            Ok(membership)
        };
        let membership = unbroken(joining).await?;
        info!(host = name, ?roles, "host joined");
        Ok(membership)
    }
}

impl AtDoor for RenewCertificate {
    async fn carry_out(self, door: Arc<HttpDoor>, caller: Caller) -> Result<HostCertificate> {
        let shown = caller.peer.and_then(|peer| peer.certificate).map(|shown| shown.sha256);
        let (Some(member), Some(shown)) = (caller.host, shown) else {
            return Err(Failure::permission("only a host that joined can renew its certificate"));
        };
        let renewing = async move {
            let renewed = join_service(&door)?.renew(door.files.head()?, (&member, shown), self).await?;
            door.host_registry.reload(door.files.head()?).await?;
            info!(host = member.name, "issued a new certificate to a host");
            Ok(renewed)
        };
        unbroken(renewing).await
    }
}

/// A host says that it is there, and where: it is asked there when a connection of it breaks.
impl AtDoor for HostHeartbeat {
    async fn carry_out(self, door: Arc<HttpDoor>, caller: Caller) -> Result<Done> {
        let who = caller.principal_for::<Self>()?;
        let done = door.files.head()?.call(&who, self.clone()).await?;
        if let Some(prober) = door.files.prober() {
            prober.note(&self.server, self.boot);
        }
        Ok(done)
    }
}

impl AtDoor for RemoveHost {
    async fn carry_out(self, door: Arc<HttpDoor>, caller: Caller) -> Result<Done> {
        let name = self.name.clone();
        let removing = async move {
            let done = door.files.head()?.call(&caller.who, self).await;
            // Also if it is refused: an earlier order may have been carried out without our knowing.
            door.host_registry.reload(door.files.head()?).await?;
            done
        };
        let done = unbroken(removing).await?;
        info!(host = name, "host removed from the facility");
        Ok(done)
    }
}
