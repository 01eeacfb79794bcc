//! Tape labels: ASCII user labels (AUL) as CASTOR and CTA write them (`spec/tape.md` §2).
//!
//! A label is one block of 80 ASCII characters. VOL1 names the volume. HDR1, HDR2 and UHL1 stand before the data of every
//! file, EOF1, EOF2 and UTL1 after it. Header and trailer have the same fields, so they share one type, and [`Side`] tells
//! them apart. [`FileLabels`] makes the six labels of a file, and checks them when the file is read.

mod date;
mod fields;
mod file;
mod headers;
mod vol1;

pub use date::LabelDate;
pub use fields::{LABEL_BYTES, Label, LabelError, Text};
pub use file::{FileLabels, Mismatch, Writer};
pub use headers::{Hdr1, Hdr2, LabelName, Side, Uhl1};
pub use vol1::{BlockProtection, Vol1};

/// Fuzz body: any bytes as each of the labels. Never panics; what decodes encodes to the same label.
pub fn fuzz_label(data: &[u8]) {
    if let Ok(label) = Vol1::decode(data) {
        assert_eq!(Vol1::decode(&label.encode()), Ok(label), "VOL1 does not survive");
    }
    if let Ok(label) = Hdr1::decode(data) {
        assert_eq!(Hdr1::decode(&label.encode()), Ok(label), "HDR1 does not survive");
    }
    if let Ok(label) = Hdr2::decode(data) {
        assert_eq!(Hdr2::decode(&label.encode()), Ok(label), "HDR2 does not survive");
    }
    if let Ok(label) = Uhl1::decode(data) {
        assert_eq!(Uhl1::decode(&label.encode()), Ok(label), "UHL1 does not survive");
    }
}

#[cfg(test)]
mod tests;
