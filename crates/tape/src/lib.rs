//! Tape server: drives, changers, labels, sessions, and the copies between disk and tape.
//!
//! **Problem.** A load takes minutes, a drive may hang, and a volume may not be the one that was asked for; nothing must be
//! read or written by mistake.
//!
//! **Idea.** [`TapeDrive`] and [`Changer`] are what a library can do; [`VirtualLibrary`] is one of plain directories and files,
//! [`scsi`] has those of real devices and their emulation.
//! [`TapeRoom`] is the server: each of its sessions is a state machine that loads a volume, compares its label, and copies
//! files in the order of the tape. [`watchdog`] notices a drive that hangs.
//!
//! **Start reading** with [`session`], then [`label_io`], which writes and reads labelled files on any drive. `spec/tape.md`
//! draws the formats.

mod activity;
pub mod changer;
pub mod copier;
mod devices;
pub mod drive;
#[cfg(test)]
mod fake;
pub mod fault;
mod image;
pub mod label_io;
mod loading;
pub mod room;
pub mod scsi;
pub mod session;
pub mod virtual_drive;
pub mod virtual_library;
pub mod watchdog;

pub use changer::{Changer, Element, ElementAddress, ElementKind};
pub use devices::{Devices, IscsiTarget, SgPaths};
pub use drive::{
    At, Capacity, DriveStatus, Identity, Position, Read, SpaceKind, Spaced, Stop, TapeDrive, Written,
};
pub use fault::Fault;
pub use room::{RoomConfig, TapeRoom};
pub use session::LabelStyle;
pub use virtual_drive::{DriveOptions, VirtualDrive};
pub use virtual_library::VirtualLibrary;
pub use watchdog::{Alarm, Deadlines, Watchdog, WatchedDrive};
