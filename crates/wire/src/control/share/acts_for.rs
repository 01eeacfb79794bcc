//! On whose behalf an operator makes a call: a mount that all users of a host use calls for each of them.

use base::{Failure, Result, check_name};
use serde::{Deserialize, Serialize};

/// Header of a call that an operator makes on behalf of somebody else: an [`ActsFor`].
pub const ACTS_FOR_HEADER: &str = "x-backplane-acts-for";
/// Groups of a user that count: beyond what a header can be expected to hold, and what users have.
const GROUPS_MAX: usize = 256;

/// A user of a host with the groups that they have there. What a call lets them do is decided as if they had made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActsFor {
    /// The user.
    pub user: String,
    /// Groups: that of what they make first.
    pub groups: Vec<String>,
    /// Permissions do not bind them: they are the superuser of their host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_superuser: bool,
}

impl ActsFor {
    /// A user; of more groups than count the last ones are left out.
    #[must_use]
    pub fn new(user: String, mut groups: Vec<String>, is_superuser: bool) -> Self {
        groups.truncate(GROUPS_MAX);
        Self { user, groups, is_superuser }
    }

    /// Reads what a header says.
    pub fn parse(text: &str) -> Result<Self> {
        let read = serde_json::from_str::<Self>(text);
        let acts_for = read.map_err(|cause| Failure::invalid(format!("{ACTS_FOR_HEADER}: {cause}")))?;
        check_name("user", &acts_for.user)?;
        acts_for.groups.iter().try_for_each(|group| check_name("group", group))?;
        if acts_for.groups.len() > GROUPS_MAX {
            let what = format!("{ACTS_FOR_HEADER}: user {} has more than {GROUPS_MAX} groups", acts_for.user);
            return Err(Failure::invalid(what));
        }
        Ok(acts_for)
    }

    /// What the header says.
    pub fn header(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|cause| Failure::internal(format!("{ACTS_FOR_HEADER}: {cause}")))
    }
}

/// Fuzz body: what is read says the same when it is written again.
pub fn fuzz_acts_for(data: &[u8]) {
    let Ok(acts_for) =
        std::str::from_utf8(data).map_err(drop).and_then(|text| ActsFor::parse(text).map_err(drop))
    else {
        return;
    };
    let text = acts_for.header().expect("names can be written");
    assert_eq!(ActsFor::parse(&text), Ok(acts_for));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_come_through() {
        let ann = ActsFor::new("ann".into(), vec!["prod".into(); 300], false);
        assert_eq!(ActsFor::parse(&ann.header().unwrap()), Ok(ann));
        for bad in ["", "{}", r#"{"user":"a b","groups":[]}"#, r#"{"user":"a","groups":["-x"]}"#] {
            assert!(ActsFor::parse(bad).is_err(), "{bad}");
            fuzz_acts_for(bad.as_bytes());
        }
        fuzz_acts_for(br#"{"user":"1000","groups":["1000"],"is_superuser":true}"#);
    }
}
