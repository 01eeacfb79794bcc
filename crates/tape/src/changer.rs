//! The interface of a medium changer, real or virtual.

use base::{Result, Vid};
use std::fmt;

/// Address of an element, as the changer numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementAddress(pub u16);

impl fmt::Display for ElementAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The kind of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ElementKind {
    /// Keeps a cartridge.
    Slot,
    /// A drive.
    Drive,
    /// An import/export slot.
    ImportExport,
    /// The arm that moves cartridges; it holds one only while it does, or after it was stopped.
    Arm,
}

/// A place of the library that holds at most one cartridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// Its address.
    pub address: ElementAddress,
    /// Its kind.
    pub kind: ElementKind,
    /// Name for people, such as `slot/0001`.
    pub name: String,
    /// The volume in it, if its bar code is one.
    pub vid: Option<Vid>,
    /// Something is in it: a volume, a cleaning cartridge, or one whose bar code cannot be read.
    pub is_full: bool,
    /// Bytes that the cartridge can hold, if its bar code says.
    pub capacity_bytes: Option<u64>,
    /// The element from which the cartridge came, if the library knows.
    pub source: Option<ElementAddress>,
}

impl Element {
    /// Whether it is a slot without a cartridge.
    #[must_use]
    pub fn is_free_slot(&self) -> bool {
        self.kind == ElementKind::Slot && !self.is_full
    }
}

/// A robot that moves cartridges between the elements of a library.
///
/// Errors: `NotFound` for an address or cartridge that is not there, `Exists` if the target is full, `Busy` if the drive
/// still holds the medium or somebody else moves one, `Corrupt` if what lies in the library makes no sense, `Io`.
pub trait Changer: Send {
    /// Name of the library.
    fn name(&self) -> &str;

    /// The contents of all elements, by address.
    fn inventory(&mut self) -> Result<Vec<Element>>;

    /// Moves the cartridge in `from` to the empty element `to`. It is there, durably, when this returns.
    fn move_medium(&mut self, from: ElementAddress, to: ElementAddress) -> Result<()>;

    /// Gets cartridges for volumes that were added; those that it has stay as they are. A virtual library makes them: `NoSpace` if
    /// no slot is free. Into a real one a person puts them: `NotFound` until that is done.
    fn insert(&mut self, volumes: &[Vid]) -> Result<()>;

    /// Address of the drive that has this name; `NotFound` if the library has none.
    fn drive_address(&mut self, drive: &str) -> Result<ElementAddress>;
}

/// Finds the element that holds `vid`.
#[must_use]
pub fn element_of<'a>(inventory: &'a [Element], vid: &Vid) -> Option<&'a Element> {
    inventory.iter().find(|element| element.vid.as_ref() == Some(vid))
}
