//! The one data mover and the management client.

pub mod control;
pub mod facility;

pub use control::{Control, FacilityKey};
pub use facility::Facility;
