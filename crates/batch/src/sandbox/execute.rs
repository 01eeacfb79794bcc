//! Becomes the program of a job, or says why not, as a shell does.
//!
//! The library's own `exec` hands whatever the kernel does not take to `/bin/sh`: an empty file is a success then, and a program for
//! another processor a syntax error. Shells look first. So do we: only text is a script.

use base::{ErrorKind, Failure, Result};
use nix::{
    errno::Errno,
    sys::signal::{SigHandler, Signal, signal},
    unistd::execve,
};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    ffi::CString,
    fs::{self, File},
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// How long a program may be busy because a process that the room was just starting has a copy of the open file.
const BUSY_PATIENCE: Duration = Duration::from_secs(10);
const BUSY_PAUSE: Duration = Duration::from_millis(10);
/// Where programs are looked for if the job has no `PATH`.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";
/// What runs scripts that do not say it.
const SHELL: &str = "/bin/sh";
/// Bytes of a file that tell what it is: the kernel looks at 256 for the name of an interpreter.
const HEAD_BYTES: u64 = 4096;

/// Becomes `command`; returns only if that is not possible.
///
/// A program that is not there is [`ErrorKind::NotFound`], which shells call 127; every other failure is their 126.
pub(super) fn execute(command: &[String], environment: &BTreeMap<String, String>) -> Result<Infallible> {
    let (program, _) = command.split_first().ok_or_else(|| Failure::invalid("the job has no command"))?;
    let path = environment.get("PATH").map_or(PATH_DEFAULT, String::as_str);
    let words = command.iter().map(|word| word_of(word)).collect::<Result<Vec<_>>>()?;
    let variables = environment.iter().map(|(name, value)| word_of(&format!("{name}={value}")));
    let variables = variables.collect::<Result<Vec<_>>>()?;
    default_broken_pipe();
    let mut refused = None;
    for candidate in candidates(program, path) {
        let file = word_of_path(&candidate)?;
        match with_retries(|| execve(&file, &words, &variables)) {
            Errno::ENOEXEC if is_script(&candidate) => {
                let mut words = words.clone();
                words.splice(0..1, [word_of(SHELL)?, file]);
                let cause = with_retries(|| execve(&words[0].clone(), &words, &variables));
                return Err(Failure::io(format!("run {SHELL} for the script {program:?}"), &cause.into()));
            }
            Errno::ENOENT | Errno::ENOTDIR if fs::symlink_metadata(&candidate).is_err() => {}
            // As in a shell: one that may be executed may come later.
            cause @ Errno::EACCES if refused.is_none() => refused = Some(explain(program, &candidate, cause)),
            Errno::EACCES => {}
            cause => return Err(explain(program, &candidate, cause)),
        }
    }
    Err(refused.unwrap_or_else(|| {
        Failure::not_found(format!("run {program:?}: the worker does not have this program")).hint(
            "install it there, or make it an input and run `./NAME`; a job does not see the host's /tmp",
        )
    }))
}

fn word_of(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Failure::invalid(format!("{text:?} has a NUL character")))
}

fn word_of_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Failure::invalid(format!("{} has a NUL character", path.display())))
}

/// The runtime of this program ignores broken pipes; whoever writes to one in a job is to end, as everywhere else.
#[expect(unsafe_code, reason = "no library changes what a signal does in a safe way")]
fn default_broken_pipe() {
    // SAFETY: the default is no handler that could run any code of ours.
    let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
}

/// Tries again while somebody has the file open for writing; returns why not.
fn with_retries(run: impl Fn() -> nix::Result<Infallible>) -> Errno {
    let since = Instant::now();
    loop {
        let Err(cause) = run();
        if cause != Errno::ETXTBSY || since.elapsed() > BUSY_PATIENCE {
            return cause;
        }
        thread::sleep(BUSY_PAUSE);
    }
}

/// Files that `program` may mean, in order: itself if it has a slash, else that name in each directory of `path`.
fn candidates(program: &str, path: &str) -> Vec<PathBuf> {
    if program.contains('/') {
        return vec![PathBuf::from(program)];
    }
    path.split(':')
        .map(|directory| Path::new(if directory.is_empty() { "." } else { directory }).join(program))
        .collect()
}

/// The first bytes of a file; nothing if it cannot be read.
fn head(file: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut bytes));
    if read.is_err() {
        bytes.clear();
    }
    bytes
}

