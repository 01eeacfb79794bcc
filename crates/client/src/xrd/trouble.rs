//! Why a request was not done: the server refused it, or the connection is gone.

use base::Failure;

/// The reasons for which a request failed.
#[derive(Debug, Clone)]
pub(super) enum RequestError {
    /// The connection is gone; asking again on another one can help.
    Broken(Failure),
    /// The server said no, or the request makes no sense.
    Refused(Failure),
}

impl RequestError {
    /// Puts the operation in front.
    pub(super) fn during(self, context: impl std::fmt::Display) -> Self {
        match self {
            Self::Broken(failure) => Self::Broken(failure.during(context)),
            Self::Refused(failure) => Self::Refused(failure.during(context)),
        }
    }

    pub(super) fn is_broken(&self) -> bool {
        matches!(self, Self::Broken(_))
    }
}

impl From<RequestError> for Failure {
    fn from(trouble: RequestError) -> Self {
        match trouble {
            RequestError::Broken(failure) | RequestError::Refused(failure) => failure,
        }
    }
}

impl From<Failure> for RequestError {
    fn from(failure: Failure) -> Self {
        Self::Refused(failure)
    }
}

impl From<wire::xrd::Malformed> for RequestError {
    fn from(malformed: wire::xrd::Malformed) -> Self {
        Self::Refused(malformed.into())
    }
}
