//! Calls about tokens and the facility's key: the door answers them itself, because the key is not the head's.

use crate::{
    access::tokens,
    doors::http::{
        HttpDoor,
        api::{AtDoor, unbroken},
        guard::caller::Caller,
    },
};
use base::{Failure, Result, Timestamp};
use head::Principal;
use net::blocking;
use std::sync::Arc;
use tracing::info;
use wire::control::{CreateToken, CreatedToken, GetKeys, KeyGenerations, KeysChanged, RevokeKey, RotateKey};

impl AtDoor for CreateToken {
    async fn carry_out(self, door: Arc<HttpDoor>, caller: Caller) -> Result<CreatedToken> {
        created(&door, &caller, &self)
    }
}

/// Makes a token with no more rights than its maker has: not for longer than the token that was shown, and by its generation.
fn created(door: &HttpDoor, caller: &Caller, wish: &CreateToken) -> Result<CreatedToken> {
    may_create(caller, wish)?;
    let (key, now) = (&door.key, door.authenticator.now());
    let mut claims = tokens::claims(key, door.authenticator.facility(), wish, now)?;
    let token = match caller.token {
        None => key.tokens().sign(&claims),
        Some(right) => {
            claims.expires = claims.expires.min(right.expires);
            let generation = right.generation.ok_or_else(only_own)?;
            key.tokens().sign_as(generation, &claims, now)?
        }
    };
    Ok(CreatedToken { token, expires: claims.expires })
}

fn only_own() -> Failure {
    Failure::permission("a token of another issuer cannot make tokens of this facility")
        .hint("that issuer makes them: present one of its tokens instead")
}

/// Refuses whoever asks for more than they may do themselves.
fn may_create(caller: &Caller, wish: &CreateToken) -> Result<()> {
    let Caller { who, token, .. } = caller;
    if token.is_some_and(|token| token.is_of_job || token.is_scoped) {
        return Err(Failure::permission(format!("the token of {:?} makes no other tokens", who.name))
            .hint("tokens with scopes and tokens of jobs cannot make tokens: use another token of yours"));
    }
    if who.is_operator {
        return Ok(());
    }
    if wish.user != who.name {
        return Err(Failure::permission(format!(
            "user {} cannot make a token for user {:?}",
            who.name, wish.user
        ))
        .hint("you can make tokens for yourself only; ask the owner of the facility"));
    }
    match wish.groups.iter().find(|group| !who.is_in(group)) {
        Some(group) => {
            Err(Failure::permission(format!("user {} is not known to be in group {group:?}", who.name))
                .hint("leave the group out, or ask the owner of the facility for the token"))
        }
        None => Ok(()),
    }
}

/// The owner alone deals with the key.
fn require_owner(who: &Principal) -> Result<()> {
    if who.is_operator {
        return Ok(());
    }
    Err(Failure::permission(format!("user {} may not manage the facility's key", who.name))
        .hint("ask the owner of the facility"))
}

impl AtDoor for GetKeys {
    async fn carry_out(self, door: Arc<HttpDoor>, caller: Caller) -> Result<KeyGenerations> {
        require_owner(&caller.who)?;
        Ok(door.key.generations(door.authenticator.now()))
    }
}

impl AtDoor for RotateKey {
    async fn carry_out(self, door: Arc<HttpDoor>, caller: Caller) -> Result<KeyGenerations> {
        let (key, grace) = (door.key.clone(), self.grace);
        let change = move |now| key.rotate(grace, now);
        let rotated = change_key(&door, &caller, KeysChanged { ends_invitations: false }, change).await?;
        info!(by = caller.who.name, "the facility key was rotated");
        Ok(rotated)
    }
}

impl AtDoor for RevokeKey {
    async fn carry_out(self, door: Arc<HttpDoor>, caller: Caller) -> Result<KeyGenerations> {
        let (key, generation) = (door.key.clone(), self.generation);
        let change = move |now| key.revoke(generation, now);
        let revoked = change_key(&door, &caller, KeysChanged { ends_invitations: true }, change).await?;
        info!(by = caller.who.name, generation, "a generation of the facility key was revoked");
        Ok(revoked)
    }
}

/// Changes the key and tells the head, whose waiting disk servers and workers then fetch what is new. Goes on when the client leaves.
async fn change_key(
    door: &Arc<HttpDoor>,
    caller: &Caller,
    news: KeysChanged,
    change: impl FnOnce(Timestamp) -> Result<KeyGenerations> + Send + 'static,
) -> Result<KeyGenerations> {
    require_owner(&caller.who)?;
    let (door, now) = (Arc::clone(door), door.authenticator.now());
    let work = async move {
        let changed = blocking(move || change(now)).await?;
        door.files.head()?.call(&Principal::room("key"), news).await?;
        Ok(changed)
    };
    unbroken(work).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::identity::TokenRight;
    use base::ErrorKind;

    fn caller(who: Principal, token: Option<TokenRight>) -> Caller {
        Caller::user(who, None).with_token(token)
    }

    fn wish(user: &str, groups: &[&str]) -> CreateToken {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        CreateToken { user: user.to_owned(), groups, ..CreateToken::default() }
    }

    #[test]
    fn users_make_tokens_for_themselves_with_no_more_than_they_have() {
        let ann = Principal { groups: vec!["prod".to_owned()], ..Principal::user("ann") };
        let right = |is_of_job, is_scoped| {
            Some(TokenRight { expires: Timestamp(9), generation: Some(1), is_of_job, is_scoped })
        };
        for token in [None, right(false, false)] {
            let ann = caller(ann.clone(), token);
            for allowed in [wish("ann", &[]), wish("ann", &["prod"]), wish("ann", &["ann"])] {
                may_create(&ann, &allowed).unwrap();
            }
            for more in [wish("bob", &[]), wish("root", &[]), wish("ann", &["prod", "admins"])] {
                let refused = may_create(&ann, &more).unwrap_err();
                assert_eq!((refused.kind, refused.hint.is_some()), (ErrorKind::Permission, true));
            }
            may_create(&caller(Principal::operator("root"), token), &wish("bob", &["any"])).unwrap();
        }
        for token in [right(true, false), right(false, true), right(true, true)] {
            for who in [ann.clone(), Principal::operator("ann")] {
                assert!(may_create(&caller(who, token), &wish("ann", &[])).is_err());
            }
        }
        assert!(require_owner(&ann).is_err() && require_owner(&Principal::operator("root")).is_ok());
    }
}
