//! Names of this host's users and groups, from its own lists.

use std::{collections::HashMap, fs};

/// Where they stand.
const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// Users and groups by number.
pub(crate) struct Users {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl Users {
    /// Those that this host knows now.
    pub(crate) fn of_this_host() -> Self {
        let read = |file| named(&fs::read_to_string(file).unwrap_or_default());
        Self { users: read(USERS), groups: read(GROUPS) }
    }

    pub(crate) fn user(&self, number: u32) -> Option<String> {
        self.users.get(&number).cloned()
    }

    pub(crate) fn group(&self, number: u32) -> Option<String> {
        self.groups.get(&number).cloned()
    }
}

/// Names by number. In both lists the name comes first and the number third; of several names for a number the first counts.
fn named(text: &str) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for line in text.lines() {
        let mut fields = line.split(':');
        if let (Some(name), Some(Ok(number))) = (fields.next(), fields.nth(1).map(str::parse)) {
            names.entry(number).or_insert_with(|| name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_far_as_they_can_be() {
        let names =
            named("root:x:0:0:root:/root:/bin/sh\n\n#\nbroken:x\nalice:x:1000:100::/:/bin/sh\ntoor:x:0:0\n");
        assert_eq!(names.len(), 2);
        assert_eq!((&*names[&0], &*names[&1000]), ("root", "alice"));
    }
}
