//! `bp stat`: describes files and directories.

use crate::words::counted;
use crate::{
    context::{Context, Run},
    path_arg::{self, PathArg},
    words::{away_host, exact_time, mode},
};
use base::{ErrorKind, units::human_bytes};
use serde::Serialize;
use wire::control::{Attribute, FileInfo, GetAttributes, LiveLayout, NodeKind, Stat};

/// Show metadata, replicas and tape copies of files and directories
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files or directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathArg>,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    let mut is_first = true;
    let paths = path_arg::paths(context, args.paths)?;
    context.each(paths, |context, path| {
        let info = context.call(&Stat { path: path.clone() })?;
        // Whoever may not read a file may see what it is, but not its attributes.
        let attributes = match context.call(&GetAttributes { path }) {
            Ok(reply) => reply.attributes,
            Err(failure) if failure.kind == ErrorKind::Permission => Vec::new(),
            Err(failure) => return Err(failure.into()),
        };
        if context.output.is_json() {
            return context.output.json(&Document { info: &info, attributes: &attributes });
        }
        if !std::mem::take(&mut is_first) {
            context.output.line("")?;
        }
        for (name, value) in lines(&info) {
            context.output.line(format!("{name:<10}{value}"))?;
        }
        for attribute in &attributes {
            context.output.line(format!(
                "{:<10}{} = {}",
                "attribute",
                attribute.name,
                value_text(attribute)
            ))?;
        }
        Ok(())
    })
}

/// What `--json` shows.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    info: &'a FileInfo,
    attributes: &'a [Attribute],
}

/// Longest value that is shown as it is.
const VALUE_CHARS_MAX: usize = 100;

/// The value if it is a short text, otherwise how long it is.
fn value_text(attribute: &Attribute) -> String {
    let bytes = attribute.value.as_bytes();
    match std::str::from_utf8(bytes) {
        Ok(text) if text.len() <= VALUE_CHARS_MAX && !text.contains(char::is_control) => text.to_owned(),
        _ => format!("({})", counted(bytes.len() as u64, "byte", "bytes")),
    }
}

fn lines(info: &FileInfo) -> Vec<(&'static str, String)> {
    let entry = &info.entry;
    let mut lines = vec![
        ("path", info.path.to_string()),
        ("id", entry.id.to_string()),
        ("mode", format!("{} ({:04o})", mode(entry), entry.mode)),
        ("owner", format!("{}:{}", entry.owner, entry.group)),
        ("modified", exact_time(entry.modified)),
    ];
    if !info.project.is_empty() {
        lines.push(("project", info.project.clone()));
    }
    if entry.kind == NodeKind::File {
        lines.push(("size", format!("{} ({})", entry.size, human_bytes(entry.size))));
    }
    if let Some(state) = entry.state {
        lines.push(("state", state.as_str().to_owned()));
    }
    if let Some(sums) = &entry.checksums {
        lines.push(("adler32", sums.adler32.to_string()));
        lines.push(("crc32c", sums.crc32c.to_string()));
    }
    if let Some(coding) = info.coding {
        lines
            .push(("coding", format!("{coding}: any {} of {} pieces give it", coding.data, coding.pieces())));
    }
    let pieces = info.pieces.iter();
    lines.extend(pieces.map(|piece| ("piece", format!("{}  {}", piece.index, piece.place))));
    lines.extend(info.replicas.iter().map(|replica| ("replica", replica.clone())));
    let copies = info.copies.iter();
    lines.extend(
        copies.map(|copy| ("copy", format!("volume {} file {} block {}", copy.vid, copy.fseq, copy.block))),
    );
    lines.extend(info.missing_copies.iter().map(|route| ("missing", format!("tape copy: {route}"))));
    lines.extend(info.layout.iter().map(|rule| ("layout", rule.to_string())));
    lines.extend(info.live.iter().flat_map(live_lines));
    lines.extend(info.away.iter().map(|away| ("away", away_host(away))));
    lines.extend(info.pins.iter().map(|pin| ("pin", pin.clone())));
    lines.extend(info.waits.iter().map(|waits| ("waits", waits.clone())));
    lines
}

/// Where the bytes lie of a file that is changed in place.
fn live_lines(live: &LiveLayout) -> Vec<(&'static str, String)> {
    let is_striped = live.columns.len() > 1;
    let unit = is_striped.then(|| {
        let (width, unit) = (live.columns.len(), human_bytes(live.unit));
        ("stripes", format!("{}, {unit} each in turn", counted(width as u64, "column", "columns")))
    });
    let columns = live.columns.iter().enumerate().flat_map(|(number, copies)| {
        let column = if is_striped { format!("column {number}  ") } else { String::new() };
        copies.iter().map(move |partition| ("live", format!("{column}{partition}")))
    });
    unit.into_iter().chain(columns).collect()
}
