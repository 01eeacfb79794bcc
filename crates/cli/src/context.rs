//! The context of every verb: the facility, the user, the output.

use crate::{args::Global, output::Output};
use base::{Failure, FilePath, Result};
use client::{Control, Facility, xrd};
use nix::sys::stat::{Mode, umask};
use wire::control::{Call, Done};

/// The reasons for which a verb ends early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Something went wrong.
    Failed(Failure),
    /// Standard output is closed.
    PipeClosed,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The result of a verb; the number is the exit code.
pub(crate) type Run<T = u8> = std::result::Result<T, Stop>;

/// The facility, the person, the output.
pub(crate) struct Context {
    place: Option<String>,
    user: String,
    facility: Option<Facility>,
    umask: Mode,
    pub(crate) output: Output,
}

impl Context {
    /// Files that are written from now on are for the user alone: they may hold secrets of a facility.
    pub(crate) fn new(global: &Global, output: Output) -> Self {
        let umask = umask(Mode::from_bits_truncate(0o077));
        Self {
            umask,
            place: global.facility.clone().filter(|place| !place.is_empty()),
            user: global.user.clone().filter(|user| !user.is_empty()).unwrap_or_else(unix_user),
            facility: None,
            output,
        }
    }

    /// Files that are written from now on are for whom the user's umask says: they are the user's own, or for everybody.
    pub(crate) fn restore_umask(&self) {
        umask(self.umask);
    }

    /// The facility, by its directory or an endpoint.
    pub(crate) fn place(&self) -> Result<&str> {
        self.place.as_deref().ok_or_else(|| {
            let variable = client::facility::ENVIRONMENT;
            Failure::invalid("no facility is given").hint(format!(
                "add --facility DIR or set {variable}; `bp up DIR --create` makes and starts one"
            ))
        })
    }

    /// The user to act as.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// The facility; looked for when it is first needed.
    pub(crate) fn facility(&mut self) -> Result<&Facility> {
        if self.facility.is_none() {
            self.say_unused_token()?;
            self.facility = Some(Facility::find(self.place()?, &self.user)?);
        }
        Ok(self.facility.as_ref().expect("it was found above"))
    }

    /// Looks for the facility again when it is needed next: it may have been started anew, with other ports.
    pub(crate) fn forget_facility(&mut self) {
        self.facility = None;
    }

    /// Warns of a token in the environment that is not sent. Who set it expects to be known by it.
    fn say_unused_token(&mut self) -> Result<()> {
        let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let Some(name) = ["BEARER_TOKEN", "BEARER_TOKEN_FILE"].into_iter().find(is_set) else {
            return Ok(());
        };
        let place = self.place()?;
        let why = if xrd::Token::discover().is_none() {
            "it cannot be read, or is empty".to_owned()
        } else if place.starts_with("http://") {
            format!("{place} is not encrypted; use the https:// endpoint")
        } else {
            return Ok(());
        };
        // That it cannot be written is no reason to stop.
        let _ = self.output.aside(&format!("warning: the token of {name} is not sent: {why}"));
        Ok(())
    }

    /// The management API.
    pub(crate) fn control(&mut self) -> Result<Control> {
        Ok(self.facility()?.control.clone())
    }

    /// Makes a call.
    pub(crate) fn call<C: Call>(&mut self, call: &C) -> Result<C::Reply> {
        self.facility()?.control.call(call)
    }

    /// Makes a call whose reply says nothing to people; with `--json` it is printed, so that programs have one.
    pub(crate) fn done<C: Call<Reply = Done>>(&mut self, call: &C) -> Run<()> {
        let reply = self.call(call)?;
        if self.output.is_json() { self.output.json(&reply) } else { Ok(()) }
    }

    /// Where the bytes of `path` are read and written.
    pub(crate) fn url(&mut self, path: &FilePath) -> Result<xrd::XrdUrl> {
        self.facility()?.url(path.clone())
    }

    /// How the data mover introduces itself.
    pub(crate) fn xrd_options(&self) -> xrd::Options {
        xrd::Options { username: self.user.clone(), ..xrd::Options::default() }
    }

    /// Does `one` for each item, goes on after failures, and returns the exit code of the first.
    pub(crate) fn each<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut one: impl FnMut(&mut Self, T) -> Run<()>,
    ) -> Run {
        let mut code = 0;
        for item in items {
            match one(self, item) {
                Ok(()) => {}
                Err(Stop::PipeClosed) => return Err(Stop::PipeClosed),
                Err(Stop::Failed(failure)) => {
                    self.output.failure(&failure);
                    code = if code == 0 { failure.kind.exit_code() } else { code };
                }
            }
        }
        Ok(code)
    }
}

/// The name of the user who runs this, as the user database has it: it is whom the daemon takes a local caller for.
fn unix_user() -> String {
    let uid = nix::unistd::Uid::current();
    let found = nix::unistd::User::from_uid(uid).ok().flatten();
    found.map_or_else(|| format!("uid{uid}"), |user| user.name)
}
