//! Rows of names: nodes, attributes, grants, referrals, adoptions, the trash.

pub(crate) mod adoptions;
pub(crate) mod attributes;
pub(crate) mod grants;
pub(crate) mod hard_links;
pub(crate) mod layouts;
pub(crate) mod links;
pub(crate) mod nodes;
pub(crate) mod referrals;
pub(crate) mod trash;
