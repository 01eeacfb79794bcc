//! Calls on names, for both faces.

use super::{
    Options, XrdUrl,
    connections::Purpose,
    mux::Wait,
    route::{RetryRule, ServerReply, route},
    trouble::RequestError,
    url::check_path,
};
use base::{ErrorKind, Failure, FilePath, Result};
use wire::xrd::{
    Chmod, Dirlist, DirlistOptions, ErrorCode, Fattr, FattrAction, FileHandle, ListEntry, Locate, Location,
    Mkdir, Mv, Opaque, OpenFlags, Prepare, PrepareOptions, Query, QueryCode, Request, SpaceInfo, Stat,
    StatInfo, Subject, Target, Truncate, parse_listing,
};

/// The names of one server.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) url: XrdUrl,
    pub(super) options: Options,
}

/// What a call does, and to what: for the failure.
struct Call<'a> {
    operation: &'static str,
    path: &'a FilePath,
    again: RetryRule,
}

impl<'a> Call<'a> {
    /// A call that changes nothing, or the same thing as often as it is made.
    fn harmless(operation: &'static str, path: &'a FilePath) -> Self {
        Self { operation, path, again: RetryRule::Harmless }
    }

    fn once(operation: &'static str, path: &'a FilePath) -> Self {
        Self { operation, path, again: RetryRule::Never }
    }
}

impl Names {
    pub(super) async fn stat(&self, path: &FilePath, wait: Wait) -> Result<StatInfo> {
        let make = |target| Request::Stat(Stat { subject: Subject::Path(target), is_filesystem: false });
        let body = self.call(Call::harmless("stat", path), &make, wait).await?;
        Ok(StatInfo::parse(&text(&body))?)
    }

    pub(super) async fn list(&self, path: &FilePath, wait: Wait) -> Result<Vec<ListEntry>> {
        let make = |target| Request::Dirlist(Dirlist { options: DirlistOptions::STAT, target });
        let body = self.call(Call::harmless("list", path), &make, wait).await?;
        Ok(parse_listing(&body)?)
    }

    pub(super) async fn mkdir(&self, path: &FilePath, mode: u16, make_path: bool, wait: Wait) -> Result<()> {
        let call = if make_path { Call::harmless("mkdir", path) } else { Call::once("mkdir", path) };
        let make = |target| Request::Mkdir(Mkdir { make_path, mode, target });
        self.call(call, &make, wait).await.map(drop)
    }

    pub(super) async fn remove(&self, path: &FilePath, wait: Wait) -> Result<()> {
        self.call(Call::once("remove", path), &Request::Rm, wait).await.map(drop)
    }

    pub(super) async fn rmdir(&self, path: &FilePath, wait: Wait) -> Result<()> {
        let outcome = self.call(Call::once("remove directory", path), &Request::Rmdir, wait).await;
        // The protocol has one code for "exists" and "not empty".
        outcome.map(drop).map_err(|failure| match failure.kind {
            ErrorKind::Exists => Failure { kind: ErrorKind::NotEmpty, ..failure },
            _ => failure,
        })
    }

    pub(super) async fn rename(&self, from: &FilePath, to: &FilePath, wait: Wait) -> Result<()> {
        check_path(to).map_err(|failure| failure.during(format!("rename {from}")))?;
        let make = |from| Request::Mv(Mv { from, to: Target::new(to.as_str()) });
        self.call(Call::once("rename", from), &make, wait).await.map(drop)
    }

    pub(super) async fn truncate(&self, path: &FilePath, size: u64, wait: Wait) -> Result<()> {
        let make = |target| Request::Truncate(Truncate { subject: Subject::Path(target), size });
        self.call(Call::harmless("truncate", path), &make, wait).await.map(drop)
    }

    pub(super) async fn chmod(&self, path: &FilePath, mode: u16, wait: Wait) -> Result<()> {
        let make = |target| Request::Chmod(Chmod { mode, target });
        self.call(Call::harmless("chmod", path), &make, wait).await.map(drop)
    }

