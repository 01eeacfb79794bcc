//! From where a job is submitted: directory, host, environment, the text of a script.

use super::host_name;
use base::{Failure, Result};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::Read,
    path::{Path, PathBuf},
};

/// Bytes of a script, as in Slurm.
const SCRIPT_BYTES_MAX: u64 = 4 << 20;
/// Variables that a job has of a login, even if it is given none.
const LOGIN: [&str; 6] = ["HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG"];
/// Variables of the job that submits are not those of the job that is submitted.
const OWN_PREFIXES: [&str; 3] = ["SLURM_", "BP_", "PBS_"];
/// Credentials live shorter than jobs wait; the worker gives the job its own.
const CREDENTIALS: [&str; 2] = ["BEARER_TOKEN", "BEARER_TOKEN_FILE"];

/// From where a job is submitted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) directory: String,
    pub(crate) host: String,
    pub(crate) environment: BTreeMap<String, String>,
}

impl Origin {
    /// Where this runs. Variables that are no text cannot be passed on.
    pub(crate) fn here() -> Result<Self> {
        let directory = std::env::current_dir()
            .map_err(|cause| Failure::io("find the working directory".to_owned(), &cause))?;
        let text = |part: OsString| part.into_string().ok();
        let environment = std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?)));
        Ok(Self {
            directory: directory.display().to_string(),
            host: host_name(),
            environment: environment.collect(),
        })
    }

    /// What of the environment may be passed on.
    pub(crate) fn passed(&self) -> BTreeMap<String, String> {
        let is_passed = |name: &str| {
            !OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) && !CREDENTIALS.contains(&name)
        };
        let theirs = self.environment.iter().filter(|(name, _)| is_passed(name));
        theirs.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// What a login has of it.
    pub(crate) fn login(&self) -> BTreeMap<String, String> {
        let mut found = self.passed();
        found.retain(|name, _| LOGIN.contains(&name.as_str()));
        found
    }
}

/// A path seen from a directory, without `.` before and behind.
pub(crate) fn absolute(path: &str, directory: &str) -> String {
    Path::new(directory).join(path).components().collect::<PathBuf>().display().to_string()
}

/// Reads a script.
pub(crate) fn read(from: impl Read, what: &str) -> std::result::Result<String, String> {
    let mut bytes = Vec::new();
    from.take(SCRIPT_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|cause| format!("Unable to read {what}: {cause}"))?;
    if bytes.len() as u64 > SCRIPT_BYTES_MAX {
        return Err(format!("The script has more than {SCRIPT_BYTES_MAX} bytes"));
    }
    String::from_utf8(bytes).map_err(|cause| {
        let valid = cause.utf8_error().valid_up_to();
        format!("The script is not text in UTF-8: byte {valid} is not")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_text_of_bounded_length() {
        assert!(read(&b"\xff"[..], "x").unwrap_err().contains("UTF-8"));
        assert!(read(std::io::repeat(b'a'), "x").unwrap_err().contains("more than"));
    }

    #[test]
    fn paths_are_seen_from_the_directory() {
        assert_eq!(absolute("out/./x", "/home/ada"), "/home/ada/out/x");
        assert_eq!(absolute("/dev/null", "/home/ada"), "/dev/null");
        assert_eq!(absolute(".", "/home/ada"), "/home/ada");
    }
}
