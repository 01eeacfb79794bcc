//! Several heads of one facility, of which one is active.

use super::{Done, calls};
use serde::{Deserialize, Serialize};

/// Orders a standby to take over from the active head.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TakeOver {
    /// The host whose standby it is to be; `None`: whichever is first.
    pub host: Option<String>,
}

calls! {
    TakeOver => Done, "take_over", People;
}
