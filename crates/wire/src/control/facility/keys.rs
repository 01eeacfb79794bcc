//! Tokens made by the daemon, and the generations of the facility's key.

use base::{Millis, Timestamp};
use serde::{Deserialize, Serialize};

/// Creates a token: the owner for any user, others for themselves, with at most their own rights. A token made with
/// another token ends no later than that one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateToken {
    /// The user.
    pub user: String,
    /// How long it is valid; `None`: a day, or the allowed maximum if that is less.
    #[serde(default)]
    pub lifetime: Option<Millis>,
    /// The scopes, as `storage.read:/data storage.create:/data`; `None`: all rights of the user.
    #[serde(default)]
    pub scopes: Option<String>,
    /// Groups of the user; only without scopes. Of those who are not the owner: some of their own.
    #[serde(default)]
    pub groups: Vec<String>,
    /// The audience; `None`: this facility.
    #[serde(default)]
    pub audience: Option<String>,
}

/// The answer to [`CreateToken`]. It has no `Debug`: the token is a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedToken {
    /// The token.
    pub token: String,
    /// When it expires.
    pub expires: Timestamp,
}

/// Shows the generations of the facility's key; for its owner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetKeys {}

/// Makes a new generation of the facility's key, which signs from now on; for its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RotateKey {
    /// How long the previous generation still verifies its signatures.
    pub grace: Millis,
}

/// Ends a generation of the facility's key at once, with all that it has signed; the newest one is replaced; for its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokeKey {
    /// Its number.
    pub generation: u32,
}

/// The answer to calls about the facility's key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyGenerations {
    /// The oldest first.
    pub generations: Vec<KeyGeneration>,
}

/// One generation of the facility's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyGeneration {
    /// Counted from 1.
    pub number: u32,
    /// When it was made; 0: by a version that did not note it.
    pub made: Timestamp,
    /// Its roles.
    pub state: KeyState,
    /// When it stops verifying; none: it is the one that signs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The state of a generation of the facility's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    /// It signs and verifies.
    Current,
    /// It verifies what it has signed.
    Verifies,
    /// Its time is over.
    Expired,
    /// It was ended.
    Revoked,
}

impl KeyState {
    /// The word people read.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Current => "signs",
            Self::Verifies => "verifies",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

/// Says that the keys have changed: waiting callers look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeysChanged {
    /// Whether open invitations end: a generation was revoked.
    pub ends_invitations: bool,
}
