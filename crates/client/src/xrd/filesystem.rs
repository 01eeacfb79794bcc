//! Names: stat, list, make, remove, rename.

use super::{
    Connection, Options, XrdUrl,
    connection::{Reply, follow},
};
use base::{ErrorKind, Failure, FilePath, Result};
use wire::xrd::{
    Chmod, Dirlist, DirlistOptions, FileHandle, ListEntry, Locate, Location, Mkdir, Mv, Opaque, OpenFlags,
    Prepare, PrepareOptions, Query, QueryCode, Request, Stat, StatInfo, Subject, Target, Truncate,
    parse_listing,
};

/// The names of one server. Connects when it is first needed and again after a connection broke.
#[derive(Debug)]
pub struct FileSystem {
    url: XrdUrl,
    options: Options,
    connection: Option<Connection>,
}

impl FileSystem {
    /// The names of the server of `url`; opaque parts of `url` go with every request.
    #[must_use]
    pub fn new(url: &XrdUrl, options: &Options) -> Self {
        Self { url: url.clone(), options: options.clone(), connection: None }
    }

    /// Attributes of a path.
    pub fn stat(&mut self, path: &FilePath) -> Result<StatInfo> {
        let body = self.call(path, &|target| {
            Request::Stat(Stat { subject: Subject::Path(target), is_filesystem: false })
        })?;
        Ok(StatInfo::parse(&text(body))?)
    }

    /// Names of a directory with their attributes.
    pub fn list(&mut self, path: &FilePath) -> Result<Vec<ListEntry>> {
        let body =
            self.call(path, &|target| Request::Dirlist(Dirlist { options: DirlistOptions::STAT, target }))?;
        Ok(parse_listing(&body)?)
    }

    /// Makes a directory; with `make_path` its parents too, and then an existing one is no failure.
    pub fn mkdir(&mut self, path: &FilePath, mode: u16, make_path: bool) -> Result<()> {
        self.call(path, &|target| Request::Mkdir(Mkdir { make_path, mode, target }))?;
        Ok(())
    }

    /// Removes a file.
    pub fn remove(&mut self, path: &FilePath) -> Result<()> {
        self.call(path, &Request::Rm)?;
        Ok(())
    }

    /// Removes an empty directory.
    pub fn rmdir(&mut self, path: &FilePath) -> Result<()> {
        let outcome = self.call(path, &Request::Rmdir);
        // The protocol has one code for "exists" and "not empty".
        outcome.map(|_| ()).map_err(|failure| match failure.kind {
            ErrorKind::Exists => Failure { kind: ErrorKind::NotEmpty, ..failure },
            _ => failure,
        })
    }

    /// Renames.
    pub fn rename(&mut self, from: &FilePath, to: &FilePath) -> Result<()> {
        self.call(from, &|from| Request::Mv(Mv { from, to: Target::new(to.as_str()) }))?;
        Ok(())
    }

    /// Sets the size of a file.
    pub fn truncate(&mut self, path: &FilePath, size: u64) -> Result<()> {
        self.call(path, &|target| Request::Truncate(Truncate { subject: Subject::Path(target), size }))?;
        Ok(())
    }

    /// Changes permission bits.
    pub fn chmod(&mut self, path: &FilePath, mode: u16) -> Result<()> {
        self.call(path, &|target| Request::Chmod(Chmod { mode, target }))?;
        Ok(())
    }

    /// Checksum of a file: its type and value in hex. Without `kind` the server chooses.
    pub fn checksum(&mut self, path: &FilePath, kind: Option<&str>) -> Result<(String, String)> {
        let body = self.call(path, &|mut target| {
            if let Some(kind) = kind {
                target.opaque = target.opaque.with("cks.type", kind);
            }
            query(QueryCode::Checksum, target.to_text())
        })?;
        let answer = text(body);
        let (kind, value) = answer.split_once(' ').ok_or_else(|| {
            Failure::unavailable(format!("checksum of {path}: answer {answer:?} is not understood"))
        })?;
        Ok((kind.to_owned(), value.trim().to_owned()))
    }

    /// Where a file is.
    pub fn locate(&mut self, path: &FilePath) -> Result<Vec<Location>> {
        let body = self.call(path, &|target| Request::Locate(Locate { options: OpenFlags::NONE, target }))?;
        Ok(Location::parse_all(&body)?)
    }

    /// Asks that files be brought online; returns the request id.
    pub fn stage(&mut self, paths: &[FilePath], priority: u8) -> Result<String> {
        let Some(first) = paths.first() else {
            return Err(Failure::invalid("nothing to stage"));
        };
        let lines: Vec<_> = paths.iter().map(|path| path.as_str().to_owned()).collect();
        let body = self.call(first, &|_| {
            let (options, lines) = (PrepareOptions::STAGE, lines.clone());
            Request::Prepare(Prepare { options, is_evict: false, priority, port: 0, lines })
        })?;
        Ok(text(body))
    }

    /// Answer to `query config` for one key.
    pub fn config(&mut self, key: &str) -> Result<String> {
        let body = self.call(&FilePath::root(), &|_| query(QueryCode::Config, key.to_owned()))?;
        Ok(text(body).trim_end().to_owned())
    }

    fn call(&mut self, path: &FilePath, request: &dyn Fn(Target) -> Request) -> Result<Vec<u8>> {
        let make =
            |opaque: &Opaque| request(Target { path: path.as_str().to_owned(), opaque: opaque.clone() });
        let first = make(&self.url.opaque);
        match self.connection()?.call(&first)? {
            Reply::Done(body) => Ok(body),
            Reply::Elsewhere(redirect) => Ok(follow(&self.url, &self.options, redirect, &make)?.1),
        }
    }

    /// The connection as it is, or a new one.
    fn connection(&mut self) -> Result<&mut Connection> {
        let usable = self.connection.take().filter(|connection| !connection.is_broken());
        let connection = match usable {
            Some(connection) => connection,
            None => Connection::connect(&self.url, &self.options)?,
        };
        Ok(self.connection.insert(connection))
    }
}

fn query(code: QueryCode, args: String) -> Request {
    Request::Query(Query { code, handle: FileHandle::default(), args: args.into_bytes() })
}

/// The text of an answer, without its NUL.
fn text(body: Vec<u8>) -> String {
    String::from_utf8_lossy(&body).trim_end_matches('\0').to_owned()
}
