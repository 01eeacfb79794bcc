//! Calls and types between the rooms and the head, with a file for each room.
//!
//! Only rooms and the doors beside the head make these calls. The calls of users, and the types that both need, stand
//! by their noun in the folder above.

pub mod batch;
pub mod disk;
pub mod tape;
