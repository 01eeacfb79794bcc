//! Finding a facility: by its directory, by an endpoint, or by the environment.

use crate::control::Control;
use base::{Failure, Result};
use std::path::{Path, PathBuf};
use wire::control::{Endpoints, GetStatus};

/// Environment variable that names the facility's directory or its HTTP endpoint.
pub const ENVIRONMENT: &str = "BP_FACILITY";

/// A facility and how to reach it.
#[derive(Clone)]
pub struct Facility {
    /// Its endpoints.
    pub endpoints: Endpoints,
    /// Its management API.
    pub control: Control,
    /// On whose behalf.
    pub user: String,
}

impl Facility {
    /// Finds the facility that `place` names: a directory with `endpoints.json`, or `http://host:port`.
    pub fn find(place: &str, user: &str) -> Result<Self> {
        if place.starts_with("http://") || place.starts_with("https://") {
            return Self::at_endpoint(place, user);
        }
        if place.contains("://") {
            return Err(Failure::invalid(format!("{place} is not a management endpoint"))
                .hint("name the facility's directory or its http:// endpoint; `bp status` prints both"));
        }
        let endpoints = read_endpoints(Path::new(place))?;
        let control = Control::new(&endpoints.http, user);
        Ok(Self { endpoints, control, user: user.to_owned() })
    }

    fn at_endpoint(http: &str, user: &str) -> Result<Self> {
        let control = Control::new(http, user);
        let status = control.call(&GetStatus {})?;
        let endpoints = Endpoints {
            root: status.root,
            http: http.to_owned(),
            roots: None,
            https: None,
            pid: 0,
            facility: status.facility,
        };
        Ok(Self { endpoints, control, user: user.to_owned() })
    }
}

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
