//! Failures as HTTP answers: one table for the status; the management API answers with the failure itself as JSON, the
//! file paths with problem details (RFC 9457, before that RFC 7807).

use axum::{
    Json,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use base::{ErrorKind, Failure};
use serde::Serialize;
use wire::http::dav::{XML_TYPE, error_body};

/// What is offered on files and directories.
pub(super) const METHODS: &str = "OPTIONS, GET, HEAD, PUT, DELETE, PROPFIND, PROPPATCH, MKCOL, COPY, MOVE";

/// Media type of problem details.
const PROBLEM_TYPE: &str = "application/problem+json";

/// What a good token is told that does not allow what was asked (RFC 6750 §3.1).
pub(super) const INSUFFICIENT_SCOPE: &str = "Bearer error=\"insufficient_scope\"";

/// The status of a kind of failure.
pub(super) fn status_of(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Exists | ErrorKind::NotDirectory | ErrorKind::IsDirectory | ErrorKind::NotEmpty => {
            StatusCode::CONFLICT
        }
        ErrorKind::Permission => StatusCode::FORBIDDEN,
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::Busy | ErrorKind::Locked => StatusCode::LOCKED,
        ErrorKind::NoSpace | ErrorKind::OverQuota => StatusCode::INSUFFICIENT_STORAGE,
        ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
        ErrorKind::Timeout | ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Corrupt | ErrorKind::Io | ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The status of a kind of failure on a path, where the method decides what a conflict is.
pub(super) fn status_on_path(method: &Method, kind: ErrorKind) -> StatusCode {
    let makes = matches!(method.as_str(), "PUT" | "MKCOL");
    match kind {
        // RFC 4918 §9.3.1 and §9.7.1: what is missing is the directory that would hold the new entry.
        ErrorKind::NotFound | ErrorKind::NotDirectory if makes => StatusCode::CONFLICT,
        ErrorKind::NotDirectory => StatusCode::NOT_FOUND,
        ErrorKind::Exists | ErrorKind::IsDirectory if makes => StatusCode::METHOD_NOT_ALLOWED,
        kind => status_of(kind),
    }
}

/// A failure on its way out of the management API.
pub(super) struct Refused(pub(super) Failure);

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = status_of(self.0.kind);
        let mut response = (status, Json(self.0)).into_response();
        add_status_fields(status, response.headers_mut());
        response
    }
}

/// Fields that go with a status wherever it is answered.
fn add_status_fields(status: StatusCode, headers: &mut HeaderMap) {
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, HeaderValue::from_static(METHODS));
    }
}

/// Goes with an answer of several statuses, for the audit log: a part of the request was refused, and why.
#[derive(Debug, Clone)]
pub(super) struct PartialFailure(Failure);

impl PartialFailure {
    /// The answer to a request of which a part was refused.
    pub(super) fn refused(mut response: Response, failure: Failure) -> Response {
        response.extensions_mut().insert(Self(failure));
        response
    }

    /// Returns the failure of a request on a path.
    pub(super) fn failure_of(outcome: &Answer) -> Option<&Failure> {
        match outcome {
            Ok(response) => response.extensions().get::<Self>().map(|part| &part.0),
            Err(problem) => Some(problem.failure()),
        }
    }
}

/// A refused request on a path.
#[derive(Debug)]
pub(super) struct Problem {
    failure: Failure,
    /// None: what [`status_on_path`] says.
    status: Option<StatusCode>,
    /// A precondition of RFC 4918 §16, told in XML instead of JSON.
    condition: Option<&'static str>,
    /// One more field of the answer.
    field: Option<Box<(HeaderName, String)>>,
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self { failure, status: None, condition: None, field: None }
    }
}

/// The body, as RFC 9457 has it, and our own words for machines.
#[derive(Serialize)]
struct Details<'a> {
    #[serde(rename = "type")]
    type_: &'static str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    instance: &'a str,
    kind: ErrorKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

impl Problem {
    /// The failure.
    pub(super) fn failure(&self) -> &Failure {
        &self.failure
    }

    /// Answers with this status instead of the one of the failure's kind.
    pub(super) fn with_status(failure: Failure, status: StatusCode) -> Self {
        Self { status: Some(status), ..failure.into() }
    }

