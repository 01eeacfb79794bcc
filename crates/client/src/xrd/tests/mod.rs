//! The client against servers that behave, misbehave and break.

mod fork;
mod pages;
mod protocol;
mod reads;
mod resume;
mod server;
mod tasks;
