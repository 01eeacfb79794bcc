//! The one data mover and the management client.

mod authorities;
pub mod control;
pub mod facility;
mod fetch;
pub mod xrd;

pub use control::{Control, ControlTls, FacilityKey};
pub use facility::Facility;
pub use fetch::Fetch;