    /// A precondition field does not hold.
    pub(super) fn precondition(what: impl Into<String>) -> Self {
        Self::with_status(Failure::exists(what), StatusCode::PRECONDITION_FAILED)
    }

    /// A precondition of WebDAV does not hold.
    pub(super) fn condition(failure: Failure, status: StatusCode, condition: &'static str) -> Self {
        Self { condition: Some(condition), ..Self::with_status(failure, status) }
    }

    /// The same for somebody whose token lets them create but not modify: they sent no condition, they have no right.
    pub(super) fn of_creator(self) -> Self {
        if self.failure.kind != ErrorKind::Exists {
            return self;
        }
        let what = format!("the token may create, but not replace: {}", self.failure.what);
        let failure = Failure::permission(what).hint("use another name, or a token with storage.modify");
        Self::with_status(failure, StatusCode::FORBIDDEN)
            .field(header::WWW_AUTHENTICATE, INSUFFICIENT_SCOPE.to_owned())
    }

    /// Adds a field to the answer.
    pub(super) fn field(mut self, name: HeaderName, value: String) -> Self {
        self.field = Some(Box::new((name, value)));
        self
    }

    /// What kind of failure it is, for counting.
    pub(super) fn kind(&self) -> ErrorKind {
        self.failure.kind
    }

    /// The failure, with the status that it would be answered with.
    pub(super) fn into_failure(self, method: &Method) -> (StatusCode, Failure) {
        (self.status.unwrap_or_else(|| status_on_path(method, self.failure.kind)), self.failure)
    }

    /// The answer to `method` on `instance`.
    pub(super) fn into_response(self, method: &Method, instance: &str) -> Response {
        let (condition, field) = (self.condition, self.field.clone());
        let (status, failure) = self.into_failure(method);
        let mut response = match condition {
            Some(condition) => {
                (status, [(header::CONTENT_TYPE, XML_TYPE)], error_body(condition)).into_response()
            }
            None => {
                let details = Details {
                    type_: "about:blank",
                    title: status.canonical_reason().unwrap_or(""),
                    status: status.as_u16(),
                    detail: &failure.what,
                    instance,
                    kind: failure.kind,
                    hint: failure.hint.as_deref(),
                };
                (status, [(header::CONTENT_TYPE, PROBLEM_TYPE)], Json(details)).into_response()
            }
        };
        if condition.is_none() {
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
        }
        if let Some((name, value)) = field.map(|field| *field)
            && let Ok(value) = HeaderValue::from_str(&value)
        {
            response.headers_mut().insert(name, value);
        }
        add_status_fields(status, response.headers_mut());
        response
    }
}

/// How a request on a path ends.
pub(super) type Answer = std::result::Result<Response, Problem>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_method_decides_what_a_conflict_is() {
        let get = |kind| status_on_path(&Method::GET, kind).as_u16();
        let put = |kind| status_on_path(&Method::PUT, kind).as_u16();
        assert_eq!((get(ErrorKind::NotFound), put(ErrorKind::NotFound)), (404, 409));
        assert_eq!((get(ErrorKind::NotDirectory), put(ErrorKind::NotDirectory)), (404, 409));
        assert_eq!(put(ErrorKind::IsDirectory), 405);
        assert_eq!((get(ErrorKind::NoSpace), get(ErrorKind::Busy)), (507, 423));
    }

    #[test]
    fn problems_are_told_once() {
        let problem = Problem::from(Failure::not_found("/x does not exist").hint("look again"));
        let response = problem.into_response(&Method::GET, "/x");
        assert_eq!(response.status(), 404);
        assert_eq!(response.headers().get_all(header::CONTENT_TYPE).iter().count(), 1);
        assert_eq!(response.headers()[header::CONTENT_TYPE], PROBLEM_TYPE);
        let failure = Failure::permission("no");
        let finite = Problem::condition(failure, StatusCode::FORBIDDEN, "propfind-finite-depth");
        assert_eq!(finite.into_response(&Method::GET, "/").headers()[header::CONTENT_TYPE], XML_TYPE);
    }
}
