//! `bp tree`: shows a directory with all that is below it.

use crate::{
    context::{Context, Run},
    output::Tone,
    walk,
    words::counted,
};
use base::{FilePath, units::human_bytes};
use wire::control::NodeKind;

/// Show a directory as a tree
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A directory
    #[arg(default_value = "/", value_name = "PATH")]
    path: FilePath,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    // Whether the directory on the way at each depth was the last of its own.
    let mut lasts: Vec<bool> = Vec::new();
    let (mut files, mut directories, mut bytes) = (0, 0, 0u64);
    let code = walk::walk(context, &args.path, &mut |context, met| {
        lasts.truncate(met.depth);
        let mut line = String::new();
        if met.depth > 0 {
            lasts[1..].iter().for_each(|last| line.push_str(if *last { "    " } else { "│   " }));
            line.push_str(if met.is_last { "└── " } else { "├── " });
        }
        lasts.push(met.is_last);
        let is_directory = met.entry.kind == NodeKind::Directory;
        if is_directory {
            directories += u64::from(met.depth > 0);
        } else {
            files += 1;
            bytes = bytes.saturating_add(met.entry.size);
        }
        if context.output.is_json() {
            return context.output.json(&met.path);
        }
        let name = if met.depth == 0 { met.path.as_str() } else { &met.entry.name };
        line.push_str(name);
        match met.entry.state {
            Some(state) => line.push_str(&format!("  {}, {}", human_bytes(met.entry.size), state.as_str())),
            None if is_directory && met.depth > 0 => line.push('/'),
            None => {}
        }
        context.output.line(line)
    })?;
    if !context.output.is_json() {
        let text = format!(
            "{}, {}, {}",
            counted(directories, "directory", "directories"),
            counted(files, "file", "files"),
            human_bytes(bytes)
        );
        context.output.toned(Tone::Faint, &text)?;
    }
    Ok(code)
}
