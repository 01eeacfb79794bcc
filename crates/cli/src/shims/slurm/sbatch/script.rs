//! The script that `sbatch` is given: a file, standard input, or the words of `--wrap`.

use super::spec::Script;
use crate::shims::origin::read;
use std::path::{Path, PathBuf};

/// Finds the script; the refusal may have several lines.
pub(crate) fn found(wrap: Option<&str>, operands: &[String]) -> Result<Script, String> {
    if let Some(wrap) = wrap {
        if !operands.is_empty() {
            return Err("Script arguments not permitted with --wrap option".to_owned());
        }
        return Ok(Script { name: "wrap".to_owned(), text: wrapped(wrap), arguments: Vec::new() });
    }
    let Some((path, arguments)) = operands.split_first() else {
        let text = read(std::io::stdin().lock(), "standard input")?;
        return checked("sbatch", text, &[]);
    };
    let file = std::fs::File::open(located(path)).map_err(|_| format!("Unable to open file {path}"))?;
    let name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    checked(&name.unwrap_or_else(|| path.clone()), read(file, path)?, arguments)
}

/// The script that Slurm makes of `--wrap`.
fn wrapped(words: &str) -> String {
    format!("#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{words}\n")
}

/// A plain name is looked for where the command runs, then as a shell looks for programs.
fn located(path: &str) -> PathBuf {
    let here = PathBuf::from(path);
    if path.contains('/') || here.exists() {
        return here;
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).map(|place| place.join(path)).find(|file| file.is_file()).unwrap_or(here)
}

fn checked(name: &str, text: String, arguments: &[String]) -> Result<Script, String> {
    if text.is_empty() {
        return Err("Batch script is empty!".to_owned());
    }
    if !text.starts_with("#!") {
        return Err(
            "This does not look like a batch script.  The first\nline must start with #! followed by the \
                    path to an interpreter.\nFor instance: #!/bin/sh"
                .to_owned(),
        );
    }
    if text.contains('\0') {
        return Err(
            "The SLURM controller does not allow scripts that\ncontain a NULL character '\\0'.".to_owned()
        );
    }
    if text.lines().next().is_some_and(|line| line.ends_with('\r')) || text.contains("\r\n") {
        return Err(
            "Batch script contains DOS line breaks (\\r\\n)\ninstead of expected UNIX line breaks (\\n)."
                .to_owned(),
        );
    }
    Ok(Script { name: name.to_owned(), text, arguments: arguments.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_begins_with_its_interpreter() {
        let check = |text: &str| checked("a", text.to_owned(), &[]).map(|script| script.text);
        assert_eq!(check("#!/bin/sh\ntrue\n").unwrap(), "#!/bin/sh\ntrue\n");
        assert_eq!(check("").unwrap_err(), "Batch script is empty!");
        assert_eq!(check("echo hi\n").unwrap_err().lines().count(), 3);
        assert!(
            check("#!/bin/sh\r\ntrue\r\n").unwrap_err().starts_with("Batch script contains DOS line breaks")
        );
        assert!(check("#!/bin/sh\n\0").is_err());
    }

    #[test]
    fn words_become_a_script_without_arguments() {
        let script = found(Some("echo $1"), &[]).unwrap();
        assert_eq!((script.name.as_str(), script.text.lines().last()), ("wrap", Some("echo $1")));
        assert_eq!(
            found(Some("x"), &["y".to_owned()]).unwrap_err(),
            "Script arguments not permitted with --wrap option"
        );
        assert_eq!(
            found(None, &["/nonexistent".to_owned()]).unwrap_err(),
            "Unable to open file /nonexistent"
        );
    }
}
