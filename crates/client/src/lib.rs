//! The one data mover and the management client.
