//! Finding a facility: by its directory, by an endpoint, or by the environment.

use crate::{
    control::{Control, FacilityKey},
    xrd::{Token, XrdUrl},
};
use base::{Failure, FilePath, Millis, Result, Timestamp};
use std::path::{Path, PathBuf};
use wire::{
    control::{Endpoints, GetStatus},
    token::{Claims, TokenKey},
};

/// Environment variable that names the facility's directory or its HTTP endpoint.
pub const ENVIRONMENT: &str = "BP_FACILITY";

/// How long a token holds that one command makes for itself: recalls take hours.
const TOKEN_LIFETIME: Millis = Millis::from_seconds(24 * 3600);

/// A facility and how to reach it.
#[derive(Clone)]
pub struct Facility {
    /// Its endpoints.
    pub endpoints: Endpoints,
    /// Its management API.
    pub control: Control,
    /// On whose behalf.
    pub user: String,
    /// What proves it, where the facility wants to see it.
    token: Option<String>,
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
            return Err(Failure::invalid(format!("{shown} is not a management endpoint"))
                .hint("name the facility's directory or its http:// endpoint; `bp status` prints both"));
        }
        let endpoints = read_endpoints(Path::new(place))?;
        let mut control = Control::new(&endpoints.http, user);
        if let Some(token) = Token::discover() {
            control = control.with_pass(FacilityKey::new(token.secret()));
        }
        let mut token = None;
        if endpoints.is_token_required
            && let Some(key) = read_key(Path::new(place))
        {
            control = control.with_key(FacilityKey::new(hex(&key)));
            token = Some(sign_token(&key, &endpoints.facility, user));
        }
        Ok(Self { endpoints, control, user: user.to_owned(), token })
    }

    /// Where the bytes of a file are read and written. It may hold a token: never log its opaque part.
    pub fn url(&self, path: FilePath) -> Result<XrdUrl> {
        let mut url = self.endpoints.root.parse::<XrdUrl>()?.with_path(path);
        if let Some(token) = &self.token {
            url.opaque = url.opaque.with("authz", format!("Bearer%20{token}"));
        }
        Ok(url)
    }

    fn at_endpoint(http: &str, user: &str) -> Result<Self> {
        let control = Control::new(http, user);
        // Not in plain text.
        let control = match Token::discover().filter(|_| http.starts_with("https:")) {
            Some(token) => {
                let key = FacilityKey::new(token.secret());
                control.with_pass(key.clone()).with_key(key)
            }
            None => control,
        };
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
        Ok(Self { endpoints, control, user: user.to_owned(), token: None })
    }
}

/// The key of the facility, for whoever may read it: its owner.
fn read_key(directory: &Path) -> Option<[u8; 32]> {
    std::fs::read(directory.join("key")).ok()?.try_into().ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A token for one command.
fn sign_token(key: &[u8; 32], facility: &str, user: &str) -> String {
    let now = Timestamp::from_system(std::time::SystemTime::now());
    TokenKey::derive(key).sign(&Claims {
        issuer: facility.to_owned(),
        subject: user.to_owned(),
        audience: vec![facility.to_owned()],
        id: String::new(),
        issued: now,
        starts: now,
        expires: now + TOKEN_LIFETIME,
        scopes: None,
        groups: Vec::new(),
        is_of_job: false,
        host: None,
    })
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
    let text = std::fs::read(&file).map_err(|cause| {
        Failure::io(format!("read {}", file.display()), &cause)
            .hint(format!("is the facility running? `bp up {}` starts it", directory.display()))
    })?;
    serde_json::from_slice(&text)
        .map_err(|cause| Failure::corrupt(format!("{} is damaged: {cause}", file.display())))
}
