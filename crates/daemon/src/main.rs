//! `bpd`: the daemon.

mod arguments;
#[cfg(test)]
mod reference;

use anyhow::Context;
use arguments::{Cli, Create, Join, Migrate, Rebuild, Restore, Run, Token, Verb};
use base::Timestamp;
use clap::Parser as _;
use daemon::{
    access::{local_users::user_of_process, tokens},
    boot::{
        catalogue,
        join::{self, JoinRequest},
        run,
        standby::Start,
    },
    facility::{config::Config, private_files::make_files_private},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::process::ExitCode;
use wire::control::CreateToken;

/// Open files where the system sets no limit.
const FILES_MAX: u64 = 1 << 20;

fn main() -> ExitCode {
    batch::close_inherited();
    let verb = Cli::parse().verb;
    // A shepherd has it from the daemon, and its later stages make files for the job.
    if !matches!(verb, Verb::Shepherd { .. }) {
        make_files_private();
    }
    let outcome = match verb {
        Verb::Create(create) => make(&create),
        Verb::Run(run) => start(&run),
        Verb::Join(wish) => join_and_run(wish),
        Verb::Token(token) => make_token(&token),
        Verb::Restore(restore) => bring_back(&restore),
        Verb::Rebuild(wish) => rebuild(wish),
        Verb::Migrate(migrate) => move_catalogue(migrate),
        Verb::Config => show_config(),
        Verb::Shepherd { run_dir, stage } => {
            if stage == batch::Stage::Mount {
                // Into a file of the run directory. Without it the mount works as well.
                let _ = log_to_stderr();
            }
            return ExitCode::from(u8::try_from(batch::shepherd_main(&run_dir, stage)).unwrap_or(1));
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

/// Says what went wrong and the next step, and turns the kind into an exit code.
fn report(error: &anyhow::Error) -> ExitCode {
    use std::io::Write;
    let mut stderr = std::io::stderr().lock();
    let failure = error.downcast_ref::<base::Failure>();
    // Nobody is left to tell if standard error is closed.
    let _ = writeln!(stderr, "error: {error:#}");
    if let Some(hint) = failure.and_then(|failure| failure.hint.as_ref()) {
        let _ = writeln!(stderr, "hint: {hint}");
    }
    ExitCode::from(failure.map_or(1, |failure| failure.kind.exit_code()))
}

fn now() -> Timestamp {
    Timestamp::from_system(std::time::SystemTime::now())
}

fn user() -> String {
    // The name that XRootD clients log in with comes from the same place.
    std::env::var("USER").ok().filter(|name| !name.is_empty()).unwrap_or_else(user_of_process)
}

fn make(create: &Create) -> anyhow::Result<()> {
    let mut config = Config::default();
    if let Some(name) = &create.name {
        config.name.clone_from(name);
    }
    create.parts.put_into(&mut config);
    config.catalogue = create.catalogue.clone().unwrap_or_default();
    if let Some(file) = &create.catalogue_password {
        config.catalogue_password = std::path::absolute(file).context("the path of the password is none")?;
    }
    config.cache = create.cache.unwrap_or(config.cache);
    daemon::boot::facility::create(&create.directory, &config, &user(), now())?;
    Ok(())
}

fn join_and_run(wish: Join) -> anyhow::Result<()> {
    log_to_stderr()?;
    let text = if wish.token == "-" { std::io::read_to_string(std::io::stdin())? } else { wish.token };
    let (root_port, https_port) = (wish.root_port, wish.https_port);
    let mut parts = Config::default();
    // Labels are unique in the facility: others begin with others.
    parts.tape.prefix = String::new();
    wish.parts.put_into(&mut parts);
    let invitation = JoinRequest {
        token: text.parse()?,
        roles: wish.role,
        parts,
        name: wish.name,
        address: wish.address,
        bind: wish.bind,
        ports: (root_port, https_port),
    };
    let config = join::join(&wish.directory, invitation)?;
    tracing::info!(host = config.host_name(), head = config.host.head, "joined the facility");
    if wish.only {
        return Ok(());
    }
    raise_file_limit();
    run::run(&wish.directory, &run::Doors::default())?;
    Ok(())
}

fn log_to_stderr() -> anyhow::Result<()> {
    let filter = std::env::var("BP_LOG").unwrap_or_else(|_| "info".to_owned());
    let filter = tracing_subscriber::EnvFilter::try_new(&filter).context("BP_LOG is not a log filter")?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(daemon::boot::service::SafeLines::new)
        .with_ansi(false);
    if daemon::boot::service::is_logged_by_journal() {
        lines.event_format(daemon::boot::service::JournalLines::default()).init();
    } else {
        lines.init();
    }
    Ok(())
}

fn start(run: &Run) -> anyhow::Result<()> {
    log_to_stderr()?;
    if run.create && !run.directory.join(daemon::facility::config::FILE).exists() {
        daemon::boot::facility::create(&run.directory, &Config::default(), &user(), now())?;
    }
    raise_file_limit();
    let Run { bind, root_port, http_port, https_port, .. } = *run;
    let start = match (run.standby, run.take_over) {
        (true, _) => Start::Standby,
        (false, true) => Start::TakeOver,
        (false, false) => Start::Usual,
    };
    let doors = run::Doors { bind, root_port, http_port, https_port, start };
    run::run(&run.directory, &doors)?;
    Ok(())
}

/// Takes as many open files as the system allows: each session needs one, and each object that is read. Jobs get the usual
/// limit back.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(FILES_MAX);
    if let Err(cause) = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit }) {
        tracing::warn!(%cause, "cannot raise the limit of open files from {:?}; raise it with `ulimit -n` or \
            LimitNOFILE=", limit.current);
    }
}

fn make_token(token: &Token) -> anyhow::Result<()> {
    use std::io::Write;
    let wish = CreateToken {
        user: token.user.clone().unwrap_or_else(user),
        lifetime: Some(token.lifetime.0),
        scopes: (!token.scope.is_empty()).then(|| token.scope.join(" ")),
        groups: token.group.clone(),
        audience: token.audience.clone(),
    };
    let (text, claims) = tokens::make_token(&token.directory, &wish, now())?;
    let mut stdout = std::io::stdout().lock();
    if token.json {
        let value = serde_json::json!({
            "token": text, "user": claims.subject, "expires": claims.expires,
            "scope": claims.scopes.map(|scopes| scopes.to_string()),
        });
        writeln!(stdout, "{value}")?;
    } else {
        writeln!(stdout, "{text}")?;
    }
    Ok(())
}

fn bring_back(restore: &Restore) -> anyhow::Result<()> {
    log_to_stderr()?;
    let restored = catalogue::restore(&restore.directory, &restore.backup, now())?;
    tracing::info!(rows = restored.rows, facility = restored.begin.name, "the catalogue was restored");
    tracing::info!(
        "nothing is deleted until you accept the restored catalogue: start bpd, then run `bp admin settle`"
    );
    Ok(())
}

fn rebuild(wish: Rebuild) -> anyhow::Result<()> {
    log_to_stderr()?;
    catalogue::rebuild(&wish.directory, &wish.owner.unwrap_or_else(user), now())?;
    tracing::info!("the catalogue is empty; nothing is deleted until you accept it");
    tracing::info!(
        "start bpd and let the disk servers join again; then `bp admin recover` rebuilds the catalogue from them"
    );
    Ok(())
}

fn move_catalogue(migrate: Migrate) -> anyhow::Result<()> {
    log_to_stderr()?;
    let password = migrate.catalogue_password.map(std::path::absolute).transpose();
    let password = password.context("the path of the password is none")?.unwrap_or_default();
    let to = match &*migrate.to {
        "file" => catalogue::Destination::File,
        url => catalogue::Destination::Database(url.to_owned(), password),
    };
    let rows = catalogue::migrate(&migrate.directory, &to)?;
    tracing::info!(
        rows,
        "the catalogue was moved; every row was verified, and facility.toml names the new database"
    );
    Ok(())
}

fn show_config() -> anyhow::Result<()> {
    use std::io::Write;
    std::io::stdout().lock().write_all(Config::default().text().as_bytes())?;
    Ok(())
}
