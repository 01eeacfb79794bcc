//! How people name jobs: `12`, `12_3`, `12_[1-5,7]`.

use super::{IndexRange, array};
use base::{Failure, JobId, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::{fmt, str::FromStr};

/// A job, a whole array, or elements of an array. As JSON it is its text, or a plain number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobSelection {
    /// The job, or the array.
    pub job: JobId,
    /// Only elements with these indices; empty: the job, or the whole array.
    pub indices: Vec<IndexRange>,
}

impl From<JobId> for JobSelection {
    fn from(job: JobId) -> Self {
        Self { job, indices: Vec::new() }
    }
}

impl fmt::Display for JobSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.indices[..] {
            [] => write!(f, "{}", self.job),
            [one] if one.start == one.end => write!(f, "{}_{}", self.job, one.start),
            many => write!(f, "{}_[{}]", self.job, array::ranges_text(many)),
        }
    }
}

impl FromStr for JobSelection {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        let bad =
            || Failure::invalid(format!("{text:?} does not name a job")).hint("write 12, 12_3 or 12_[1-5,7]");
        let (job, indices) = match text.split_once('_') {
            None => (text, Vec::new()),
            Some((job, indices)) => {
                let inner = indices.strip_prefix('[').map(|inner| inner.strip_suffix(']').ok_or_else(bad));
                (job, array::parse_ranges(inner.transpose()?.unwrap_or(indices))?)
            }
        };
        Ok(Self { job: job.parse().map(JobId).map_err(|_| bad())?, indices })
    }
}

impl Serialize for JobSelection {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobSelection {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(u64),
            Text(String),
        }
        match Form::deserialize(from)? {
            Form::Number(job) => Ok(JobId(job).into()),
            Form::Text(text) => text.parse().map_err(D::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_selections() {
        for text in ["12", "12_3", "12_[1-5,7]", "12_[1-9:2]"] {
            assert_eq!(text.parse::<JobSelection>().unwrap().to_string(), text);
            let json = serde_json::to_string(text).unwrap();
            assert_eq!(serde_json::from_str::<JobSelection>(&json).unwrap().to_string(), text);
        }
        assert_eq!(serde_json::from_str::<JobSelection>("12").unwrap(), JobId(12).into());
        assert_eq!("12_1-5".parse::<JobSelection>().unwrap().to_string(), "12_[1-5]");
        for bad in ["", "a", "12_", "12_[", "12_[1", "12_[]", "_1", "12_x", "-1"] {
            assert!(bad.parse::<JobSelection>().is_err(), "{bad:?}");
        }
    }
}
