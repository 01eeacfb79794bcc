//! One file per verb.

pub(crate) mod account;
pub(crate) mod admin;
pub(crate) mod adopt;
pub(crate) mod archive;
pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod bill;
pub(crate) mod cancel;
pub(crate) mod cat;
pub(crate) mod chmod;
pub(crate) mod chown;
pub(crate) mod completion;
pub(crate) mod cp;
pub(crate) mod create;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod drives;
pub(crate) mod du;
pub(crate) mod events;
pub(crate) mod evict;
pub(crate) mod find;
pub(crate) mod get;
pub(crate) mod grant;
pub(crate) mod head;
pub(crate) mod host;
pub(crate) mod jobs;
pub(crate) mod key;
pub(crate) mod log;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod mkdir;
pub(crate) mod mv;
pub(crate) mod pool;
pub(crate) mod project;
pub(crate) mod put;
pub(crate) mod queue;
pub(crate) mod quota;
pub(crate) mod recover;
pub(crate) mod release;
pub(crate) mod rm;
pub(crate) mod rmdir;
pub(crate) mod scan;
pub(crate) mod settle;
pub(crate) mod stage;
pub(crate) mod stat;
pub(crate) mod status;
pub(crate) mod submit;
pub(crate) mod token;
pub(crate) mod trash;
pub(crate) mod tree;
pub(crate) mod trust;
pub(crate) mod up;
pub(crate) mod volumes;
pub(crate) mod wait;
pub(crate) mod why;

use crate::{
    args::Verb,
    context::{Context, Run},
};

/// Does what the command line says; the number is the exit code.
pub(crate) fn run(verb: Verb, context: &mut Context) -> Run {
    match verb {
        Verb::Create(args) => create::run(args, context),
        Verb::Up(args) => up::run(args, context),
        Verb::Down(args) => down::run(args, context),
        Verb::Status(args) => status::run(args, context),
        Verb::Ls(args) => ls::run(args, context),
        Verb::Stat(args) => stat::run(args, context),
        Verb::Mkdir(args) => mkdir::run(args, context),
        Verb::Rm(args) => rm::run(args, context),
        Verb::Trash(args) => trash::run(args, context),
        Verb::Rmdir(args) => rmdir::run(args, context),
        Verb::Mv(args) => mv::run(args, context),
        Verb::Chmod(args) => chmod::run(args, context),
        Verb::Chown(args) => chown::run(args, context),
        Verb::Find(args) => find::run(args, context),
        Verb::Du(args) => du::run(args, context),
        Verb::Tree(args) => tree::run(args, context),
        Verb::Why(args) => why::run(args, context),
        Verb::Grant(args) => grant::run(args, context),
        Verb::Put(args) => put::run(args, context),
        Verb::Get(args) => get::run(args, context),
        Verb::Cat(args) => cat::run(args, context),
        Verb::Cp(args) => cp::run(args, context),
        Verb::Archive(args) => archive::run(args, context),
        Verb::Stage(args) => stage::run(args, context),
        Verb::Evict(args) => evict::run(args, context),
        Verb::Release(args) => release::run(args, context),
        Verb::Wait(args) => wait::run(args, context),
        Verb::Submit(args) => submit::run(args, context),
        Verb::Jobs(args) => jobs::run(args, context),
        Verb::Cancel(args) => cancel::run(args, context),
        Verb::Log(args) => log::run(args, context),
        Verb::Queue(args) => queue::run(args, context),
        Verb::Volumes(args) => volumes::run(args, context),
        Verb::Drives(args) => drives::run(args, context),
        Verb::Bill(args) => bill::run(args, context),
        Verb::Backup(args) => backup::run(args, context),
        Verb::Account(args) => account::run(args, context),
        Verb::Project(args) => project::run(args, context),
        Verb::Quota(args) => quota::run(args, context),
        Verb::Doctor(args) => doctor::run(args, context),
        Verb::Events(args) => events::run(args, context),
        Verb::Audit(args) => audit::run(args, context),
        Verb::Scan(args) => scan::run(args, context),
        Verb::Adopt(args) => adopt::run(args, context),
        Verb::Token(args) => token::run(args, context),
        Verb::Trust(args) => trust::run(args, context),
        Verb::Key(args) => key::run(args, context),
        Verb::Host(args) => host::run(args, context),
        Verb::Pool(args) => pool::run(args, context),
        Verb::Head(args) => head::run(args, context),
        Verb::Admin(args) => admin::run(args, context),
        Verb::Completion(args) => completion::run(args, context),
        Verb::Man(args) => man::run(args, context),
    }
}
