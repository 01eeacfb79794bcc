//! What a request is about: a name, and what came behind it.

use base::{FilePath, Result};
use wire::xrd::{Fattr, Opaque, QueryCode, Request, Subject, Target, Truncate};

/// Whether a request asks for a name of the namespace, not for an open file or for this server.
pub(super) fn is_about_names(request: &Request) -> bool {
    match request {
        Request::Dirlist(_)
        | Request::Statx(_)
        | Request::Mkdir(_)
        | Request::Rm(_)
        | Request::Rmdir(_)
        | Request::Mv(_)
        | Request::Chmod(_)
        | Request::Locate(_)
        | Request::Prepare(_) => true,
        Request::Stat(stat) => matches!(stat.subject, Subject::Path(_)),
        Request::Truncate(truncate) => matches!(truncate.subject, Subject::Path(_)),
        Request::Fattr(fattr) => matches!(fattr.subject, Subject::Path(_)),
        Request::Query(query) => {
            matches!(
                query.code,
                QueryCode::Checksum | QueryCode::Space | QueryCode::Xattr | QueryCode::Prepare
            )
        }
        _ => false,
    }
}

/// What came behind the path of a request; of several paths, behind the first one that has something.
pub(super) fn opaque_of(request: &Request) -> Option<Opaque> {
    let first = |lines: &mut dyn Iterator<Item = &str>| {
        lines.map(|line| Target::from_text(line).opaque).find(|opaque| !opaque.is_empty())
    };
    match request {
        Request::Truncate(Truncate { subject: Subject::Path(target), .. })
        | Request::Fattr(Fattr { subject: Subject::Path(target), .. })
        | Request::Rm(target)
        | Request::Rmdir(target) => Some(target.opaque.clone()),
        Request::Mkdir(mkdir) => Some(mkdir.target.opaque.clone()),
        Request::Chmod(chmod) => Some(chmod.target.opaque.clone()),
        Request::Locate(locate) => Some(locate.target.opaque.clone()),
        Request::Mv(mv) => [&mv.from.opaque, &mv.to.opaque].into_iter().find(|it| !it.is_empty()).cloned(),
        Request::Prepare(prepare) => first(&mut prepare.lines.iter().map(String::as_str)),
        Request::Query(query) if is_about_names(request) => first(&mut query.text().ok()?.lines()),
        _ => None,
    }
}

/// The checked path of a request.
pub(super) fn path(target: &Target) -> Result<FilePath> {
    target.path.parse()
}
