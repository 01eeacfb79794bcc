//! A connection that refuses malformed requests: the framer replaces them by bytes that the HTTP library rejects.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::http::Framing;

/// Is no part of any request, wherever it stands in a head: the library answers 400, and ends the connection.
const NONSENSE: &[u8] = b"\0\r\n\r\n";

/// A socket beside whose bytes [`Framing`] reads.
pub(in crate::doors::http) struct Framed<S> {
    socket: S,
    framing: Framing,
    /// What is still to be said instead of a malformed request, and of all that follows it.
    instead: Option<&'static [u8]>,
}

impl<S> Framed<S> {
    pub(in crate::doors::http) fn new(socket: S) -> Self {
        Self { socket, framing: Framing::default(), instead: None }
    }

    /// Says nonsense, as far as it fits; nothing is the end of the connection.
    fn say_nonsense(&mut self, buffer: &mut ReadBuf<'_>) {
        let left = self.instead.unwrap_or(NONSENSE);
        let (now, later) = left.split_at(left.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.instead = Some(later);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Framed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.instead.is_some() {
            self.say_nonsense(buffer);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(context, buffer))?;
        if let Some(at) = self.framing.read(&buffer.filled()[before..]) {
            buffer.set_filled(before + at);
            self.say_nonsense(buffer);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Framed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn nothing_of_a_malformed_request_is_taken() {
        let request = b"GET /a HTTP/1.1\r\n\r\nDELETE /d/#f HTTP/1.1\r\nHost: h\r\n\r\nmore";
        let mut taken = Vec::new();
        Framed::new(&request[..]).read_to_end(&mut taken).await.unwrap();
        assert_eq!(taken, b"GET /a HTTP/1.1\r\n\r\nDELETE /d/#f HTTP/1.1\r\0\r\n\r\n");
        // The answer fits into however little room there is.
        let (mut framed, mut taken) = (Framed::new(&request[..]), Vec::new());
        while let Ok(byte) = framed.read_u8().await {
            taken.push(byte);
        }
        assert!(taken.ends_with(b"#f HTTP/1.1\r\0\r\n\r\n"));
    }
}
