//! Requests of the HTTP door in the audit log: what changes something, what is refused, and opens.

use super::{HttpDoor, Peer, guard::caller::Caller};
use crate::access::audit::AuditedPeer;
use axum::http::Method;
use base::{ErrorKind, Failure};
use serde_json::Value;
use wire::control::{Audience, Call, Effect};

/// Numbers of one call that a record names; each path has a record of its own.
const LIST_LEN_MAX: usize = 200;

/// An action for the audit log.
pub(super) struct AuditedAction<'a> {
    pub(super) peer: Option<Peer>,
    pub(super) user: &'a str,
    pub(super) verb: &'static str,
    pub(super) what: &'a str,
    pub(super) to: Option<&'a str>,
}

impl HttpDoor {
    /// Notes an action with its outcome.
    pub(super) fn note(&self, action: &AuditedAction<'_>, failure: Option<&Failure>) {
        self.audit.note(|| {
            let address = action.peer.and_then(|peer| peer.address).map(|address| address.ip());
            let visitor = AuditedPeer { door: "http", address, user: action.user };
            let mut record = visitor.record(self.authenticator.now(), action.verb, action.what);
            record.to = action.to.map(str::to_owned);
            record.with_outcome(failure)
        });
    }

    /// Notes a call of the management API.
    pub(super) fn note_call<C: Call>(&self, caller: &Caller, call: &C, outcome: Result<&C::Reply, &Failure>) {
        let is_chore = !matches!(C::AUDIENCE, Audience::People | Audience::Mounts | Audience::Hosts);
        let (is_look, failure) = (is_chore || C::EFFECT == Effect::Reads, outcome.err());
        if is_look && is_dull(failure) {
            return;
        }
        let call = serde_json::to_value(call).unwrap_or_default();
        let (peer, user) = (caller.peer, caller.name());
        let action = |what, to| AuditedAction { peer, user: &user, verb: C::NAME, what, to };
        let Some(paths) = paths_of(&call) else {
            let (what, to) = told(C::NAMED, &call);
            return self.note(&action(&what, to.as_deref()), failure);
        };
        // One path may be refused where another is not.
        let reply = outcome.ok().and_then(|reply| serde_json::to_value(reply).ok()).unwrap_or_default();
        for (index, path) in paths.into_iter().enumerate() {
            let own = reply.get("files").and_then(|files| files.get(index)?.get("failure"));
            let own: Option<Failure> = own.and_then(|own| serde_json::from_value(own.clone()).ok());
            self.note(&action(path, None), failure.or(own.as_ref()));
        }
    }

    /// Notes a request on a path.
    pub(super) fn note_path(&self, method: &Method, action: &AuditedAction<'_>, failure: Option<&Failure>) {
        if !is_look(method) || !is_dull(failure) {
            self.note(action, failure);
        }
    }
}

/// The paths of a call on many files.
fn paths_of(call: &Value) -> Option<Vec<&str>> {
    let list = |name: &str| call.get(name)?.as_array();
    if let Some(paths) = list("paths") {
        return Some(paths.iter().filter_map(Value::as_str).collect());
    }
    let files = list("files")?.iter().map(|file| file.get("path")?.as_str());
    files.collect()
}

/// Whether what only looks is not worth a line: it was answered, or clients asked whether something is there.
fn is_dull(failure: Option<&Failure>) -> bool {
    failure.is_none_or(|failure| failure.kind == ErrorKind::NotFound)
}

fn is_look(method: &Method) -> bool {
    matches!(method.as_str(), "HEAD" | "PROPFIND" | "OPTIONS")
}

/// What a method is called in the log.
pub(super) fn verb(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "read",
        "HEAD" => "stat",
        "PROPFIND" => "list",
        "PUT" => "write",
        "DELETE" => "remove",
        "MKCOL" => "mkdir",
        "MOVE" => "rename",
        "COPY" => "copy",
        "PROPPATCH" => "set attribute",
        _ => "request",
    }
}

/// What a call is about, and its other path.
fn told(named: &[&'static str], call: &Value) -> (String, Option<String>) {
    let value = |name: &str| call.get(name).or_else(|| call.get("spec")?.get(name));
    let known = named.iter().filter_map(|name| Some((*name, text(value(name)?)?)));
    let words = known.map(|(name, text)| match name {
        "path" | "from" | "subject" | "rights" => text,
        _ => format!("{name}={text}"),
    });
    let words: Vec<_> = words.collect();
    (words.join(" "), call.get("to").and_then(text))
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Object(thing) => text(thing.get("name")?),
        Value::Array(list) => {
            let mut words: Vec<_> = list.iter().take(LIST_LEN_MAX).filter_map(text).collect();
            if list.len() > LIST_LEN_MAX {
                words.push(format!("and {} more", list.len() - LIST_LEN_MAX));
            }
            Some(words.join(" "))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn calls_are_told_by_what_they_are_about() {
        const NAMED: [&str; 14] = [
            "path", "from", "subject", "rights", "mode", "vid", "state", "ids", "job", "kind", "name",
            "pool", "bytes", "files",
        ];
        for (call, what, to) in [
            (json!({"path": "/a", "mode": 493}), "/a mode=493", None),
            (json!({"from": "/a", "to": "/b", "is_new": false}), "/a", Some("/b")),
            (json!({"path": "/d", "subject": "user:ann", "rights": "rw"}), "/d user:ann rw", None),
            (json!({"vid": "BP0001", "state": "suspect"}), "vid=BP0001 state=suspect", None),
            (json!({"name": "disk2", "token": "secret", "key": "secret"}), "name=disk2", None),
            (json!({"spec": {"name": "fit", "environment": {"KEY": "secret"}}}), "name=fit", None),
            (json!({"pool": {"name": "main", "copies": 2}}), "pool=main", None),
            (
                json!({"kind": "user", "name": "ann", "bytes": 5, "files": null}),
                "kind=user name=ann bytes=5",
                None,
            ),
            (json!({"job": 7}), "job=7", None),
            (json!({}), "", None),
        ] {
            assert_eq!(told(&NAMED, &call), (what.to_owned(), to.map(str::to_owned)));
        }
        let many: Vec<_> = (0..204).collect();
        assert!(told(&NAMED, &json!({ "ids": many })).0.ends_with(" 199 and 4 more"));
    }

    #[test]
    fn changes_are_noted_and_looks_only_when_they_are_refused() {
        let (refused, missing) = (Failure::permission("no"), Failure::not_found("no"));
        assert!(is_dull(None) && is_dull(Some(&missing)) && !is_dull(Some(&refused)));
        for (method, look) in [(Method::GET, false), (Method::HEAD, true), (Method::PUT, false)] {
            assert_eq!(is_look(&method), look);
            assert_ne!(verb(&method), "request");
        }
    }
}
