//! Labels of hosts: racks and other failure domains, set by operators.

use base::{Failure, Result};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Longest name of a label, and longest value.
pub(in crate::control) const LABEL_BYTES_MAX: usize = 64;
/// Labels of one host.
pub const HOST_LABELS_MAX: usize = 16;
/// A disk server for itself: no label has this name.
pub const SERVER_WORD: &str = "server";

/// A label, written `rack=r12`. Without a value it takes the label of that name away.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostLabel {
    /// What it says something about: `rack`, `room`.
    pub name: String,
    /// What it says.
    pub value: String,
}

pub(in crate::control) fn is_word(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !text.is_empty() && text.len() <= LABEL_BYTES_MAX && text.chars().all(is_plain)
}

/// Refuses what cannot be the name of a label.
pub(in crate::control) fn check_name(name: &str) -> Result<()> {
    if is_word(name) && name != SERVER_WORD {
        return Ok(());
    }
    Err(Failure::invalid(format!("{name:?} is not a valid label name"))
        .hint(format!("1 to {LABEL_BYTES_MAX} of a-z A-Z 0-9 . - _, and not {SERVER_WORD}")))
}

impl FromStr for HostLabel {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            Failure::invalid(format!("{text:?} is not NAME=VALUE, as rack=r12")).hint("NAME= removes a label")
        })?;
        check_name(name)?;
        if !value.is_empty() && !is_word(value) {
            return Err(Failure::invalid(format!("label {name} cannot be {value:?}"))
                .hint(format!("1 to {LABEL_BYTES_MAX} of a-z A-Z 0-9 . - _")));
        }
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

impl fmt::Display for HostLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

impl TryFrom<String> for HostLabel {
    type Error = Failure;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<HostLabel> for String {
    fn from(label: HostLabel) -> Self {
        label.to_string()
    }
}

/// Labels a host that joined, or one that serves a partition.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelHost {
    /// The host.
    pub name: String,
    /// Labels to set or remove; others stay.
    pub labels: Vec<HostLabel>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_written_with_an_equals_sign() {
        for text in ["rack=r12", "room=", "power-line=A.2_b"] {
            let label: HostLabel = text.parse().unwrap();
            assert_eq!(label.to_string(), text);
            assert_eq!(
                serde_json::from_str::<HostLabel>(&serde_json::to_string(&label).unwrap()).unwrap(),
                label
            );
        }
        for bad in ["", "rack", "=r12", "rack=a b", "ra ck=a", "rack=a=b", "server=x", "rack=\u{e9}"] {
            assert!(bad.parse::<HostLabel>().unwrap_err().hint.is_some(), "{bad:?}");
        }
    }
}
