//! `--help`, `--usage` and `--version` of the commands, and the refusals of their command lines and of other clusters.

use super::{VERSION, check_cluster};
use crate::{
    context::Run,
    shims::{
        Shim,
        getopt::{Order, Parsed, parse},
    },
};

/// What a command line asks for.
pub(crate) enum Asked {
    /// To do something.
    Do(Parsed),
    /// Nothing more: it was answered, and this is the exit code.
    Answered(u8),
}

/// Reads a command line; answers what every command answers. `code` is the exit code of a refusal.
pub(crate) fn read(
    shim: &mut Shim,
    usage: &str,
    table: &'static str,
    order: Order,
    arguments: Vec<String>,
    code: u8,
) -> Run<Asked> {
    let parsed = match parse(table, order, arguments) {
        Ok(parsed) => parsed,
        Err(refusal) => {
            shim.say(&refusal);
            let program = shim.program;
            shim.plain_error(&format!("Try \"{program} --help\" for more information"));
            return Ok(Asked::Answered(code));
        }
    };
    if parsed.has("version") {
        shim.line(VERSION)?;
        return Ok(Asked::Answered(0));
    }
    if parsed.has("help") || parsed.has("usage") {
        let text = help(shim.program, usage, table);
        shim.text(&text)?;
        return Ok(Asked::Answered(0));
    }
    if let Err(refusal) = check_cluster(parsed.last("clusters").or(parsed.last("cluster"))) {
        shim.error(&refusal);
        return Ok(Asked::Answered(1));
    }
    Ok(Asked::Do(parsed))
}

/// What the command is, and the options it knows.
fn help(program: &str, usage: &str, table: &str) -> String {
    let mut text = format!(
        "Usage: {program} {usage}\n\nThis is Backplane {}: it takes the options of Slurm's {program} and acts on the facility \
         that BP_FACILITY names.\nIt is not Slurm; docs/shims.md says what differs.\n\nOptions that it knows:\n",
        env!("CARGO_PKG_VERSION")
    );
    for word in table.split_whitespace() {
        let (name, value) = match word.as_bytes().last() {
            Some(b'=') => (&word[..word.len() - 1], "=value"),
            Some(b'?') => (&word[..word.len() - 1], "[=value]"),
            _ => (word, ""),
        };
        match name.split_once('/') {
            Some((short, "")) => text.push_str(&format!("  -{short}{value}\n")),
            Some((short, long)) => text.push_str(&format!("  -{short}, --{long}{value}\n")),
            None => text.push_str(&format!("      --{name}{value}\n")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_says_what_it_is() {
        let text = help("sbatch", "[options] script", "H/hold nice? wrap= q/");
        assert!(text.contains("It is not Slurm"));
        assert!(text.ends_with("  -H, --hold\n      --nice[=value]\n      --wrap=value\n  -q\n"), "{text}");
    }
}
