//! SCSI drives and changers, behind any transport.
//!
//! **Problem.** Real drives differ in what they offer, report trouble in their own way, and forget their position when somebody
//! resets them. A block written at the wrong position destroys a volume.
//!
//! **Idea.** A [`Transport`] carries one command and its data; [`Device`] handles what every device may answer to any
//! command: unit attentions, recovered and deferred errors, busy. [`ScsiDrive`] and [`ScsiChanger`] are the drive and the
//! changer of the tape server on top of it. They ask what the device can do, track the position themselves, and compare it with
//! the device's own where that is true. [`emulation`] answers the same commands in this process, with faults on order.
//!
//! **Start reading** with [`transport`], then [`device`], then [`drive`]. Source: SPC-4, SSC-4 and SMC-3 of T10.

mod attributes;
pub mod changer;
mod command;
pub mod device;
pub mod drive;
mod element;
pub mod emulation;
mod health;
mod inquiry;
pub mod iscsi;
pub mod sense;
pub mod sg;
pub mod transport;

pub use changer::ScsiChanger;
pub use command::{Command, CommandKind};
pub use device::{Device, Trouble};
pub use drive::ScsiDrive;
pub use inquiry::{DeviceType, Inquiry};
pub use sense::{Sense, SenseKey};
pub use transport::{Data, Reply, Transport};
