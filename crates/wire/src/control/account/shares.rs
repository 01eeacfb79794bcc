//! Shares of the CPU slots.

use base::Millis;
use serde::{Deserialize, Serialize};

/// Entitles a group to a share of the slots, or a user to one of what their group gets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetShare {
    /// The group.
    pub group: String,
    /// A user of it; none: the group as a whole.
    #[serde(default)]
    pub user: Option<String>,
    /// The share, relative to those of the others.
    pub share: f64,
}

/// Shows shares and usage.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetShares {}

/// Shares and usage of everybody.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// Time in which usage counts half.
    pub half_life: Millis,
    /// Groups, each before its users.
    pub shares: Vec<ShareInfo>,
}

/// What a group or a user is entitled to, has used and uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShareInfo {
    /// The group.
    pub group: String,
    /// The user; none: the group as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The share; 1 if nobody said another.
    pub share: f64,
    /// Slot seconds, of which half is forgotten in each half-life.
    pub used_seconds: f64,
    /// Slots in use.
    pub slots: f64,
}
