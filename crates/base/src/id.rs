//! Ids as types, so that a job is never taken for a file.

use crate::Failure;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

macro_rules! number_id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) }
        }

        impl FromStr for $name {
            type Err = Failure;
            fn from_str(text: &str) -> Result<Self, Failure> {
                text.parse().map(Self).map_err(|_| {
                    Failure::invalid(format!("{} {text:?} is not a number", stringify!($name)))
                })
            }
        }
    )*};
}

number_id! {
    /// A node of the namespace: file or directory. The root is 1.
    FileId;
    /// The plain file on a partition that holds one replica.
    ObjectId;
    /// One copy of a file on a volume.
    CopyId;
    /// A row of the tape queue.
    RequestId;
    /// One load of one volume in one drive, from label check to the last block.
    SessionId;
    /// A batch job.
    JobId;
}

/// Volume id: 1 to 6 characters `A-Z 0-9`, as on the bar code and in VOL1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Vid(String);

impl Vid {
    /// The characters of the label.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Vid {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let legal = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
        if (1..=6).contains(&text.len()) && text.chars().all(legal) {
            return Ok(Self(text.to_owned()));
        }
        Err(Failure::invalid(format!("volume id {text:?} is not 1 to 6 characters A-Z 0-9")))
    }
}

impl TryFrom<String> for Vid {
    type Error = Failure;

    fn try_from(text: String) -> Result<Self, Failure> {
        text.parse()
    }
}

impl From<Vid> for String {
    fn from(vid: Vid) -> Self {
        vid.0
    }
}

impl fmt::Display for Vid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vids_follow_the_label_field() {
        assert!("BP0001".parse::<Vid>().is_ok());
        for bad in ["", "bp0001", "BP00011", "BP 01", "ÄÖ"] {
            assert!(bad.parse::<Vid>().is_err(), "{bad:?}");
        }
    }
}
