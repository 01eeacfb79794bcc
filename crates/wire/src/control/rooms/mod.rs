//! What goes between the rooms and the head, with a file for each room.
//!
//! Only rooms make these calls, and the doors that stand beside the head. What people ask stands beside this folder, by
//! its noun; types that both need stand there, too.

pub mod batch;
pub mod disk;
pub mod tape;