/// Whether a shell would read it: there is something in it, and its first line is text.
fn is_script(file: &Path) -> bool {
    let head = head(file);
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    !head.is_empty() && !line.contains(&0)
}

/// Why the kernel does not execute a file that is there.
fn explain(program: &str, file: &Path, cause: Errno) -> Failure {
    let head = head(file);
    let is_directory = fs::metadata(file).is_ok_and(|about| about.is_dir());
    let refuse = |kind, why: String| Failure::new(kind, format!("run {program:?}: {why}"));
    match cause {
        Errno::EACCES | Errno::EISDIR if is_directory => {
            refuse(ErrorKind::IsDirectory, "it is a directory".to_owned())
        }
        Errno::EACCES => refuse(ErrorKind::Permission, "the job's user may not execute it".to_owned())
            .hint("`chmod +x` allows it, if its file system is not mounted noexec"),
        Errno::ENOENT | Errno::ENOTDIR => match interpreter(&head) {
            Some(name) => refuse(ErrorKind::Io, format!("its interpreter {name:?} is not on the worker")),
            None => refuse(ErrorKind::Io, "the loader that it names is not on the worker".to_owned())
                .hint("it was linked for another system; link it statically, or on a host like the worker"),
        },
        Errno::ENOEXEC if head.is_empty() => refuse(ErrorKind::Invalid, "it is empty".to_owned()),
        Errno::ENOEXEC => match machine(&head) {
            Some(machine) => refuse(
                ErrorKind::Unsupported,
                format!(
                    "it is a program for {machine}, or damaged; the worker is {}",
                    std::env::consts::ARCH
                ),
            ),
            None => refuse(ErrorKind::Unsupported, "it is neither a program nor a script".to_owned()),
        },
        cause => Failure::io(format!("run {program:?}"), &io::Error::from(cause)),
    }
}

/// What the first line of a script names.
fn interpreter(head: &[u8]) -> Option<String> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let name = line.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// What an ELF file is for (elf(5)): byte 5 tells the order of bytes, 18 and 19 the machine.
fn machine(head: &[u8]) -> Option<String> {
    let bytes: [u8; 2] = head.strip_prefix(b"\x7fELF").and_then(|_| head.get(18..20))?.try_into().ok()?;
    let number = if head[5] == 2 { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) };
    Some(match number {
        3 => "i386".to_owned(),
        21 => "PowerPC64".to_owned(),
        22 => "s390x".to_owned(),
        40 => "Arm".to_owned(),
        62 => "x86-64".to_owned(),
        183 => "AArch64".to_owned(),
        243 => "RISC-V".to_owned(),
        other => format!("machine {other} (of ELF)"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_a_script_and_nothing_else_is() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("f");
        let is = |content: &[u8]| {
            fs::write(&file, content).unwrap();
            is_script(&file)
        };
        assert!(is(b"echo hello") && is(b"\n\0") && is("ü\n".as_bytes()));
        assert!(!is(b"") && !is(b"\x7fELF\x02\x01\x01\0") && !is(b"MZ\x90\0\n"));
        assert!(!is_script(home.path()) && !is_script(&home.path().join("none")));
    }

    #[test]
    fn programs_are_found_as_shells_find_them() {
        let all = |program: &str, path: &str| -> Vec<String> {
            candidates(program, path).iter().map(|file| file.display().to_string()).collect()
        };
        assert_eq!(all("ls", "/a:/b"), ["/a/ls", "/b/ls"]);
        assert_eq!(all("ls", ""), ["./ls"]);
        assert_eq!(all("./ls", "/a:/b"), ["./ls"]);
    }

    #[test]
    fn a_file_says_what_it_is_for() {
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(18, 0);
        elf.extend([183, 0]);
        assert_eq!(machine(&elf).as_deref(), Some("AArch64"));
        elf[5] = 2;
        elf.splice(18.., [0, 22]);
        assert_eq!(machine(&elf).as_deref(), Some("s390x"));
        assert_eq!(machine(&elf[..19]), None);
        assert_eq!(interpreter(b"#! /no/such -x\n").as_deref(), Some("/no/such"));
        assert_eq!(interpreter(b"echo"), None);
    }

    proptest! {
        #[test]
        fn no_head_of_a_file_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), is_elf: bool) {
            let start: &[u8] = if is_elf { b"\x7fELF" } else { b"#!" };
            let head = [start, &bytes].concat();
            let _ = (machine(&head), interpreter(&head));
        }
    }
}
