//! The client against servers that behave, misbehave and break.

mod protocol;
mod reads;
mod resume;
mod server;
mod tasks;
