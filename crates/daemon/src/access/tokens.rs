//! Making tokens of users: what may be asked for, and for how long.

use crate::{
    access::key::Key,
    facility::{
        config::Config,
        layout::{Layout, failed, random},
    },
};
use base::{Failure, Millis, Result, Timestamp, check_name};
use std::{fs, path::Path};
use wire::{
    auth::token::{Claims, Scopes},
    control::CreateToken,
};

/// How long a token holds if nothing else is said: recalls take hours.
const LIFETIME: Millis = Millis::from_seconds(24 * 3600);

/// Makes a token, for whoever may read the facility's key; the facility need not run.
pub fn make_token(directory: &Path, wish: &CreateToken, now: Timestamp) -> Result<(String, Claims)> {
    let layout = Layout::new(directory)?;
    let config = Config::read(layout.root())?;
    let key = Key::read(&layout.key_file(), config.tokens.lifetime_max.0)?;
    let file = layout.id_file();
    let id = fs::read_to_string(&file).map_err(|cause| {
        failed("read", &file, &cause).hint("a facility of an older version makes it when it is started")
    })?;
    let claims = claims(&key, id.trim(), wish, now)?;
    Ok((key.tokens().sign(&claims), claims))
}

/// What a token of the facility `id` shall say; refuses what no token may.
pub(crate) fn claims(key: &Key, id: &str, wish: &CreateToken, now: Timestamp) -> Result<Claims> {
    let lifetime = lifetime(wish.lifetime, key.tokens().lifetime_max())?;
    let scopes = wish.scopes.as_deref().map(Scopes::parse).transpose()?;
    if scopes.as_ref().is_some_and(Scopes::is_empty) {
        return Err(Failure::invalid("none of the scopes is about storage")
            .hint("use storage.read:/PATH, storage.create:, storage.modify: or storage.stage:"));
    }
    if scopes.is_some() && !wish.groups.is_empty() {
        return Err(Failure::invalid("a token has either scopes or groups")
            .hint("groups have no effect on a token with scopes"));
    }
    check_name("user", &wish.user)?;
    wish.groups.iter().try_for_each(|group| check_name("group", group))?;
    let number = random::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Claims {
        issuer: id.to_owned(),
        subject: wish.user.clone(),
        audience: vec![wish.audience.clone().unwrap_or_else(|| id.to_owned())],
        id: number,
        issued: now,
        starts: now,
        expires: now + lifetime,
        scopes,
        groups: wish.groups.clone(),
        is_of_job: false,
        host: None,
    })
}

fn lifetime(asked: Option<Millis>, lifetime_max: Millis) -> Result<Millis> {
    let lifetime = asked.unwrap_or_else(|| LIFETIME.min(lifetime_max));
    if lifetime > Millis(0) && lifetime <= lifetime_max {
        return Ok(lifetime);
    }
    let bound = base::units::Span(lifetime_max);
    Err(Failure::invalid(format!("lifetime {} is not within {bound}", base::units::Span(lifetime)))
        .hint("12h is usual; the operator sets the longest with tokens.lifetime_max"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn wish() -> CreateToken {
        CreateToken { user: "ann".to_owned(), ..CreateToken::default() }
    }

    #[test]
    fn nobody_makes_tokens_that_would_be_refused() {
        let key = Key::nobody();
        let make = |wish: &CreateToken| claims(&key, "f00", wish, NOW);
        let max = key.tokens().lifetime_max();
        assert_eq!(make(&wish()).unwrap().expires, NOW + LIFETIME);
        let longest = CreateToken { lifetime: Some(max), ..wish() };
        let token = key.tokens().sign(&make(&longest).unwrap());
        key.tokens().verify(&token, "f00", NOW).unwrap();
        for lifetime in [0, -1, max.0 + 1, i64::MAX, i64::MIN] {
            let refused = make(&CreateToken { lifetime: Some(Millis(lifetime)), ..wish() }).unwrap_err();
            assert!(refused.hint.is_some(), "{refused}");
        }
        let named = |user: &str| CreateToken { user: user.to_owned(), ..wish() };
        for name in ["", "a b", "host:d1", "a,b", "\u{1b}[2J"] {
            assert!(make(&named(name)).is_err(), "{name:?}");
            assert!(make(&CreateToken { groups: vec![name.to_owned()], ..wish() }).is_err(), "{name:?}");
        }
        let scoped = |scopes: &str| CreateToken { scopes: Some(scopes.to_owned()), ..wish() };
        assert!(make(&scoped("storage.read:/data")).is_ok());
        assert!(make(&scoped("openid")).is_err());
        let both = CreateToken { groups: vec!["prod".to_owned()], ..scoped("storage.read:/data") };
        assert!(make(&both).is_err());
    }
}
