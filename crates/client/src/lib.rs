//! The one data mover and the management client.

pub mod control;
pub mod facility;
pub mod xrd;

pub use control::{Control, FacilityKey};
pub use facility::Facility;
