//! The trailer `X-Transfer-Status`, which tells how a transfer ended: a status that was sent before the first byte
//! cannot say that a disk failed in the middle.

use crate::doors::http::paths::PathRequest;
use axum::{
    body::{Body, Bytes, HttpBody},
    http::{HeaderMap, HeaderName, HeaderValue},
};
use futures_util::Stream;
use hyper::body::Frame;
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// The field by which a client asks, and that in the trailer. XRootD has defined it, and its HTTP client reads it.
pub(in crate::doors::http) const TRANSFER_STATUS_TEXT: &str = "x-transfer-status";
const TRANSFER_STATUS: HeaderName = HeaderName::from_static(TRANSFER_STATUS_TEXT);
/// Bytes of a reason that are told.
const REASON_BYTES_MAX: usize = 512;

/// Whether a client wants to be told, and reads trailers.
pub(in crate::doors::http) fn is_wanted(request: &PathRequest) -> bool {
    let is = |name, word: &str| {
        let mut words = request.field(name).unwrap_or_default().split(',').map(str::trim);
        words.any(|one| one.eq_ignore_ascii_case(word))
    };
    is("te", "trailers") && is(TRANSFER_STATUS_TEXT, "true")
}

/// A body that ends with how it ended, also when it ends early.
pub(in crate::doors::http) fn told(
    segments: impl Stream<Item = Result<Bytes, io::Error>> + Send + 'static,
) -> Body {
    Body::new(TrailerBody { segments: Some(Box::pin(segments)) })
}

type Segments = Pin<Box<dyn Stream<Item = Result<Bytes, io::Error>> + Send>>;

struct TrailerBody {
    /// None: it has been told.
    segments: Option<Segments>,
}

impl HttpBody for TrailerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Some(segments) = &mut self.segments else { return Poll::Ready(None) };
        let status = match ready!(segments.as_mut().poll_next(context)) {
            Some(Ok(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Some(Err(cause)) => status(&format!("500: {cause}")),
            None => HeaderValue::from_static("200: OK"),
        };
        self.segments = None;
        Poll::Ready(Some(Ok(Frame::trailers(HeaderMap::from_iter([(TRANSFER_STATUS, status)])))))
    }
}

/// A reason as it can stand in a field.
fn status(text: &str) -> HeaderValue {
    let text: String = text.chars().map(|one| if matches!(one, ' '..='~') { one } else { '?' }).collect();
    let text = &text[..text.len().min(REASON_BYTES_MAX)];
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static("500: failed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    async fn frames(pieces: Vec<Result<Bytes, io::Error>>) -> (Vec<u8>, String) {
        let mut body = told(stream::iter(pieces));
        let (mut bytes, mut told) = (Vec::new(), String::new());
        while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
        {
            match frame.unwrap().into_data() {
                Ok(data) => bytes.extend(data),
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap();
                    trailers[TRANSFER_STATUS].to_str().unwrap().clone_into(&mut told);
                }
            }
        }
        (bytes, told)
    }

    #[tokio::test]
    async fn a_body_tells_how_it_ended() {
        let piece = || Ok(Bytes::from_static(b"bytes"));
        assert_eq!(frames(vec![piece(), piece()]).await, (b"bytesbytes".to_vec(), "200: OK".to_owned()));
        assert_eq!(frames(vec![]).await, (Vec::new(), "200: OK".to_owned()));
        let cut = vec![piece(), Err(io::Error::other("disk d\n\u{e9}")), piece()];
        assert_eq!(frames(cut).await, (b"bytes".to_vec(), "500: disk d??".to_owned()));
    }
}
