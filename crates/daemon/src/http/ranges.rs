//! Bodies made of byte ranges of a file.

use crate::files::{ReadFile, blocking};
use axum::body::{Body, Bytes};
use base::{ByteRange, Result, limits::XRD_READ_SEGMENT_BYTES};
use futures_util::{Stream, stream};
use std::{collections::VecDeque, sync::Arc};

/// One piece of a body.
pub(super) enum Piece {
    /// These bytes.
    Text(String),
    /// This part of the file.
    Range(ByteRange),
}

/// A body that reads the file as it is sent, one segment at a time.
pub(super) fn body(file: ReadFile, pieces: Vec<Piece>) -> Body {
    Body::from_stream(segments(Arc::new(file), pieces.into()))
}

fn segments(
    file: Arc<ReadFile>,
    pieces: VecDeque<Piece>,
) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
    stream::unfold((file, pieces), |(file, mut pieces)| async move {
        let bytes = match pieces.pop_front()? {
            Piece::Text(text) => Ok(Bytes::from(text)),
            Piece::Range(range) => {
                let end = range.end.min(range.offset + XRD_READ_SEGMENT_BYTES as u64);
                if end < range.end {
                    pieces.push_front(Piece::Range(ByteRange { offset: end, end: range.end }));
                }
                read(&file, ByteRange { offset: range.offset, end }).await
            }
        };
        let is_failed = bytes.is_err();
        // A failed body is cut off: the client sees that bytes are missing.
        let rest = if is_failed { VecDeque::new() } else { pieces };
        Some((bytes.map_err(std::io::Error::other), (file, rest)))
    })
}

async fn read(file: &Arc<ReadFile>, range: ByteRange) -> Result<Bytes> {
    let file = Arc::clone(file);
    blocking(move || {
        let mut buffer = vec![0; range.length() as usize];
        let count = file.read_at(range.offset, &mut buffer)?;
        if count < buffer.len() {
            return Err(base::Failure::corrupt(format!(
                "object {} is shorter than promised",
                file.grant.object
            )));
        }
        Ok(Bytes::from(buffer))
    })
    .await
}
