//! Every byte that crosses a process boundary or lands on media, as pure codecs.
//!
//! Nothing here touches the clock, the network, the file system or an async runtime.

pub mod audit;
pub mod aws;
pub mod backup;
pub mod cap;
pub mod coded;
pub mod control;
pub mod http;
pub mod keys;
pub mod label;
pub mod object;
pub mod token;
pub mod xrd;
