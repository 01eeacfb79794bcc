//! The one data mover and the management client.

mod authorities;
mod certificate;
pub mod control;
pub mod facility;
mod fetch;
mod stop;
pub mod xrd;

pub use certificate::certificate_end;
pub use control::{Bearer, Control, ControlTls};
pub use facility::Facility;
pub use fetch::Fetch;
pub use stop::Stop;