    pub(super) async fn checksum(
        &self,
        path: &FilePath,
        kind: Option<&str>,
        wait: Wait,
    ) -> Result<(String, String)> {
        let make = |mut target: Target| {
            if let Some(kind) = kind {
                target.opaque = target.opaque.with("cks.type", kind);
            }
            query(QueryCode::Checksum, target.to_text())
        };
        let answer = text(&self.call(Call::harmless("checksum", path), &make, wait).await?);
        let (kind, value) = answer.split_once(' ').ok_or_else(|| {
            Failure::unavailable(format!("checksum of {path}: cannot parse the answer {answer:?}"))
        })?;
        Ok((kind.to_owned(), value.trim().to_owned()))
    }

    pub(super) async fn locate(&self, path: &FilePath, wait: Wait) -> Result<Vec<Location>> {
        let make = |target| Request::Locate(Locate { options: OpenFlags::NONE, target });
        Ok(Location::parse_all(&self.call(Call::harmless("locate", path), &make, wait).await?)?)
    }

    pub(super) async fn stage(&self, paths: &[FilePath], priority: u8, wait: Wait) -> Result<String> {
        let Some(first) = paths.first() else {
            return Err(Failure::invalid("nothing to stage"));
        };
        paths.iter().try_for_each(check_path).map_err(|failure| failure.during("stage"))?;
        let lines: Vec<_> = paths.iter().map(|path| path.as_str().to_owned()).collect();
        let make = |_| {
            let (options, lines) = (PrepareOptions::STAGE, lines.clone());
            Request::Prepare(Prepare { options, is_evict: false, priority, port: 0, lines })
        };
        Ok(text(&self.call(Call::once("stage", first), &make, wait).await?))
    }

    pub(super) async fn config(&self, key: &str, wait: Wait) -> Result<String> {
        let root = FilePath::root();
        let make = |_| query(QueryCode::Config, key.to_owned());
        let body = self.call(Call::harmless("configuration of", &root), &make, wait).await?;
        Ok(text(&body).trim_end().to_owned())
    }

    pub(super) async fn space(&self, path: &FilePath, wait: Wait) -> Result<SpaceInfo> {
        let make = |target: Target| query(QueryCode::Space, target.to_text());
        let answer = text(&self.call(Call::harmless("space of", path), &make, wait).await?);
        Ok(parse_space(&answer))
    }

    pub(super) async fn attributes(&self, path: &FilePath, wait: Wait) -> Result<Vec<(String, Vec<u8>)>> {
        let make = |target| {
            let action = FattrAction::List { with_values: true };
            Request::Fattr(Fattr { subject: Subject::Path(target), action })
        };
        let body = self.call(Call::harmless("attributes of", path), &make, wait).await?;
        parse_attributes(&body)
            .ok_or_else(|| Failure::unavailable(format!("attributes of {path}: cannot parse the answer")))
    }

    pub(super) async fn set_attribute(
        &self,
        path: &FilePath,
        name: &str,
        value: &[u8],
        wait: Wait,
    ) -> Result<()> {
        let pairs = vec![(name.to_owned(), value.to_owned())];
        let action = FattrAction::Set { is_new: false, pairs };
        self.change_attribute("set attribute of", path, name, action, wait).await
    }

    pub(super) async fn remove_attribute(&self, path: &FilePath, name: &str, wait: Wait) -> Result<()> {
        let action = FattrAction::Remove(vec![name.to_owned()]);
        self.change_attribute("remove attribute of", path, name, action, wait).await
    }

    async fn change_attribute(
        &self,
        operation: &'static str,
        path: &FilePath,
        name: &str,
        action: FattrAction,
        wait: Wait,
    ) -> Result<()> {
        let make = |target| Request::Fattr(Fattr { subject: Subject::Path(target), action: action.clone() });
        let body = self.call(Call::harmless(operation, path), &make, wait).await?;
        // Errors, count, then for each name its code.
        let code = body.get(2..4).map_or(0, |code| u32::from(u16::from_be_bytes([code[0], code[1]])));
        if body.first().is_none_or(|errors| *errors == 0) {
            return Ok(());
        }
        let kind = ErrorCode::from_code(code).map_or(ErrorKind::Internal, ErrorCode::kind);
        Err(Failure::new(kind, format!("{operation} {path}: {name:?}: the server refused with code {code}")))
    }

