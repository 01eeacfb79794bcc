//! User attributes: names and values that users keep with a file or directory.

use base::{Failure, FilePath, hex, unhex};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest name of an attribute in bytes, as on Linux.
pub const ATTRIBUTE_NAME_BYTES_MAX: usize = 255;
/// Longest value in bytes, as on Linux.
pub const ATTRIBUTE_VALUE_BYTES_MAX: usize = 64 << 10;
/// Attributes of one file.
pub const ATTRIBUTES_LEN_MAX: usize = 64;
/// Names and values of one file together: attributes are notes, and the catalogue is backed up whole.
pub const ATTRIBUTES_BYTES_MAX: u64 = 256 << 10;

/// Name of an attribute: 1 to 255 bytes of UTF-8 without control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AttributeName(String);

impl AttributeName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for AttributeName {
    type Error = Failure;

    fn try_from(text: String) -> Result<Self, Failure> {
        if text.is_empty() || text.len() > ATTRIBUTE_NAME_BYTES_MAX {
            let what = format!("attribute name of {} bytes", text.len());
            return Err(Failure::invalid(what).hint(format!("1 to {ATTRIBUTE_NAME_BYTES_MAX} are allowed")));
        }
        if text.contains(char::is_control) {
            return Err(Failure::invalid(format!("attribute name {text:?} has a control character")));
        }
        Ok(Self(text))
    }
}

impl From<AttributeName> for String {
    fn from(name: AttributeName) -> Self {
        name.0
    }
}

impl fmt::Display for AttributeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Value of an attribute: up to 64 KiB of anything. In JSON it is written in hex.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AttributeValue(Vec<u8>);

impl AttributeValue {
    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<Vec<u8>> for AttributeValue {
    type Error = Failure;

    fn try_from(bytes: Vec<u8>) -> Result<Self, Failure> {
        if bytes.len() > ATTRIBUTE_VALUE_BYTES_MAX {
            let what = format!("attribute value of {} bytes", bytes.len());
            return Err(
                Failure::invalid(what).hint(format!("at most {ATTRIBUTE_VALUE_BYTES_MAX} are allowed"))
            );
        }
        Ok(Self(bytes))
    }
}

impl From<AttributeValue> for Vec<u8> {
    fn from(value: AttributeValue) -> Self {
        value.0
    }
}

impl TryFrom<String> for AttributeValue {
    type Error = Failure;

    fn try_from(text: String) -> Result<Self, Failure> {
        let bytes = unhex(&text);
        bytes.ok_or_else(|| Failure::invalid("attribute value is not in hex"))?.try_into()
    }
}

impl From<AttributeValue> for String {
    fn from(value: AttributeValue) -> Self {
        hex(&value.0)
    }
}

/// One attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribute {
    /// Its name.
    pub name: AttributeName,
    /// Its value, in hex.
    pub value: AttributeValue,
}

/// Returns all attributes of a path; needs the right to read it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GetAttributes {
    /// File or directory.
    pub path: FilePath,
}

/// All attributes of a path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// In name order, at most [`ATTRIBUTES_LEN_MAX`].
    pub attributes: Vec<Attribute>,
}

/// A change of one attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeChange {
    /// Which one.
    pub name: AttributeName,
    /// Its new value, in hex; none removes it, and then it must exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<AttributeValue>,
}

/// Sets and removes attributes of a path: all of them, or none if one is refused. For its owner.
///
/// They stay with the file through renames and new content, and go with it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetAttributes {
    /// File or directory.
    pub path: FilePath,
    /// In this order.
    pub changes: Vec<AttributeChange>,
    /// Fail if an attribute to set exists.
    #[serde(default)]
    pub is_new: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_and_values_are_checked_where_they_are_read() {
        let name = |text: &str| AttributeName::try_from(text.to_owned());
        assert!(name("run ü 7").is_ok() && name(&"n".repeat(255)).is_ok());
        for bad in ["", "a\0b", "a\nb", &"n".repeat(256)] {
            assert!(name(bad).is_err(), "{bad:?}");
        }
        assert!(AttributeValue::try_from(vec![0; 65_536]).is_ok());
        assert!(AttributeValue::try_from(vec![0; 65_537]).is_err());
        for bad in ["a", "0g", "+1", "äa"] {
            assert!(AttributeValue::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn values_come_back_from_json(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let value = AttributeValue::try_from(bytes).unwrap();
            let text = serde_json::to_string(&value).unwrap();
            prop_assert_eq!(serde_json::from_str::<AttributeValue>(&text).unwrap(), value);
        }
    }
}
