//! `bp chown`: gives files and directories to another owner or group.

use crate::{
    context::{Context, Run},
    glob::{self, Match},
    path_arg::{self, PathArg},
    walk,
};
use base::{Failure, check_name};
use std::str::FromStr;
use wire::control::SetOwner;

/// `OWNER`, `OWNER:GROUP`, `OWNER:` for the group of the same name, or `:GROUP`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Holder {
    owner: Option<String>,
    group: Option<String>,
}

impl FromStr for Holder {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let (owner, group) = match text.split_once(':') {
            None => (text, None),
            Some((owner, "")) => (owner, Some(owner)),
            Some((owner, group)) => (owner, Some(group)),
        };
        let owner = (!owner.is_empty()).then(|| owner.to_owned());
        let group = group.map(str::to_owned);
        if owner.is_none() && group.is_none() {
            return Err(
                Failure::invalid("no owner or group is given").hint("write OWNER, OWNER:GROUP or :GROUP")
            );
        }
        owner.iter().try_for_each(|name| check_name("user", name))?;
        group.iter().try_for_each(|name| check_name("group", name))?;
        Ok(Self { owner, group })
    }
}

/// Set owner and group of files and directories
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Only the facility's owner can change the owner of a file; its owner can choose a group that \
        they are in.\nTo make a directory for a user: `bp mkdir /home/ann`, then `bp chown ann: /home/ann`."
)]
pub(crate) struct Args {
    /// New owner and group: OWNER, OWNER:GROUP, OWNER: for the group of that name, or :GROUP
    #[arg(value_name = "OWNER[:GROUP]")]
    holder: Holder,
    /// Files or directories; *, ? and [a-z] in the last component are wildcards
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathArg>,
    /// Also what is below
    #[arg(long, short = 'R')]
    recursive: bool,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let paths = path_arg::paths(context, args.paths)?;
    let paths = glob::expand(context, &paths, Match::All)?;
    let Holder { owner, group } = args.holder;
    walk::each(context, paths, args.recursive, &mut |context, path| {
        context.done(&SetOwner { path: path.clone(), owner: owner.clone(), group: group.clone() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_and_groups_are_told_apart() {
        let read = |text: &str| text.parse::<Holder>().map(|holder| (holder.owner, holder.group));
        let name = |text: &str| Some(text.to_owned());
        assert_eq!(read("ann").unwrap(), (name("ann"), None));
        assert_eq!(read("ann:cms").unwrap(), (name("ann"), name("cms")));
        assert_eq!(read("ann:").unwrap(), (name("ann"), name("ann")));
        assert_eq!(read(":cms").unwrap(), (None, name("cms")));
        for bad in ["", ":", "a b", "ann:c:d", "-R"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
