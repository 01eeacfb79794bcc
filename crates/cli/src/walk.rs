//! Walks trees of the namespace without recursion, because users choose how deep they are.

use crate::{
    context::{Context, Run, Stop},
    glob,
};
use base::FilePath;
use wire::control::{Entry, NodeKind, Stat};

/// One visited entry.
pub(crate) struct Visited {
    pub(crate) path: FilePath,
    pub(crate) entry: Entry,
    /// Names below the beginning.
    pub(crate) depth: usize,
    /// Whether it is the last one of its directory.
    pub(crate) is_last: bool,
}

/// Visits `root` and all that is below it, each directory before what is in it. A directory that cannot be listed is named and left
/// out; the number is the exit code of the first.
pub(crate) fn walk(
    context: &mut Context,
    root: &FilePath,
    visit: &mut dyn FnMut(&mut Context, &Visited) -> Run<()>,
) -> Run {
    let entry = context.call(&Stat { path: root.clone() })?.entry;
    let mut stack = vec![Visited { path: root.clone(), entry, depth: 0, is_last: true }];
    let mut code = 0;
    while let Some(met) = stack.pop() {
        visit(context, &met)?;
        if met.entry.kind != NodeKind::Directory {
            continue;
        }
        match below(context, &met) {
            Ok(found) => stack.extend(found.into_iter().rev()),
            Err(Stop::Failed(failure)) => {
                context.output.failure(&failure);
                code = if code == 0 { failure.kind.exit_code() } else { code };
            }
            Err(stop) => return Err(stop),
        }
    }
    Ok(code)
}

fn below(context: &mut Context, directory: &Visited) -> Run<Vec<Visited>> {
    let mut found = Vec::new();
    let mut entries = Vec::new();
    glob::list(&context.control()?, &directory.path, &mut |entry| entries.push(entry))?;
    let len = entries.len();
    for (index, entry) in entries.into_iter().enumerate() {
        let path = directory.path.join(&entry.name)?;
        found.push(Visited { path, entry, depth: directory.depth + 1, is_last: index + 1 == len });
    }
    Ok(found)
}

/// Does `one` for each path and, if that is wanted, for all that is below; goes on after failures. The number is the exit code of the
/// first.
pub(crate) fn each(
    context: &mut Context,
    paths: Vec<FilePath>,
    is_recursive: bool,
    one: &mut dyn FnMut(&mut Context, &FilePath) -> Run<()>,
) -> Run {
    let mut code = 0;
    let ended = context.each(paths, |context, path| {
        if !is_recursive {
            return one(context, &path);
        }
        let mut refused = 0;
        let walked = walk(context, &path, &mut |context, met| match one(context, &met.path) {
            Err(Stop::Failed(failure)) => {
                context.output.failure(&failure);
                refused = if refused == 0 { failure.kind.exit_code() } else { refused };
                Ok(())
            }
            done => done,
        })?;
        code = [code, refused, walked].into_iter().find(|code| *code != 0).unwrap_or(0);
        Ok(())
    })?;
    Ok(if ended == 0 { code } else { ended })
}
