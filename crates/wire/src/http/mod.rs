//! Header fields of the HTTP door: ranges, digests, entity tags, conditions, dates, paths in URLs; and WebDAV's XML.
//!
//! All functions turn text into types or types into text. A malformed field is ignored where RFC 9110 says so;
//! otherwise it is an `Invalid` failure.

pub mod condition;
pub mod date;
pub mod dav;
pub mod digest;
pub mod framing;
pub mod path;
pub mod range;
pub mod tag;
pub mod tape;
pub mod tpc;

pub use condition::{Conditions, Validators, Verdict};
pub use date::{http_date, parse_http_date};
pub use digest::{wanted_digests, wanted_repr_digests};
pub use framing::Framing;
pub use path::{decode_path, encode_path, target_names_directory};
pub use range::{Multipart, Ranges, content_range, parse_ranges, unsatisfied_range};
pub use tag::EntityTag;

/// The elements of a comma-separated field value, trimmed, without the empty ones (RFC 9110 §5.6.1).
fn elements(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(|element| element.trim_matches([' ', '\t'])).filter(|element| !element.is_empty())
}
