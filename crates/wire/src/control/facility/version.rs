//! Versions of the daemons of one facility: what they say to each other changes with the first number that is not zero.

use base::{Failure, Result};

/// Header by which a daemon says which version it is.
pub const VERSION_HEADER: &str = "x-backplane-version";
/// Our version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Refuses a daemon whose version says other things than ours. `who` names its host; `None`: it says no version.
pub fn check_version(who: &str, theirs: Option<&str>) -> Result<()> {
    let theirs = theirs.unwrap_or("of an unknown version");
    if speaks(theirs).is_some_and(|spoken| Some(spoken) == speaks(VERSION)) {
        return Ok(());
    }
    let theirs: String =
        theirs.chars().filter(|letter| letter.is_ascii_graphic() || *letter == ' ').take(32).collect();
    Err(Failure::unsupported(format!("host {who} runs Backplane {theirs}, the head {VERSION}"))
        .hint("install the same version on all hosts of the facility"))
}

/// Major and minor number while the major is 0, else the major.
fn speaks(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
    let (major, minor) = (numbers.next()??, numbers.next()??);
    Some((major, if major == 0 { minor } else { 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_that_is_not_zero_counts() {
        assert_eq!((speaks("0.3.9"), speaks("2.3.9"), speaks("2.0-rc")), (Some((0, 3)), Some((2, 0)), None));
        check_version("d1", Some(VERSION)).unwrap();
        for other in [None, Some("0.99.0"), Some("99.0.0"), Some(""), Some("\u{1b}[31m")] {
            let failure = check_version("d1", other).unwrap_err();
            assert!(failure.what.starts_with("host d1 ") && !failure.what.contains('\u{1b}'), "{failure}");
        }
    }
}
