//! `mount.backplane`: what mount(8) runs for file systems of type `backplane`, and `mount -a` for lines of fstab(5).
//!
//! It reads the command line that mount(8) gives to every helper, and becomes `bp mount`.

use crate::output;
use base::{Failure, Result};
use std::{
    ffi::{OsStr, OsString},
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitCode},
};

/// The name by which mount(8) calls it.
const NAME: &str = "mount.backplane";
/// Options of fstab that are for others: for mount(8), for systemd, or what is so anyway.
const FOR_OTHERS: [&str; 20] = [
    "defaults",
    "rw",
    "auto",
    "noauto",
    "nofail",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "_netdev",
    "suid",
    "nosuid",
    "dev",
    "nodev",
    "exec",
    "async",
    "relatime",
    "noatime",
    "nodiratime",
];
/// Says in the manual of mount(8) that the command line was wrong.
const USAGE: u8 = 1;
/// And that mounting failed.
const FAILED: u8 = 32;

/// Whether `bp` was called as this helper.
pub(crate) fn is_called(argument: &OsStr) -> bool {
    Path::new(argument).file_name() == Some(OsStr::new(NAME))
}

/// Becomes `bp mount`.
pub(crate) fn main(arguments: Vec<OsString>) -> ExitCode {
    let words = match words(&arguments) {
        Ok(Some(words)) => words,
        Ok(None) => return ExitCode::SUCCESS,
        Err(failure) => return refuse(&failure, USAGE),
    };
    let cause = match std::env::current_exe() {
        // It only returns if it fails.
        Ok(program) => Command::new(program).arg0("bp").args(words).exec(),
        Err(cause) => cause,
    };
    refuse(&Failure::io("run bp", &cause), FAILED)
}

fn refuse(failure: &Failure, code: u8) -> ExitCode {
    let hint = failure.hint.as_ref().map_or_else(String::new, |hint| format!("{NAME}: hint: {hint}\n"));
    output::refusal(&base::shown_lines(&format!("{NAME}: {}\n{hint}", failure.what)));
    ExitCode::from(code)
}

/// The words of `bp` for `SPEC DIRECTORY [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]`; `None`: nothing is to be done.
fn words(arguments: &[OsString]) -> Result<Option<Vec<OsString>>> {
    let (mut places, mut options, mut is_fake, mut is_sloppy) = (Vec::new(), Vec::new(), false, false);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.to_str() {
            Some("-o") => {
                options.extend(rest.next().and_then(|text| text.to_str()).unwrap_or_default().split(','));
            }
            Some("-t") => drop(rest.next()),
            Some("-N") => return Err(Failure::invalid("another namespace of mounts is not supported (-N)")),
            Some(flags) if flags.len() > 1 && flags.starts_with('-') => {
                is_fake |= flags.contains('f');
                is_sloppy |= flags.contains('s');
            }
            _ => places.push(argument.clone()),
        }
    }
    let [spec, directory] = &places[..] else {
        return Err(Failure::invalid("a facility and a directory are needed")
            .hint("mount -t backplane FACILITY[:/PATH] DIRECTORY -o soft,allow_other"));
    };
    let spec = spec.to_str().ok_or_else(|| Failure::invalid("the facility is not named in UTF-8"))?;
    let (facility, path) = split(spec);
    let mut words: Vec<OsString> =
        ["--facility", facility, "mount", "--source", spec].map(OsString::from).into();
    for option in options.into_iter().filter(|option| !option.is_empty()) {
        let known = known(option);
        if known.is_none() && !is_sloppy {
            return Err(Failure::invalid(format!("there is no option {option}"))
                .hint("soft, hard, allow_other, no_recall, ro, noexec, log=FILE"));
        }
        words.extend(known.unwrap_or_default().into_iter().map(OsString::from));
    }
    words.extend([OsString::from("--"), path.into(), directory.clone()]);
    Ok((!is_fake).then_some(words))
}

/// The facility, and the directory of it: `/srv/backplane:/data`, `https://head.example.org:8443:/data`.
fn split(spec: &str) -> (&str, &str) {
    let is_end = |at: &usize| !spec[at + 2..].starts_with('/');
    match spec.rmatch_indices(":/").map(|(at, _)| at).find(is_end) {
        Some(at) => (&spec[..at], &spec[at + 1..]),
        None => (spec, "/"),
    }
}

/// What an option is for `bp mount`; empty: for others.
fn known(option: &str) -> Option<Vec<String>> {
    let flag = |flag: &str| Some(vec![flag.to_owned()]);
    match option.split_once('=').unwrap_or((option, "")) {
        ("soft", "") => flag("--soft"),
        ("hard", "") => Some(Vec::new()),
        ("allow_other", "") => flag("--allow-other"),
        ("no_recall", "") => flag("--no-recall"),
        ("ro", "") => flag("--read-only"),
        ("noexec", "") => flag("--no-exec"),
        ("log", file) if !file.is_empty() => Some(vec!["--log".to_owned(), file.to_owned()]),
        (name, _) if FOR_OTHERS.contains(&name) || name.starts_with("x-") || name == "comment" => {
            Some(Vec::new())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Result<Option<String>> {
        let arguments: Vec<_> = text.split_whitespace().map(OsString::from).collect();
        let words = words(&arguments)?;
        Ok(words.map(|words| words.join(OsStr::new(" ")).to_string_lossy().into_owned()))
    }

    #[test]
    fn a_line_of_fstab_becomes_a_mount() {
        let words = line(
            "/srv/bp:/data /mnt -o rw,noauto,_netdev,x-systemd.requires=bpd@main.service,soft,allow_other,log=/l",
        );
        let expected =
            "--facility /srv/bp mount --source /srv/bp:/data --soft --allow-other --log /l -- /data /mnt";
        assert_eq!(words.unwrap().unwrap(), expected);
        let words = line("/srv/bp /mnt -n -t backplane -o hard").unwrap().unwrap();
        assert_eq!(words, "--facility /srv/bp mount --source /srv/bp -- / /mnt");
        assert_eq!(line("/srv/bp /mnt -f").unwrap(), None);
    }

    #[test]
    fn a_facility_is_told_from_its_directory() {
        assert_eq!(
            split("https://head.example.org:8443:/data/x"),
            ("https://head.example.org:8443", "/data/x")
        );
        assert_eq!(split("https://head.example.org:8443"), ("https://head.example.org:8443", "/"));
        assert_eq!(split("/srv/bp:/"), ("/srv/bp", "/"));
    }

    #[test]
    fn what_is_not_known_is_refused_unless_told_otherwise() {
        assert!(line("/srv/bp /mnt -o sofd").unwrap_err().what.contains("sofd"));
        assert!(line("/srv/bp /mnt -s -o sofd").is_ok());
        assert!(line("/srv/bp").is_err() && line("/srv/bp /mnt -N 7").is_err());
    }
}
