//! Which rights of a token a request on a path needs.

use crate::doors::http::Peer;
use axum::http::{HeaderMap, Method};
use base::{FilePath, Result};
use wire::{
    auth::token::Right,
    http::dav::{Depth, parse_depth, parse_place},
};

/// What a request needs: rights on paths, and paths that it changes: to be allowed to create there is enough if nothing
/// is replaced.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::doors::http) struct Needs {
    pub(in crate::doors::http) rights: Vec<(Right, FilePath)>,
    pub(in crate::doors::http) changed: Vec<FilePath>,
}

/// What a request on a path needs.
pub(in crate::doors::http) fn needs(
    method: &Method,
    headers: &HeaderMap,
    (path, is_slashed): (FilePath, bool),
    peer: Option<Peer>,
) -> Result<Needs> {
    let field = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let one = |right| Needs { rights: vec![(right, path.clone())], changed: Vec::new() };
    // The path at the other end of a copy or a move, if that end is this door's, too.
    let here = |place: &str| {
        let place = parse_place(place)?;
        let is_tls = peer.is_some_and(|peer| peer.is_tls);
        let is_here = place.is_at(field("host").unwrap_or(""), is_tls);
        is_here.then(|| place.path()).transpose()
    };
    Ok(match method.as_str() {
        "OPTIONS" => Needs { rights: Vec::new(), changed: Vec::new() },
        "HEAD" => one(Right::Look),
        "PROPFIND" if parse_depth(field("depth"))? == Depth::Zero => one(Right::Look),
        "PROPFIND" => one(Right::List),
        "GET" if is_slashed => one(Right::List),
        "GET" => one(Right::Read),
        "MKCOL" => one(Right::MakeDirectory),
        "PUT" => Needs { rights: Vec::new(), changed: vec![path] },
        // A source at this very door is read by us: no other server sees a token for it.
        "COPY" if headers.contains_key("source") => {
            let from = here(field("source").unwrap_or_default())?;
            let rights = from.map(|from| (Right::Read, from)).into_iter().collect();
            Needs { rights, changed: vec![path] }
        }
        "MOVE" | "COPY" => {
            let to = here(field("destination").unwrap_or("/"))?;
            if method.as_str() == "COPY" {
                Needs { changed: to.into_iter().collect(), ..one(Right::Read) }
            } else {
                Needs { rights: Vec::new(), changed: [path].into_iter().chain(to).collect() }
            }
        }
        // DELETE, PROPPATCH, and what is not known: the strictest.
        _ => one(Right::Modify),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn path(text: &str) -> FilePath {
        text.parse().unwrap()
    }

    fn needed(method: &str, fields: &[(&'static str, &'static str)]) -> Needs {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        needs(&method.parse().unwrap(), &headers, (path("/a"), false), None).unwrap()
    }

    #[test]
    fn every_method_needs_its_right() {
        for (method, right) in [
            ("GET", Right::Read),
            ("HEAD", Right::Look),
            ("PROPFIND", Right::List),
            ("MKCOL", Right::MakeDirectory),
            ("DELETE", Right::Modify),
            ("PROPPATCH", Right::Modify),
            ("LOCK", Right::Modify),
        ] {
            assert_eq!(needed(method, &[]).rights, [(right, path("/a"))], "{method}");
        }
        assert_eq!(needed("PROPFIND", &[("depth", "0")]).rights, [(Right::Look, path("/a"))]);
        assert_eq!(needed("PUT", &[]).changed, [path("/a")]);
        let listed = needs(&Method::GET, &HeaderMap::new(), (path("/a"), true), None).unwrap();
        assert_eq!(listed.rights, [(Right::List, path("/a"))]);
    }

    #[test]
    fn copies_need_rights_at_both_ends_that_are_here() {
        let here = [("host", "h:1"), ("destination", "http://h:1/b")];
        let there = [("host", "h:1"), ("destination", "https://other/b")];
        assert_eq!(needed("MOVE", &here).changed, [path("/a"), path("/b")]);
        let copy = needed("COPY", &here);
        assert_eq!((copy.rights, copy.changed), (vec![(Right::Read, path("/a"))], vec![path("/b")]));
        let push = needed("COPY", &there);
        assert_eq!((push.rights, push.changed), (vec![(Right::Read, path("/a"))], vec![]));
        let pull = needed("COPY", &[("host", "h:1"), ("source", "https://other/b")]);
        assert_eq!((pull.rights, pull.changed), (vec![], vec![path("/a")]));
        for source in ["http://h:1/b?x=1", "dav://H:1/%62", "https://h:1/b", "/b"] {
            let fetch = needed("COPY", &[("host", "h:1"), ("source", source), ("destination", "/c")]);
            assert_eq!(
                (fetch.rights, fetch.changed),
                (vec![(Right::Read, path("/b"))], vec![path("/a")]),
                "{source}"
            );
        }
    }
}
