//! The calls on user attributes.

use super::{Right, require, require_owner, resolve};
use crate::{Apply, Context, Core, store::Node};
use base::{Failure, FilePath, Result};
use wire::control::{
    ATTRIBUTES_BYTES_MAX, ATTRIBUTES_LEN_MAX, Attributes, Done, GetAttributes, SetAttributes,
};

/// Changes of one call: all of a file's attributes can be exchanged for others.
const CHANGES_LEN_MAX: usize = 2 * ATTRIBUTES_LEN_MAX;

impl Apply for GetAttributes {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Attributes> {
        let node = resolve(core, &context.who, &self.path)?;
        require(core, &context.who, &node, Right::Read, &self.path)?;
        Ok(Attributes { attributes: core.store.attributes(node.id)? })
    }
}

impl Apply for SetAttributes {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        let Self { path, changes, is_new } = self;
        if changes.len() > CHANGES_LEN_MAX {
            return Err(Failure::invalid(format!("{} changes of attributes in one call", changes.len()))
                .hint(format!("at most {CHANGES_LEN_MAX} are taken")));
        }
        let node = resolve(core, &context.who, &path)?;
        require_owner(&context.who, &node, "attributes", &path)?;
        for change in &changes {
            let name = &change.name;
            match (core.store.has_attribute(node.id, name.as_str())?, change.value.is_some()) {
                (true, true) if is_new => {
                    return Err(Failure::exists(format!("{path} has an attribute {name}")));
                }
                (false, false) => {
                    return Err(Failure::not_found(format!("{path} has no attribute {name}")));
                }
                _ => core.store.change_attribute(node.id, change)?,
            }
        }
        refuse_too_many(core, &node, &path)?;
        Ok(Done {})
    }
}

/// Refuses a change that leaves a node with more attributes than are kept.
pub(crate) fn refuse_too_many(core: &Core, node: &Node, path: &FilePath) -> Result<()> {
    let (len, bytes) = core.store.attributes_size(node.id)?;
    if len <= ATTRIBUTES_LEN_MAX && bytes <= ATTRIBUTES_BYTES_MAX {
        return Ok(());
    }
    let what = format!("{path} would have {len} attributes of {bytes} bytes");
    Err(Failure::no_space(what).hint(format!(
        "at most {ATTRIBUTES_LEN_MAX} of {ATTRIBUTES_BYTES_MAX} bytes together are kept; put more into a file"
    )))
}
