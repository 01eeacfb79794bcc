//! WebDAV (RFC 4918), class 1: bodies of requests, header fields, and the XML of answers.

mod answer;
mod change;
mod fields;
mod names;
mod request;

pub use answer::{
    MULTISTATUS_HEAD, MULTISTATUS_TAIL, Quota, Resource, XML_TYPE, error_body, write_proppatch,
    write_resource, write_status,
};
pub use change::{PropertyChange, PropertyOutcome, PropertyPlan, parse_proppatch};
pub use fields::{
    Depth, Place, fuzz_place, parse_depth, parse_mtime, parse_overwrite, parse_place, speakable,
};
pub use names::{DAV, LCGDM, LiveProperty, OWNCLOUD, PropertyName};
pub use request::{Propfind, fuzz_propfind, parse_propfind};

/// Largest body of a `PROPFIND` or `PROPPATCH`: thousands of names; real ones have a dozen.
pub const DAV_BODY_BYTES_MAX: usize = 256 << 10;
/// Properties that one request may name.
pub const PROPERTIES_MAX: usize = 256;
