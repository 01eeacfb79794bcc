//! Calls on names: files, directories, attributes, grants, the trash, adoption.

pub mod adopt;
pub mod attributes;
pub mod files;
pub mod grants;
pub mod layouts;
pub mod trash;
