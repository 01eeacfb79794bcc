//! Tape server: drives, changers, labels, the session state machine, the copier.
//!
//! [`TapeDrive`] and [`Changer`] are what a library can do. [`VirtualLibrary`] is a library of plain directories and
//! files. [`TapeRoom`] is the server: it runs the sessions that the head orders. [`label_io`] writes and reads labelled files on any drive, [`watchdog`] notices a drive that hangs. The
//! formats are drawn in `spec/tape.md`.

mod activity;
pub mod changer;
pub mod copier;
pub mod drive;
#[cfg(test)]
mod fake;
pub mod fault;
mod image;
pub mod label_io;
mod loading;
pub mod room;
pub mod session;
pub mod virtual_drive;
pub mod virtual_library;
pub mod watchdog;

pub use changer::{Changer, Element, ElementAddress, ElementKind};
pub use drive::{
    At, Capacity, DriveStatus, Identity, Position, Read, SpaceKind, Spaced, Stop, TapeDrive, Written,
};
pub use fault::Fault;
pub use room::{RoomConfig, TapeRoom};
pub use session::LabelStyle;
pub use virtual_drive::{DriveOptions, VirtualDrive};
pub use virtual_library::VirtualLibrary;
pub use watchdog::{Alarm, Deadlines, Watchdog, WatchedDrive};
