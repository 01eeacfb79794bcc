//! The client against servers that behave, misbehave and break.

mod fork;
mod idle;
mod live;
mod pages;
mod protocol;
mod reads;
mod resume;
mod server;
mod tasks;
