//! Validates the claims of a token of another issuer.

use crate::auth::token::{ANY_AUDIENCE, Audience, CLOCKS_DIFFER_S, Scopes};
use base::{Failure, Result, Timestamp};
use serde::Deserialize;
use serde_json::Number;

/// The audience that means any service, in SciTokens.
pub const SCITOKENS_ANY_AUDIENCE: &str = "ANY";
/// Groups of one token: real ones have a handful.
const GROUPS_MAX: usize = 128;

/// Whose rules a token follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// WLCG 1.x
    Wlcg,
    /// SciTokens
    SciTokens,
}

/// What a token says that was signed by its issuer, is for us, and is good now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Who signed it.
    pub issuer: String,
    /// Whom it speaks of.
    pub subject: String,
    /// Number of the token, for logs; empty if it has none.
    pub id: String,
    /// Whose rules it follows.
    pub profile: Profile,
    /// When it ends.
    pub expires: Timestamp,
    /// What it allows, on paths of its issuer; `None`: it speaks of who somebody is, not of what they may do.
    pub scopes: Option<Scopes>,
    /// Groups of its subject, as its issuer names them; none if it has scopes.
    pub groups: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct Payload {
    pub(super) iss: String,
    #[serde(default)]
    sub: String,
    aud: Option<Audience>,
    exp: Number,
    nbf: Option<Number>,
    iat: Option<Number>,
    #[serde(default)]
    jti: Option<String>,
    #[serde(rename = "wlcg.ver")]
    wlcg: Option<String>,
    ver: Option<String>,
    scope: Option<String>,
    #[serde(rename = "wlcg.groups")]
    groups: Option<Vec<String>>,
}

impl Payload {
    /// Refuses what is not good now, or not for one of `audiences`.
    pub(super) fn verify(self, audiences: &[String], now: Timestamp) -> Result<Verified> {
        let expires = self.check_times(now)?;
        let profile = self.profile()?;
        self.check_audience(profile, audiences)?;
        if self.sub.is_empty() {
            return Err(Failure::permission("token names no subject"));
        }
        let words = self.scope.unwrap_or_default();
        let scopes = match profile {
            Profile::Wlcg => Scopes::parse(&words)?,
            Profile::SciTokens => Scopes::parse_scitokens(&words)?,
        };
        // Whoever has a right to anything by scopes has nothing by groups, not even where the scopes say nothing.
        let is_capability = |word: &str| word.starts_with("storage.") || word.starts_with("compute.");
        let is_scoped = profile == Profile::SciTokens || words.split_ascii_whitespace().any(is_capability);
        let groups = if is_scoped { Vec::new() } else { self.groups.unwrap_or_default() };
        if groups.len() > GROUPS_MAX {
            return Err(Failure::permission(format!("token names more than {GROUPS_MAX} groups")));
        }
        Ok(Verified {
            issuer: self.iss,
            subject: self.sub,
            id: self.jti.unwrap_or_default(),
            profile,
            expires,
            scopes: is_scoped.then_some(scopes),
            groups,
        })
    }

    /// Refuses a token of another time: to the second at its end, with patience for clocks at its beginning.
    fn check_times(&self, now: Timestamp) -> Result<Timestamp> {
        let expires = at(&self.exp)?;
        if expires <= now {
            return Err(Failure::permission(format!("token of {:?} has expired", self.sub))
                .hint("get a new one from its issuer"));
        }
        for begins in [&self.nbf, &self.iat].into_iter().flatten() {
            if at(begins)?.seconds() > now.seconds() + CLOCKS_DIFFER_S {
                return Err(Failure::permission(format!("token of {:?} is not valid yet", self.sub)));
            }
        }
        Ok(expires)
    }

    fn profile(&self) -> Result<Profile> {
        let unknown = |what: &str, version: &str| {
            let version: String = version.chars().take(32).collect();
            Err(Failure::permission(format!(
                "token is of {what} version {version:?}, which is not known here"
            )))
        };
        match (&self.wlcg, &self.ver) {
            (Some(version), _) => {
                let minor = version.strip_prefix("1.").unwrap_or("");
                let is_known = !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit());
                if is_known { Ok(Profile::Wlcg) } else { unknown("WLCG profile", version) }
            }
            (None, Some(version)) => match &**version {
                "scitoken:2.0" | "scitokens:2.0" | "scitokens:1.0" => Ok(Profile::SciTokens),
                other => unknown("SciTokens", other),
            },
            (None, None) => Ok(Profile::SciTokens),
        }
    }

    fn check_audience(&self, profile: Profile, audiences: &[String]) -> Result<()> {
        let any = match profile {
            Profile::Wlcg => ANY_AUDIENCE,
            Profile::SciTokens => SCITOKENS_ANY_AUDIENCE,
        };
        let named = match &self.aud {
            None => &[][..],
            Some(Audience::One(one)) => std::slice::from_ref(one),
            Some(Audience::Many(many)) => many,
        };
        if named.iter().any(|audience| audience == any || audiences.contains(audience)) {
            return Ok(());
        }
        let what = if named.is_empty() {
            "token names no audience".to_owned()
        } else {
            format!("token is for another audience: {:?}", named.join(", "))
        };
        Err(Failure::permission(what)
            .hint(format!("ask its issuer for one for {:?}", audiences.join(" or "))))
    }
}

/// A time in seconds since 1970, which may have a fraction.
fn at(number: &Number) -> Result<Timestamp> {
    let seconds = number.as_i64().or_else(|| number.as_f64().map(|seconds| seconds.floor() as i64));
    let seconds = seconds.ok_or_else(|| Failure::permission("token has an invalid time"))?;
    Ok(Timestamp(seconds.saturating_mul(1000)))
}
