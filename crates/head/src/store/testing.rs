//! Catalogues for tests: in a file, and in a private database server of Debian's package.

use super::{Catalogue, FacilityRow, Store};
use base::Timestamp;
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};
use tempfile::TempDir;

/// A catalogue that is gone after the test.
pub(crate) struct TestCatalogue {
    pub(crate) catalogue: Catalogue,
    _directory: Option<TempDir>,
}

impl TestCatalogue {
    /// In a file. In memory where the host has it: tests are about what is read back, not about what is durable.
    pub(crate) fn file() -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        Self { catalogue: Catalogue::File(directory.path().join("c")), _directory: Some(directory) }
    }

    /// In a database of its own; `None` where PostgreSQL is not installed.
    pub(crate) fn database() -> Option<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let server = SERVER.as_ref()?;
        let name = format!("test{}", COUNT.fetch_add(1, Ordering::Relaxed));
        server.sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE template0"));
        Some(Self { catalogue: Catalogue::Database(server.url(&name)), _directory: None })
    }

    /// Both, as far as they are there.
    pub(crate) fn all() -> Vec<Self> {
        [Some(Self::file()), Self::database()].into_iter().flatten().collect()
    }

    /// Carries out SQL in it, as an older release has done.
    pub(crate) fn sql(&self, sql: &str) {
        match &self.catalogue {
            Catalogue::File(file) => rusqlite::Connection::open(file).unwrap().execute_batch(sql).unwrap(),
            Catalogue::Database(url) => SERVER.as_ref().unwrap().sql(database_of(url), sql),
        }
    }

    /// A new catalogue there.
    pub(crate) fn create(&self) -> Store {
        let (id, name, owner) = ("f".into(), "test".into(), "ada".into());
        let facility = FacilityRow { id, name, owner, created: Timestamp(1), incarnation: 0 };
        Store::create(&self.catalogue, &facility).unwrap()
    }
}

impl Drop for TestCatalogue {
    fn drop(&mut self) {
        if let (Catalogue::Database(url), Some(server)) = (&self.catalogue, SERVER.as_ref()) {
            server.sql("postgres", &format!("DROP DATABASE {} WITH (FORCE)", database_of(url)));
        }
    }
}

static SERVER: LazyLock<Option<Server>> = LazyLock::new(|| {
    let server = Server::start();
    if server.is_none() {
        assert!(std::env::var_os("CI").is_none(), "CI has PostgreSQL");
        eprintln!("skipped: PostgreSQL is not installed (Debian: postgresql)");
    }
    server
});

/// A server that lives as long as this process: a shell stops it when its input ends.
struct Server {
    directory: PathBuf,
    user: String,
    bin: PathBuf,
    owner: Option<(u32, u32)>,
    _shell: Child,
}

const SCRIPT: &str = r#"
bin=$1 dir=$2
"$bin/initdb" -D "$dir/data" -A trust -E UTF8 --locale=C -U "$(id -un)" >"$dir/log" 2>&1 &&
"$bin/pg_ctl" -D "$dir/data" -l "$dir/log" -w -o "-k '$dir' -c listen_addresses= -c fsync=off -c shared_buffers=32MB" start \
    >>"$dir/log" 2>&1 && id -un
read -r end
"$bin/pg_ctl" -D "$dir/data" -m immediate stop >>"$dir/log" 2>&1
rm -rf "$dir"
"#;

impl Server {
    fn start() -> Option<Self> {
        let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
        let bin = versions.map(|entry| entry.path().join("bin")).find(|bin| bin.join("initdb").exists())?;
        let directory = tempfile::tempdir().unwrap().keep();
        let owner = owner();
        if let Some((user, group)) = owner {
            chown(&directory, Some(user), Some(group)).unwrap();
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT, "sh"]).args([&bin, &directory]).current_dir("/");
        let mut shell =
            as_owner(&mut shell, owner).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut user = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut user).unwrap();
        let log = || fs::read_to_string(directory.join("log")).unwrap_or_default();
        assert!(!user.trim().is_empty(), "PostgreSQL did not start: {}", log());
        Some(Self { directory, user: user.trim().to_owned(), bin, owner, _shell: shell })
    }

    fn url(&self, database: &str) -> String {
        let socket = self.directory.display().to_string().replace('/', "%2F");
        format!("postgresql://{}@{socket}/{database}", self.user)
    }

    fn sql(&self, database: &str, sql: &str) {
        let mut psql = Command::new(self.bin.join("psql"));
        psql.args(["-qX", "-o", "/dev/null", "-h"]).arg(&self.directory).args(["-d", database, "-c", sql]);
        let done = as_owner(&mut psql, self.owner).current_dir("/").status().unwrap();
        assert!(done.success(), "{sql}");
    }
}

/// The server refuses to run as root.
fn owner() -> Option<(u32, u32)> {
    let is_root =
        fs::metadata("/proc/self").map(|own| std::os::unix::fs::MetadataExt::uid(&own)).unwrap() == 0;
    is_root.then(|| (id("-u"), id("-g")))
}

fn id(what: &str) -> u32 {
    let output = Command::new("id").args([what, "postgres"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

fn as_owner(command: &mut Command, owner: Option<(u32, u32)>) -> &mut Command {
    match owner {
        Some((user, group)) => command.uid(user).gid(group),
        None => command,
    }
}

/// Ends all connections to the database of a place but our own: as a server does that is restarted.
pub(crate) fn cut(place: &TestCatalogue) {
    let Catalogue::Database(url) = &place.catalogue else { return };
    let name = database_of(url);
    let sql = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' AND pid <> pg_backend_pid()"
    );
    SERVER.as_ref().unwrap().sql("postgres", &sql);
}

fn database_of(url: &str) -> &str {
    Path::new(url).file_name().unwrap().to_str().unwrap()
}
