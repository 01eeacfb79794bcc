//! SCSI over iSCSI, in user space, through the library `libiscsi`.
//!
//! The library is loaded when the first device is opened, so that a host without it runs everything else. Each device has a session
//! of its own: drives do not wait for each other.

mod library;

use super::{
    command::Command,
    transport::{Data, Reply, Transport},
};
use base::{ErrorKind, Failure, Result};
use library::Session;
use std::time::Duration;

/// Longest that a login may take.
const LOGIN_DEADLINE: Duration = Duration::from_secs(30);

/// Where a device is, and as whom it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IscsiAddress {
    /// Host and port.
    pub portal: String,
    /// Name of the target.
    pub target: String,
    /// Number of the device behind the target.
    pub lun: u16,
    /// Name of this host.
    pub initiator: String,
    /// User and password, if the target demands them (CHAP).
    pub login: Option<Login>,
}

/// A user and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// User.
    pub user: String,
    /// Password.
    pub password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// A device behind an iSCSI target.
#[derive(Debug)]
pub struct IscsiTransport {
    address: IscsiAddress,
    /// Logged in with the next command if there is none.
    session: Option<Session>,
}

impl IscsiTransport {
    /// Logs in.
    pub fn open(address: IscsiAddress) -> Result<Self> {
        let mut transport = Self { address, session: None };
        transport.session()?;
        Ok(transport)
    }

    fn session(&mut self) -> Result<&mut Session> {
        let session = match self.session.take() {
            Some(session) => session,
            None => Session::login(&self.address, LOGIN_DEADLINE).map_err(|failure| {
                failure
                    .during(self.address())
                    .hint("`iscsi-ls -s iscsi://HOST:PORT` (Debian: libiscsi-bin) shows what the portal has")
            })?,
        };
        Ok(self.session.insert(session))
    }
}

impl Transport for IscsiTransport {
    fn address(&self) -> String {
        let IscsiAddress { portal, target, lun, .. } = &self.address;
        format!("iscsi://{portal}/{target}/{lun}")
    }

    fn execute(&mut self, command: &Command, data: Data<'_>, deadline: Duration) -> Result<Reply> {
        let lun = self.address.lun;
        let reply = self.session()?.execute(lun, command.bytes(), data, deadline);
        reply.map_err(|failure| {
            // What the device did is not known, and the session may be in the middle of something.
            self.session = None;
            let kind = if failure.kind == ErrorKind::Timeout { failure.kind } else { ErrorKind::Unavailable };
            Failure { kind, ..failure.during(format_args!("{}: {}", self.address(), command.name())) }
        })
    }
}
