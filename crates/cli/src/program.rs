//! Ships the program of a job: stores a local file in the facility and adds it to the inputs.

use crate::{
    context::{Context, Run},
    mover::CopyOptions,
    transfer, waiting,
};
use base::{Checksums, ErrorKind, Failure, FilePath, Result};
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    str::FromStr,
};
use wire::control::{JobInput, NodeKind, Stat};

/// Bytes read at once for the checksums.
const READ_BYTES: usize = 1 << 20;

/// `[LOCAL:]PATH`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// The file on this host; none if it is in the facility already.
    local: Option<PathBuf>,
    /// Where it is kept.
    path: FilePath,
}

impl FromStr for Program {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        // What begins with a slash may be the path of a file with colons in its name.
        let split = text.rfind(":/").filter(|at| *at > 0);
        let Some(at) = split else {
            if text.starts_with('/') && !text.ends_with('/') {
                return Ok(Self { local: None, path: text.parse()? });
            }
            return Err(Failure::invalid(format!("program {text:?} does not say where to store it"))
                .hint(format!("give a path in the facility: {text}:/programs/")));
        };
        let (local, target) = (PathBuf::from(&text[..at]), &text[at + 1..]);
        let mut path: FilePath = target.parse()?;
        if target.ends_with('/') {
            let name = local.file_name().and_then(|name| name.to_str());
            path = path.join(name.ok_or_else(|| {
                Failure::invalid(format!("{} has no file name to use in the facility", local.display()))
            })?)?;
        }
        Ok(Self { local: Some(local), path })
    }
}

impl Program {
    /// What the job has it as: an input under its own name.
    pub(crate) fn input(&self) -> JobInput {
        JobInput { name: self.path.name().to_owned(), path: self.path.clone() }
    }

    /// Puts it where it is kept, unless it is there. Another file of that path is not replaced: jobs that wait may name it.
    pub(crate) fn keep(&self, context: &mut Context) -> Run<()> {
        let Some(local) = &self.local else { return Ok(()) };
        match context.call(&Stat { path: self.path.clone() }) {
            Ok(info) if info.entry.kind == NodeKind::Directory => {
                Err(Failure::new(ErrorKind::IsDirectory, format!("{} is a directory", self.path))
                    .hint(format!(
                        "end it with a slash to store the program in it: --program {}:{}/",
                        local.display(),
                        self.path
                    ))
                    .into())
            }
            Ok(info) if info.entry.checksums == Some(sums(local)?) => Ok(()),
            Ok(_) => {
                Err(Failure::exists(format!("{} exists and differs from {}", self.path, local.display()))
                    .hint("waiting jobs may need it: use another path, or replace it with `bp put --replace`")
                    .into())
            }
            Err(failure) if failure.kind == ErrorKind::NotFound => {
                let copy_options =
                    CopyOptions { replace: false, make_path: true, resume: false, verify: true };
                waiting::silently(context, |context| {
                    transfer::upload(context, local, &self.path, copy_options)
                })
            }
            Err(failure) => Err(failure.into()),
        }
    }
}

fn sums(local: &Path) -> Result<Checksums> {
    let failed = |cause: std::io::Error| Failure::io(format!("read {}", local.display()), &cause);
    let mut file = File::open(local).map_err(failed)?;
    let (mut sums, mut buffer) = (Checksums::of(&[]), vec![0; READ_BYTES]);
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => return Ok(sums),
            len => sums = sums.extend(&buffer[..len]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<(Option<String>, String)> {
        let program: Program = text.parse()?;
        Ok((program.local.map(|local| local.display().to_string()), program.path.to_string()))
    }

    #[test]
    fn a_program_is_local_or_in_the_facility() {
        let local = |local: &str, path: &str| Ok((Some(local.to_owned()), path.to_owned()));
        assert_eq!(parsed("./fit.py:/programs/fit1.py"), local("./fit.py", "/programs/fit1.py"));
        assert_eq!(parsed("../fit.py:/programs/"), local("../fit.py", "/programs/fit.py"));
        assert_eq!(parsed("/home/ann/fit:/programs/fit"), local("/home/ann/fit", "/programs/fit"));
        assert_eq!(parsed("/programs/fit"), Ok((None, "/programs/fit".to_owned())));
        for text in ["fit.py", "./fit.py:programs", "", ":/programs/fit", "/", "/programs/"] {
            assert!(parsed(text).is_err(), "{text:?}");
        }
    }
}
