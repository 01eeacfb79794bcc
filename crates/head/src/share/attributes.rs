//! What mounts ask of a node beside its name: user attributes, and all that is known of it.

use super::{opens::shown_path, reach, session};
use crate::{
    Apply, Context, Core,
    namespace::{Right, attributes::refuse_too_many, describe, require, require_owner},
};
use base::{Failure, Result};
use wire::control::{Attributes, DescribeNode, Done, FileInfo, GetNodeAttributes, SetNodeAttribute};

impl Apply for DescribeNode {
    fn apply(self, core: &mut Core, context: &Context) -> Result<FileInfo> {
        session(core, context, self.client)?;
        let node = reach(core, context, self.client, self.file)?;
        let path = shown_path(core, &node)?;
        describe(core, context, &node, path)
    }
}

impl Apply for GetNodeAttributes {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Attributes> {
        session(core, context, self.client)?;
        let node = reach(core, context, self.client, self.file)?;
        require(core, &context.who, &node, Right::Read, &shown_path(core, &node)?)?;
        Ok(Attributes { attributes: core.store.attributes(node.id)? })
    }
}

impl Apply for SetNodeAttribute {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Done> {
        session(core, context, self.client)?;
        let node = reach(core, context, self.client, self.file)?;
        let (path, name) = (shown_path(core, &node)?, &self.change.name);
        require_owner(&context.who, &node, "attributes", &path)?;
        match (core.store.has_attribute(node.id, name.as_str())?, self.must_exist) {
            (true, Some(false)) => Err(Failure::exists(format!("{path} has an attribute {name}"))),
            (false, Some(true)) => Err(Failure::not_found(format!("{path} has no attribute {name}"))),
            _ => {
                core.store.change_attribute(node.id, &self.change)?;
                refuse_too_many(core, &node, &path)?;
                Ok(Done {})
            }
        }
    }
}
