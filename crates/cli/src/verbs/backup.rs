//! `bp backup`: saves the catalogue of a running facility.

use crate::context::{Context, Run};
use base::{Failure, Result, units::human_bytes};
use serde::Serialize;
use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};
use wire::backup::{Decoder, Frame};

/// Save the catalogue of a running facility to a file
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The facility keeps running. `bpd restore DIR FILE` restores the catalogue from the file. The \
        backup does not contain\nthe files key and id and the directory tls of the facility: save them separately."
)]
pub(crate) struct Args {
    /// Replace the file if it exists
    #[arg(long)]
    replace: bool,
    /// Where to write it
    file: PathBuf,
}

/// What was written.
#[derive(Debug, Default, Serialize)]
struct Written {
    facility: String,
    rows: u64,
    bytes: u64,
}

pub(crate) fn run(args: Args, context: &mut Context) -> Run {
    if args.file.exists() && !args.replace {
        let what = format!("{} exists", args.file.display());
        return Err(Failure::exists(what).hint("add --replace, or name another file").into());
    }
    let mut part = args.file.clone().into_os_string();
    part.push(".part");
    let part = PathBuf::from(part);
    let control = context.control()?;
    let written = fetch(&control, &part).inspect_err(|_| drop(fs::remove_file(&part)))?;
    settle(&part, &args.file)?;
    if context.output.is_json() {
        context.output.json(&written)?;
    } else {
        let (rows, bytes) = (written.rows, human_bytes(written.bytes));
        context.output.news(format!("{}: {rows} rows, {bytes}", args.file.display()))?;
    }
    Ok(0)
}

fn fetch(control: &client::Control, part: &Path) -> Result<Written> {
    let failed = |cause: std::io::Error| Failure::io(format!("write {}", part.display()), &cause);
    let _ = fs::remove_file(part);
    // It names all users and all files.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(part).map_err(failed)?;
    let (mut decoder, mut written) = (Decoder::default(), Written::default());
    control.fetch_backup(|piece| {
        decoder.push(piece);
        while let Some(frame) = decoder.next_frame()? {
            match frame {
                Frame::Begin(begin) => written.facility = begin.facility,
                Frame::End(end) => written.rows = end.tables.values().map(|content| content.rows).sum(),
                Frame::Table(_) | Frame::Rows(_) => {}
            }
        }
        written.bytes += piece.len() as u64;
        file.write_all(piece).map_err(failed)
    })?;
    decoder.finish()?;
    file.sync_all().map_err(failed)?;
    Ok(written)
}

fn settle(part: &Path, file: &Path) -> Result<()> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::rename(part, file)
        .and_then(|()| File::open(parent)?.sync_all())
        .map_err(|cause| Failure::io(format!("name {}", file.display()), &cause))
}
