//! Tape server: drives, changers, labels, the session state machine, the copier.
//!
//! [`TapeDrive`] and [`Changer`] are what a library can do. [`VirtualLibrary`] is a library of plain directories and
//! files. [`label_io`] writes and reads labelled files on any drive, [`watchdog`] notices a drive that hangs. The
//! formats are drawn in `spec/tape.md`.

pub mod changer;
pub mod drive;
pub mod fault;
mod image;
pub mod label_io;
pub mod virtual_drive;
pub mod virtual_library;
pub mod watchdog;

pub use changer::{Changer, Element, ElementAddress, ElementKind};
pub use drive::{
    At, Capacity, DriveStatus, Identity, Position, Read, SpaceKind, Spaced, Stop, TapeDrive, Written,
};
pub use fault::Fault;
pub use virtual_drive::{DriveOptions, VirtualDrive};
pub use virtual_library::VirtualLibrary;
pub use watchdog::{Alarm, Deadlines, Watchdog, WatchedDrive};
