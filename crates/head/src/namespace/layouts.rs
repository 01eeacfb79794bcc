//! How files lie on disk servers that are changed in place: rules of directories and files.

use super::{grants::upwards, path_of, require_owner, resolve};
use crate::{Apply, Context, Core, store::Node};
use base::{Failure, FileId, FilePath, Result};
use std::collections::BTreeMap;
use wire::control::{Done, GetLayout, LayoutInfo, LayoutRule, SetLayout};

/// Rules in all: they are kept in memory.
const LAYOUTS_MAX: usize = 10_000;

impl Apply for SetLayout {
    fn paths(&self) -> Vec<FilePath> {
        vec![self.path.clone()]
    }

    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let node = resolve(core, &context.who, &self.path)?;
        require_owner(&context.who, &node, "sets the layout of", &self.path)?;
        if !node.is_directory() && !node.is_file() {
            return Err(Failure::invalid(format!("{} has no content that could lie anywhere", self.path)));
        }
        let table = core.store.layouts()?;
        let is_known = table.contains_key(&node.id);
        match &self.rule {
            None if !is_known => {
                return Err(Failure::not_found(format!("no layout was set on {}", self.path)).hint(format!(
                    "`bp layout show {}` says which directory has the one that counts",
                    self.path
                )));
            }
            Some(rule) => rule.check()?,
            None => {}
        }
        if !is_known && table.len() >= LAYOUTS_MAX {
            return Err(Failure::busy(format!(
                "the facility has {LAYOUTS_MAX} layouts: no more are possible"
            ))
            .hint("set it on a directory instead of each of its files"));
        }
        core.store.set_layout(node.id, self.rule.as_ref())?;
        Ok(Done {})
    }
}

impl Apply for GetLayout {
    fn apply(self, core: &mut Core, context: &Context) -> Result<LayoutInfo> {
        let node = resolve(core, &context.who, &self.path)?;
        let (rule, from) = match rule_of(core, &node)? {
            Some((rule, from)) => (Some(rule), Some(path_of(core, from)?)),
            None => (None, None),
        };
        Ok(LayoutInfo { rule, from })
    }
}

/// The rule that counts for a node, and where it was set: on itself, or the nearest directory above it.
pub(crate) fn rule_of(core: &Core, node: &Node) -> Result<Option<(LayoutRule, FileId)>> {
    let table = core.store.layouts()?;
    Ok(nearest(core, node, &table)?.map(|(rule, from)| (*rule, from)))
}

/// What a table of rules says of a node itself, or else of the nearest directory above it; and which that is.
pub(crate) fn nearest<'a, T>(
    core: &Core,
    node: &Node,
    table: &'a BTreeMap<FileId, T>,
) -> Result<Option<(&'a T, FileId)>> {
    let rule = |id: FileId| table.get(&id).map(|rule| (rule, id));
    if table.is_empty() || node.is_in_trash() {
        return Ok(rule(node.id));
    }
    Ok(upwards(core, node)?.into_iter().find_map(rule))
}