    async fn call(
        &self,
        call: Call<'_>,
        request: &(dyn Fn(Target) -> Request + Sync),
        wait: Wait,
    ) -> Result<Vec<u8>> {
        let Call { operation, path, again } = call;
        check_path(path).map_err(|failure| failure.during(operation))?;
        let make =
            |opaque: &Opaque| request(Target { path: path.as_str().to_owned(), opaque: opaque.clone() });
        match route(&self.url, &self.options, Purpose::Call, again, &make, wait).await {
            Ok(ServerReply { body, .. }) => Ok(body),
            Err(RequestError::Broken(failure)) if again == RetryRule::Never && failure.hint.is_none() => {
                let hint = "it may have been done nevertheless; check before you try again";
                Err(failure.during(format!("{operation} {path}")).hint(hint))
            }
            Err(trouble) => Err(trouble.during(format!("{operation} {path}")).into()),
        }
    }
}

fn query(code: QueryCode, args: String) -> Request {
    Request::Query(Query { code, handle: FileHandle::default(), args: args.into_bytes() })
}

/// The text of an answer, without its NUL.
fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).trim_end_matches('\0').to_owned()
}

/// Parses the answer to a space query; what is not there counts as 0.
fn parse_space(answer: &str) -> SpaceInfo {
    let answer = Opaque::parse(answer);
    let bytes = |key: &str| answer.get(key).and_then(|value| value.trim().parse().ok());
    SpaceInfo {
        total: bytes("oss.space").unwrap_or(0),
        free: bytes("oss.free").unwrap_or(0),
        largest_free: bytes("oss.maxf").unwrap_or(0),
        used: bytes("oss.used").unwrap_or(0),
        // Without a quota it is -1.
        quota: bytes("oss.quota"),
    }
}

/// Parses a list of attributes with their values; `None` if it is none.
fn parse_attributes(mut body: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let mut pairs = Vec::new();
    while !body.is_empty() {
        let end = body.iter().position(|byte| *byte == 0)?;
        let name = String::from_utf8_lossy(&body[..end]).into_owned();
        let (length, rest) = body[end + 1..].split_first_chunk::<4>()?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        // The space of user attributes, which some servers name.
        let name = name.strip_prefix("U.").map_or(name.clone(), str::to_owned);
        pairs.push((name, value.to_owned()));
        body = rest;
    }
    Some(pairs)
}

/// Fuzz body: whatever a server answers about space and attributes, parsing ends.
pub fn fuzz_names(data: &[u8]) {
    let _ = parse_space(&text(data));
    let _ = parse_attributes(data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::xrd::encode_fattr_list;

    proptest! {
        #[test]
        fn attributes_round_trip(pairs in prop::collection::vec(("[a-z.]{1,9}", prop::collection::vec(any::<u8>(), 0..20)), 0..6)) {
            prop_assert_eq!(parse_attributes(&encode_fattr_list(&pairs, true)).unwrap(), pairs);
        }

        #[test]
        fn any_answer_ends(data in prop::collection::vec(any::<u8>(), 0..200), at: prop::sample::Index, value: u8) {
            fuzz_names(&data);
            let mut list = encode_fattr_list(&[("a".into(), vec![1; 40]), ("b".into(), Vec::new())], true);
            let at = at.index(list.len());
            list[at] = value;
            fuzz_names(&list);
        }
    }

    #[test]
    fn space_is_understood() {
        let space = SpaceInfo { total: 9, free: 5, largest_free: 4, used: 3, quota: Some(7) };
        assert_eq!(parse_space(&space.to_query_text("public")), space);
        let space = SpaceInfo { quota: None, ..space };
        assert_eq!(parse_space(&space.to_query_text("public")), space);
    }
}
