//! Finding a facility: by its directory, by an endpoint, or by the environment.

use crate::{
    control::{Bearer, Control, ControlTls, connect, unreachable},
    xrd::{Token, XrdUrl},
};
use base::{ErrorKind, Failure, FilePath, Result};
use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};
use wire::control::{CreateToken, Endpoints, GetStatus};

/// Environment variable that names the facility's directory or its HTTP endpoint.
pub const ENVIRONMENT: &str = "BP_FACILITY";

/// A facility and how to reach it.
#[derive(Clone)]
pub struct Facility {
    /// Its endpoints.
    pub endpoints: Endpoints,
    /// Its management API.
    pub control: Control,
    /// The user to act as.
    pub user: String,
    /// How that user authenticates at `root://`.
    proof: AuthMethod,
}

impl Facility {
    /// Finds the facility that `place` names: a directory with `endpoints.json`, or `http://host:port`.
    pub fn find(place: &str, user: &str) -> Result<Self> {
        if place.starts_with("http://") || place.starts_with("https://") {
            return Self::at_endpoint(place, user);
        }
        if place.contains("://") {
            // What follows `?` may be a token.
            let shown = place.split('?').next().unwrap_or_default();
            return Err(Failure::invalid(format!("{shown} is not the address of a facility"))
                .hint("name the facility's directory or its http:// endpoint; `bp status` prints both"));
        }
        let directory = Path::new(place);
        let endpoints = read_endpoints(directory)?;
        if endpoints.http.starts_with("https://") {
            return Ok(Self::of_member(directory, endpoints, user));
        }
        Self::at_directory(directory, user)
    }

    /// The facility whose head's daemon serves `directory`.
    ///
    /// Neither this function nor its callers send anything to a port before the daemon has shown that it lives: once it
    /// has died, anybody may have its ports. The daemon clears `endpoints.json` before it opens its socket. So once the
    /// socket was reached, that file names the doors of this daemon.
    fn at_directory(directory: &Path, user: &str) -> Result<Self> {
        drop(connect(directory).map_err(|cause| unreachable(directory, &cause))?);
        let endpoints = read_endpoints(directory)?;
        let mut control = Control::at_socket(directory, user);
        if let Some(token) = Token::discover() {
            control = control.with_token_elsewhere(Bearer::new(token.secret()));
        }
        let proof = if endpoints.is_token_required {
            AuthMethod::ToBeMade(OnceLock::new())
        } else {
            AuthMethod::None
        };
        Ok(Self { endpoints, control, user: user.to_owned(), proof })
    }

    /// The facility that a host has joined whose daemon serves `directory`: its head is asked, by https.
    fn of_member(directory: &Path, endpoints: Endpoints, user: &str) -> Self {
        let authority = directory.join("tls/ca.pem");
        let authorities = authority.is_file().then_some(authority);
        let control =
            Control::new(&endpoints.http, user).with_tls(ControlTls { authorities, ..ControlTls::default() });
        Self { endpoints, control: with_discovered(control), user: user.to_owned(), proof: AuthMethod::None }
    }

    /// Where the bytes of a file are read and written. It may hold a token: never log its opaque part.
    pub fn url(&self, path: FilePath) -> Result<XrdUrl> {
        let mut url = self.endpoints.root.parse::<XrdUrl>()?.with_path(path);
        if let Some(token) = self.token()? {
            url.opaque = url.opaque.with("authz", format!("Bearer%20{token}"));
        }
        Ok(url)
    }

    /// The token for `root://`, if the facility is to be shown one that this user does not have: its daemon makes it.
    fn token(&self) -> Result<Option<&str>> {
        let AuthMethod::ToBeMade(made) = &self.proof else { return Ok(None) };
        if let Some(token) = made.get() {
            return Ok(Some(token));
        }
        let call = CreateToken { user: self.user.clone(), ..CreateToken::default() };
        match self.control.call(&call) {
            Ok(created) => Ok(Some(made.get_or_init(|| created.token))),
            // It is found once more where it is sent.
            Err(failure) if failure.kind == ErrorKind::Permission && Token::discover().is_some() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    fn at_endpoint(http: &str, user: &str) -> Result<Self> {
        // Not in plain text.
        let control = Control::new(http, user);
        let control = if http.starts_with("https:") { with_discovered(control) } else { control };
        let status = control.call(&GetStatus {})?;
        let endpoints = Endpoints {
            root: status.root,
            http: http.to_owned(),
            roots: None,
            https: None,
            is_token_required: false,
            pid: 0,
            facility: status.facility,
        };
        Ok(Self { endpoints, control, user: user.to_owned(), proof: AuthMethod::None })
    }
}

/// How a user authenticates at `root://`.
#[derive(Clone)]
enum AuthMethod {
    /// Not at all, or by what the user brings.
    None,
    /// By a token that is made when it is first needed.
    ToBeMade(OnceLock<String>),
}

/// Shows the token that this user has, if any.
fn with_discovered(control: Control) -> Control {
    let Some(token) = Token::discover() else { return control };
    let token = Bearer::new(token.secret());
    control.with_token_elsewhere(token.clone()).with_token(token)
}

/// The socket in a facility's directory at which its daemon knows by itself who calls.
pub const SOCKET: &str = "bp.sock";

/// The file in a facility's directory that says where it listens.
#[must_use]
pub fn endpoints_file(directory: &Path) -> PathBuf {
    directory.join("endpoints.json")
}

/// Reads where the facility in `directory` listens.
pub fn read_endpoints(directory: &Path) -> Result<Endpoints> {
    let file = endpoints_file(directory);
    let text = std::fs::read(&file).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::PermissionDenied => unreachable(directory, &cause),
        // Not the path that somebody asked for is missing, but who could answer.
        std::io::ErrorKind::NotFound => {
            Failure::unavailable(format!("no facility runs in {}", directory.display()))
                .hint(format!("`bp up {}` starts it", directory.display()))
        }
        _ => Failure::io(format!("read {}", file.display()), &cause)
            .hint(format!("is the facility running? `bp up {}` starts it", directory.display())),
    })?;
    serde_json::from_slice(&text)
        .map_err(|cause| Failure::corrupt(format!("{} is damaged: {cause}", file.display())))
}
