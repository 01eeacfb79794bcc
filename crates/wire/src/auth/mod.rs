//! Credentials: capabilities, bearer tokens, and the generations of the key that signs them.

pub mod capability;
pub mod keys;
pub mod token;
pub mod x509;
