//! The one rule for names of users and groups that come from outside: logins, headers, tokens, configuration, grants, quotas.
//!
//! Names stand in fields with separators, on terminals and in logs. So they consist of letters and digits of any script, and
//! of a few marks that occur in user databases: `.` `_` `-` `@` `+` `$`.

use crate::{Failure, Result, limits::NAME_BYTES_MAX};

/// Marks beside letters and digits: those of user lists, Kerberos principals without instance, machine accounts.
const MARKS: &str = "._-@+$";

/// Whether a user or group can have this name.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_legal = |c: char| c.is_alphanumeric() || MARKS.contains(c);
    // A dash would make it an option of a command, one or two dots a directory.
    let is_taken = name.starts_with('-') || name == "." || name == "..";
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !is_taken && name.chars().all(is_legal)
}

/// Refuses what is no name; `what` says whose it would be: "user" or "group".
pub fn check_name(what: &str, name: &str) -> Result<()> {
    if is_name(name) {
        return Ok(());
    }
    // A long one is not repeated.
    let shown: String = name.chars().take(64).collect();
    let hint = format!("use 1 to {NAME_BYTES_MAX} bytes of letters, digits and {MARKS}, without - in front");
    Err(Failure::invalid(format!("{shown:?} is not a name of a {what}")).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_users_are_names() {
        for good in [
            "ann",
            "maria_goeppert_mayer",
            "a.b-c",
            "ann@cern.ch",
            "host$",
            "x+y",
            "_apt",
            "1",
            "jürgen",
            "李",
        ] {
            check_name("user", good).unwrap();
        }
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for bad in [
            "",
            ".",
            "..",
            "-rf",
            "a/b",
            "a,b",
            "a:b",
            "host:d1",
            "a b",
            "a\nb",
            "a\u{1b}[2J",
            "a\u{7f}",
            "a\u{9b}b",
            "a\u{202e}b",
            "a\u{200b}b",
            "a\\b",
            "<b>",
            "a\"b",
            "a;b",
            "*",
            &long,
        ] {
            let failure = check_name("user", bad).unwrap_err();
            assert!(failure.what.len() < 400 && !failure.what.contains(char::is_control), "{failure}");
            assert!(failure.hint.is_some(), "{failure}");
        }
    }

    proptest! {
        #[test]
        fn a_name_stands_in_any_field(name in "\\PC{1,12}|.{0,12}") {
            if is_name(&name) {
                let is_odd = |c: char| c.is_control() || c.is_whitespace() || "/,:;\"'\\<>&=?#%|*".contains(c);
                prop_assert!(!name.contains(is_odd) && !name.starts_with('-'));
            }
        }
    }
}
