//! What a device says it is.

use super::{
    command::Command,
    device::{Device, Trouble},
    transport::Transport,
};

/// Bytes of standard INQUIRY data that are read.
const INQUIRY_BYTES: u16 = 96;
/// Bytes of a page of vital product data that are read.
const PAGE_BYTES: u16 = 252;
/// The page with the serial number.
const SERIAL_PAGE: u8 = 0x80;

/// The type of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceType {
    /// A tape drive.
    Drive,
    /// A medium changer.
    Changer,
    /// Another one, or none.
    Other(u8),
}

/// What a device says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inquiry {
    /// The type.
    pub kind: DeviceType,
    /// Vendor.
    pub vendor: String,
    /// Model.
    pub model: String,
    /// Revision of the firmware.
    pub revision: String,
    /// Serial number; empty if the device does not say.
    pub serial: String,
}

impl Inquiry {
    /// Asks the device.
    pub fn of<T: Transport>(device: &mut Device<T>) -> Result<Self, Trouble> {
        let mut buffer = [0; INQUIRY_BYTES as usize];
        let data = device.ask(&Command::inquiry(None, INQUIRY_BYTES), &mut buffer)?.to_vec();
        let serial = match device
            .ask(&Command::inquiry(Some(SERIAL_PAGE), PAGE_BYTES), &mut [0; PAGE_BYTES as usize])
        {
            Ok(page) if page.get(1) == Some(&SERIAL_PAGE) => {
                let length = page.get(3).copied().unwrap_or(0).into();
                text(page, 4, length)
            }
            Ok(_) => String::new(),
            Err(trouble) if trouble.sense().is_some_and(super::sense::Sense::is_not_offered) => String::new(),
            Err(trouble) => return Err(trouble),
        };
        let kind = match data.first().copied().unwrap_or(0xff) {
            0x01 => DeviceType::Drive,
            0x08 => DeviceType::Changer,
            other => DeviceType::Other(other),
        };
        Ok(Self {
            kind,
            vendor: text(&data, 8, 8),
            model: text(&data, 16, 16),
            revision: text(&data, 32, 4),
            serial,
        })
    }
}

/// A field of text without its padding.
pub(super) fn text(data: &[u8], at: usize, length: usize) -> String {
    let field = data.get(at..).unwrap_or_default();
    let field = &field[..field.len().min(length)];
    let shown = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { ' ' };
    field.iter().map(shown).collect::<String>().trim().to_owned()
}
