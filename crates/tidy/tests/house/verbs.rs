//! A verb of `bp` is listed once: help, completion, manual pages and reference are made from that list.

use crate::{
    hold,
    tree::{read, root, sources},
};
use std::collections::BTreeSet;

/// Where verbs are listed.
const LIST: &str = "crates/cli/src/verbs/mod.rs";
/// The commands of other systems.
const SHIMS: &str = "crates/cli/src/shims/";
/// Names of verbs that another file may have among its texts and paths: many are words of tables, too (`jobs`, `pool`).
const NAMES_MAX: usize = 3;

/// The verbs of a list: what stands in `verbs![…]`.
fn listed(list: &str) -> BTreeSet<&str> {
    let groups = list.split("verbs![").skip(1).filter_map(|rest| rest.split(']').next());
    groups.flat_map(|group| group.split(',').map(str::trim)).filter(|verb| !verb.is_empty()).collect()
}

/// Verbs that a code reaches by the path of their module: `ls::run`, `ls::Args`.
fn reached<'a>(code: &str, verbs: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    let words: Vec<&str> = code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).collect();
    let is_reached = |verb: &str| {
        words.iter().any(|word| {
            let before = word.strip_suffix("::run").or_else(|| word.strip_suffix("::Args"));
            before.is_some_and(|before| before.rsplit("::").next() == Some(verb))
        })
    };
    verbs.iter().copied().filter(|verb| is_reached(verb)).collect()
}

#[test]
fn nothing_else_lists_verbs() {
    let list = read(&root().join(LIST));
    let verbs = listed(&list);
    assert!(verbs.len() > 40, "the list of verbs is read");
    let mut wrong = Vec::new();
    // The commands of others have words of their own, of which some are verbs here.
    let is_ours = |path: &str| path != LIST && !path.starts_with(SHIMS);
    for source in sources().iter().filter(|source| source.package == "cli" && is_ours(&source.path)) {
        let texts = source.literals.iter().filter(|literal| !source.is_test_at(literal.quote));
        let mut named = reached(&source.code, &verbs);
        named.extend(texts.filter_map(|literal| verbs.get(literal.text.as_str())));
        if named.len() > NAMES_MAX {
            wrong.push(format!("{}:1: {named:?}", source.path));
        }
    }
    hold(&format!("Verbs of `bp` are listed in {LIST} only; make other lists from it."), wrong);
}

#[test]
fn verbs_are_read_and_recognized() {
    let verbs = listed("(\"A\", verbs![ls, stat]), (\"B\", verbs![\n    rm,\n])");
    assert_eq!(verbs.iter().copied().collect::<Vec<_>>(), ["ls", "rm", "stat"]);
    let found = reached("verbs::ls::run(a); stat::Args { b }; mod rm;", &verbs);
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["ls", "stat"]);
}
