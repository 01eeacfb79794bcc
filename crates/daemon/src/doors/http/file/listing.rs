//! `GET` of a directory: a page for browsers, one name a line for everybody else, page by page from the catalogue.

use crate::doors::{
    console,
    http::{answer::Answer, paths::PathRequest},
};
use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Redirect},
};
use base::{Failure, FilePath, Result};
use futures_util::{Stream, stream};
use head::Principal;
use std::sync::Arc;
use wire::control::{Entry, List, NodeKind};

/// The query by which a browser gets the listing of the root instead of the console.
const FILES_QUERY: &str = "files";

/// The entries of a directory, a page at a time, so that a large one is never held as a whole.
pub(in crate::doors::http) struct Pages {
    door: Arc<crate::doors::http::HttpDoor>,
    who: Principal,
    path: FilePath,
    after: Option<String>,
}

impl Pages {
    pub(in crate::doors::http) fn new(request: &PathRequest, path: &FilePath) -> Self {
        Self {
            door: Arc::clone(&request.door),
            who: request.who.clone(),
            path: path.clone(),
            after: Some(String::new()),
        }
    }

    /// The next entries in name order; none at the end.
    pub(in crate::doors::http) async fn next(&mut self) -> Result<Option<Vec<Entry>>> {
        let Some(after) = self.after.take() else { return Ok(None) };
        let list = List { path: self.path.clone(), after };
        let page = self.door.files.head()?.call(&self.who, list).await?;
        if page.is_partial {
            self.after = page.entries.last().map(|last| last.name.clone());
        }
        Ok(Some(page.entries))
    }
}

/// Entries written at once: a few hundred KiB of XML.
const ENTRIES_PER_PIECE: usize = 512;

/// Text made of a directory: what comes first, what is made of each page of entries, what comes last.
///
/// The first page is fetched before anything is sent, so that a refusal is still a refusal.
pub(in crate::doors::http) async fn paged(
    mut pages: Pages,
    head: String,
    tail: String,
    write: impl FnMut(&[Entry]) -> String + Send + 'static,
) -> Result<Body> {
    let mut write = write;
    let first = pages.next().await?.unwrap_or_default();
    if pages.after.is_none() && first.len() <= ENTRIES_PER_PIECE {
        // It can say how long it is.
        return Ok(Body::from(head + &write(&first) + &tail));
    }
    Ok(Body::from_stream(texts(pages, first, head, tail, write)))
}

enum Turn {
    Page(Vec<Entry>),
    Next,
    Over,
}

fn texts(
    pages: Pages,
    first: Vec<Entry>,
    head: String,
    tail: String,
    write: impl FnMut(&[Entry]) -> String + Send + 'static,
) -> impl Stream<Item = Result<Bytes, Failure>> + Send {
    let state = (pages, Turn::Page(first), head, tail, write);
    stream::unfold(state, |(mut pages, turn, mut text, tail, mut write)| async move {
        let turn = match turn {
            Turn::Over => return None,
            Turn::Page(mut entries) => {
                let rest = entries.split_off(entries.len().min(ENTRIES_PER_PIECE));
                text.push_str(&write(&entries));
                if rest.is_empty() { Turn::Next } else { Turn::Page(rest) }
            }
            Turn::Next => match pages.next().await {
                Ok(Some(entries)) => Turn::Page(entries),
                Ok(None) => {
                    text.push_str(&tail);
                    Turn::Over
                }
                // The receiver sees that the end is missing.
                Err(failure) => return Some((Err(failure), (pages, Turn::Over, text, tail, write))),
            },
        };
        Some((Ok(Bytes::from(std::mem::take(&mut text))), (pages, turn, text, tail, write)))
    })
}

/// `GET` and `HEAD` of a directory; what is sent of it to whom asks for the head alone, the library drops.
pub(in crate::doors::http) async fn listing(request: &PathRequest) -> Answer {
    let accepted = request.field("accept").unwrap_or_default();
    // Browsers name what they show; programs that follow links take anything, or say nothing.
    let is_browser = accepted.contains("text/html");
    let is_page = is_browser || !accepted.contains("text/plain");
    if is_browser && request.path.is_root() && request.query.as_deref() != Some(FILES_QUERY) {
        return Ok(Redirect::temporary("/console").into_response());
    }
    let media = if is_page { "text/html; charset=utf-8" } else { "text/plain; charset=utf-8" };
    let pages = Pages::new(request, &request.path);
    let body = if is_page {
        let (head, tail) = console::listing::frame(&request.path, is_browser);
        let path = request.path.clone();
        paged(pages, head, tail, move |entries| console::listing::rows(&path, entries).into_string()).await?
    } else {
        paged(pages, String::new(), String::new(), lines).await?
    };
    let mut response = (StatusCode::OK, [(header::CONTENT_TYPE, media)], body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    if is_page {
        let policy = HeaderValue::from_static(console::listing::CONTENT_SECURITY_POLICY);
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    Ok(response)
}

fn lines(entries: &[Entry]) -> String {
    let mut text = String::new();
    for entry in entries {
        text.push_str(&entry.name);
        text.push_str(if entry.kind == NodeKind::Directory { "/\n" } else { "\n" });
    }
    text
}
