//! The one data mover and the management client.

pub mod control;
pub mod facility;
mod fetch;
mod trust;
pub mod xrd;

pub use control::{Control, ControlTls, FacilityKey};
pub use facility::Facility;
pub use fetch::Fetch;
