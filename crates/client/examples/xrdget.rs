//! Downloads to nowhere, or uploads zeros: what the client itself costs.
//!
//! `xrdget [--sum] [--pages] [--streams N] [--chunk BYTES] [--window BYTES] URL...`, or `--put BYTES URL`.

use base::{Checksums, Failure, Result};
use client::xrd::{CreateOptions, File, Options, XrdUrl};
use std::{io::Write as _, time::Instant};

fn main() -> Result<()> {
    let mut options = Options::default();
    let (mut put, mut with_sum, mut urls) = (None, false, Vec::new());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|word| word.parse::<usize>().ok()).ok_or_else(usage);
        match word.as_str() {
            "--sum" => with_sum = true,
            "--pages" => options.page_checksums = true,
            "--streams" => options.streams = number()? as u16,
            "--chunk" => options.chunk_bytes = number()?,
            "--window" => options.window_bytes = number()?,
            "--put" => put = Some(number()?),
            _ => urls.push(word.parse::<XrdUrl>()?),
        }
    }
    if urls.is_empty() {
        return Err(usage());
    }
    for url in urls {
        let began = Instant::now();
        let (bytes, sums) = match put {
            Some(bytes) => (upload(&url, &options, bytes)?, None),
            None => download(&url, &options, with_sum)?,
        };
        let seconds = began.elapsed().as_secs_f64();
        let sums = sums.map(|sums| format!("{} {}", sums.adler32, sums.crc32c)).unwrap_or_default();
        let line = format!(
            "{url}: {bytes} bytes in {seconds:.3} s, {:.3} GB/s {sums}",
            bytes as f64 / seconds / 1e9
        );
        // Nobody may look.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    Ok(())
}

fn usage() -> Failure {
    Failure::invalid(
        "xrdget [--sum] [--pages] [--streams N] [--chunk BYTES] [--window BYTES] [--put BYTES] URL...",
    )
}

fn download(url: &XrdUrl, options: &Options, with_sum: bool) -> Result<(u64, Option<Checksums>)> {
    let file = File::open_read(url, options)?;
    let (mut bytes, mut sums) = (0, Checksums::EMPTY);
    file.copy_to(&mut |piece| {
        bytes += piece.len() as u64;
        if with_sum {
            sums = sums.extend(piece);
        }
        Ok(())
    })?;
    file.close()?;
    Ok((bytes, with_sum.then_some(sums)))
}

fn upload(url: &XrdUrl, options: &Options, bytes: usize) -> Result<u64> {
    let create = CreateOptions { replace: true, size: Some(bytes as u64), ..CreateOptions::default() };
    let file = File::create(url, options, create)?;
    let piece = vec![7; options.chunk_bytes];
    let mut writer = file.writer();
    let mut left = bytes;
    while left > 0 {
        let count = left.min(piece.len());
        writer.push(&piece[..count])?;
        left -= count;
    }
    let written = writer.finish()?;
    file.close()?;
    Ok(written)
}
