//! `sacctmgr` and `sshare`, as far as tools ask them for accounts and clusters: groups with a share stand for accounts.

use super::{CLUSTER, help};
use crate::{
    context::Run,
    shims::{Shim, getopt::Order},
};
use base::Result;
use wire::control::GetShares;

const SACCTMGR: &str = "\
    h/help i/immediate n/noheader o/oneliner p/parsable P/parsable2 Q/quiet r/readonly s/associations v/verbose \
    V/version usage";
const SSHARE: &str = "\
    A/accounts= a/all e/helpformat h/noheader help l/long M/clusters= cluster= m/partition o/format= p/parsable \
    P/parsable2 u/users= U/Users usage v/verbose V/version json?";

/// The width of a column whose format does not say it.
const WIDTH: usize = 10;

/// Accounts that the user may name: groups that have a share.
fn accounts(shim: &mut Shim) -> Result<Vec<String>> {
    let shares = shim.call(&GetShares {})?;
    let mut names: Vec<String> = shares.shares.into_iter().map(|share| share.group).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// Runs `sacctmgr show|list …`. It changes nothing: `bp shares` and `bp project` do.
pub(crate) fn sacctmgr(shim: &mut Shim, arguments: Vec<String>) -> Run {
    let usage = "[options] show|list user|account|association|cluster|qos [format=...]";
    let parsed = match help::read(shim, usage, SACCTMGR, Order::Permuted, arguments, 1)? {
        help::Asked::Do(parsed) => parsed,
        help::Asked::Answered(code) => return Ok(code),
    };
    let words: Vec<String> = parsed.operands.iter().map(|word| word.to_ascii_lowercase()).collect();
    let (verb, what) = (words.first().map_or("", String::as_str), words.get(1).map_or("", String::as_str));
    if !matches!(verb, "show" | "list") {
        return shim.refuse("only show and list are supported here; `bp shares` sets shares", 1);
    }
    let rows = match what {
        what if what.starts_with("clus") => vec![CLUSTER.to_owned()],
        "qos" => vec!["normal".to_owned()],
        what if ["user", "acc", "assoc"].iter().any(|one| what.starts_with(one)) => accounts(shim)?,
        other => return shim.refuse(&format!("there is no {other:?} here"), 1),
    };
    let format = words.iter().find_map(|word| word.strip_prefix("format="));
    let is_plain = parsed.has("parsable2") || parsed.has("parsable");
    if !parsed.has("noheader") {
        let heading = format.and_then(|format| format.split('%').next()).unwrap_or(what).to_owned();
        shim.line(fitted(&heading, format, is_plain))?;
    }
    for row in rows {
        shim.line(fitted(&row, format, is_plain))?;
    }
    Ok(0)
}

/// Runs `sshare`: the accounts; `bp shares` shows the shares.
pub(crate) fn sshare(shim: &mut Shim, arguments: Vec<String>) -> Run {
    let parsed = match help::read(shim, "[options]", SSHARE, Order::Permuted, arguments, 1)? {
        help::Asked::Do(parsed) => parsed,
        help::Asked::Answered(code) => return Ok(code),
    };
    let format = parsed.last("format").map(str::to_owned);
    let is_plain = parsed.has("parsable2") || parsed.has("parsable");
    if !parsed.has("noheader") {
        shim.line(fitted("Account", format.as_deref(), is_plain))?;
    }
    for account in accounts(shim)? {
        shim.line(fitted(&account, format.as_deref(), is_plain))?;
    }
    Ok(0)
}

/// A cell, right-justified in the width that `account%256` asks for.
fn fitted(text: &str, format: Option<&str>, is_plain: bool) -> String {
    if is_plain {
        return text.to_owned();
    }
    let width = format.and_then(|format| format.split_once('%')?.1.parse().ok()).unwrap_or(WIDTH).min(4096);
    format!("{text:>width$} ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_as_wide_as_it_was_asked_for() {
        assert_eq!(fitted("higgs", Some("account%8"), false), "   higgs ");
        assert_eq!(fitted("higgs", None, false), "     higgs ");
        assert_eq!(fitted("higgs", Some("account%8"), true), "higgs");
    }
}
