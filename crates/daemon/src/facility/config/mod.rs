//! The configuration of a daemon: one TOML file, every key with its default.

pub mod audit;
pub(crate) mod catalogue;
pub mod issuers;

use audit::AuditConfig;
use base::{
    Failure, Millis, Network, ReachRule, Result,
    limits::{JOB_TEXT_BYTES_MAX, UNPROVEN_SESSIONS_MAX, UNPROVEN_SESSIONS_PER_ADDRESS_MAX},
    reach::NETWORKS_MAX,
    units::{Size, Span},
};
use batch::sandbox::Limits;
use issuers::IssuerConfig;
use net::unproven::{self, Unproven};
use serde::{Deserialize, Serialize};
use std::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};
use wire::control::{Pool, Role, TrashRoom};

/// The file in a facility's directory.
pub const FILE: &str = "facility.toml";

/// Everything that can be configured. Unknown keys are errors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Name of the facility, for people.
    pub name: String,
    /// Where the head stores its catalogue: `postgresql://USER@HOST/DATABASE`, without a password; empty: a file in the facility's
    /// directory. A database on another host must prove its name by TLS, unless `?sslmode=require` or `?sslmode=disable` follows;
    /// `?sslrootcert=/PATH` names a file with its authority.
    pub catalogue: String,
    /// File with the password of the catalogue's database, which only its owner may read; empty: no password is needed.
    pub catalogue_password: PathBuf,
    /// Memory that caches the catalogue; `0B`: an eighth of the host's memory, 512MiB at least. About 800 bytes for each file cache
    /// all of it.
    pub cache: Size,
    /// How long the active head must be silent before a standby takes over; only with a catalogue in a database.
    pub take_over_after: Span,
    /// This host.
    pub host: Host,
    /// Where it listens, and to whom.
    pub doors: Doors,
    /// Certificates.
    pub tls: Tls,
    /// The facility's own tokens.
    pub tokens: Tokens,
    /// The disk server.
    pub disk: Disk,
    /// The trash; the configuration of the head's host counts.
    pub trash: Trash,
    /// The tape server.
    pub tape: Tape,
    /// The worker.
    pub batch: Batch,
    /// Where this host connects to when a client asks for it.
    pub reach: Reach,
    /// The audit log.
    pub audit: AuditConfig,
    /// Issuers of tokens beside the facility itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub issuers: Vec<IssuerConfig>,
}

/// This host of the facility.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Name of the host, unique in the facility; empty: the host name that the kernel reports.
    pub name: String,
    /// Name or address by which other hosts and clients reach the host; empty: the address that it listens on, or its name if
    /// it listens on all addresses.
    pub address: String,
    /// What the host does: any of `head`, `disk`, `tape`, `cpu`.
    pub roles: Vec<Role>,
    /// The head, as `https://host:port`, if this host joined a facility; empty: this host is the head.
    pub head: String,
}

impl Default for Host {
    fn default() -> Self {
        Self { name: String::new(), address: String::new(), roles: Role::ALL.into(), head: String::new() }
    }
}

/// Where the host listens, and which clients it accepts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Doors {
    /// Address to listen on. Beyond loopback `require_token` and `root_tls` must be set.
    pub bind: IpAddr,
    /// Further names by which clients reach the HTTP doors of this host, such as that of a proxy. A request whose `Host` is
    /// neither one of them nor in the certificate is refused: a web page could have made a browser send it.
    pub names: Vec<String>,
    /// Port of `root://`; 0: a free one.
    pub root_port: u16,
    /// Port of `http://`, on loopback only; 0: a free one.
    pub http_port: u16,
    /// Port of `https://`; 0: a free one.
    pub https_port: u16,
    /// Whether every client must present a token. If not, users of this host are served as the user that the kernel reports.
    pub require_token: bool,
    /// Where `root://` uses TLS: `offered` to clients that ask for it, from the `login` on, or `required` for data too.
    pub root_tls: RootTls,
    /// Whether an HTTP request that makes a file also makes missing parent directories. If not, it is answered with 409, as
    /// WebDAV demands.
    pub http_makes_parents: bool,
    /// How long an open waits for a recall before it fails.
    pub recall_wait: Span,
    /// Most connections that have not authenticated, at all doors together.
    pub unproven_max: usize,
    /// Most connections that have not authenticated, from one address.
    pub unproven_per_address_max: usize,
    /// How long a client has for handshake, TLS and login.
    pub prove_within: Span,
}

impl Doors {
    /// The budget of peers that have not proven who they are; all doors of the process share it.
    pub(crate) fn unproven(&self) -> Unproven {
        Unproven::new(unproven::Limits {
            sessions_max: self.unproven_max,
            sessions_per_address_max: self.unproven_per_address_max,
            deadline: Duration::from_millis(self.prove_within.0.0.unsigned_abs()),
            ..unproven::Limits::default()
        })
    }
}

/// When connections of `root://` use TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RootTls {
    /// When the client wants it.
    Offered,
    /// From the login on, and on the further connections of a session, which show its id.
    Login,
    /// On every connection.
    Required,
}

/// Certificates, as paths of PEM files. Empty: the facility's own authority makes what is needed, in `DIR/tls`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// Certificate of the host, with the chain up to its authority.
    pub certificate: PathBuf,
    /// Private key of the certificate.
    pub key: PathBuf,
    /// Authorities of clients; if set, every TLS client must show a certificate of one of them.
    pub client_ca: PathBuf,
    /// Authorities of the servers with which third-party copies are made; empty: those of the system.
    pub trust: PathBuf,
}

/// The facility's own tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tokens {
    /// Longest life of a token, between 15m and 366d; longer ones are neither made nor accepted.
    pub lifetime_max: Span,
}

/// Bounds of the longest life: the daemon's own calls need some minutes, and who needs a token for longer than a year needs another
/// way.
const TOKEN_LIFETIME_MAX: (Millis, Millis) = (Millis::from_seconds(900), Millis::from_seconds(366 * 86_400));

impl Tokens {
    fn check(&self) -> Result<()> {
        let (shortest, longest) = TOKEN_LIFETIME_MAX;
        if (shortest..=longest).contains(&self.lifetime_max.0) {
            return Ok(());
        }
        let what = format!("tokens.lifetime_max = {} is not between 15m and 366d", self.lifetime_max);
        Err(Failure::invalid(what).hint("30d is usual"))
    }
}

impl Default for Tokens {
    fn default() -> Self {
        Self { lifetime_max: Span(wire::auth::token::LIFETIME_MAX) }
    }
}

/// The disk server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Disk {
    /// Pool that a new partition of this host joins; `bp pool move` changes it later. On the head's host also the pool for new
    /// files.
    pub pool: String,
    /// Most bytes of replicas, even if `bp pool resize` allows more; `0B`: the whole file system.
    pub size: Size,
    /// Bytes of the file system that stay free.
    pub reserve: Size,
    /// Bypass the page cache (O_DIRECT), where the file system can, even if the pool does not demand it.
    pub direct: bool,
    /// How data are sent: `automatic`, `pread`, `io_uring`, `sendfile` or `mmap`.
    pub reads: Reads,
    /// Directories of this host from which `bp adopt` may adopt files.
    pub adopt: Vec<PathBuf>,
}

/// The trash: files that were removed or overwritten, and can be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Trash {
    /// How long files can be restored with `bp trash`; `0s`: there is no trash.
    pub keep: Span,
    /// Most disk space of the trash, as a share of all pools or as a size. The oldest files are deleted first, and whenever a
    /// write needs the space.
    pub room: TrashRoom,
}

impl Default for Trash {
    fn default() -> Self {
        Self { keep: Span(Millis::from_seconds(86_400)), room: TrashRoom::Percent(10) }
    }
}

/// How the bytes of files leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reads {
    /// The quickest that was measured.
    #[default]
    Automatic,
    /// Read, then sent.
    Pread,
    /// The same, several reads at once.
    #[serde(rename = "io_uring")]
    IoUring,
    /// From the page cache by `sendfile`.
    Sendfile,
    /// From the page cache, mapped.
    Mmap,
}

impl From<Reads> for net::xrd::ReadMethod {
    fn from(reads: Reads) -> Self {
        match reads {
            Reads::Automatic => Self::Automatic,
            Reads::Pread => Self::Pread,
            Reads::IoUring => Self::IoUring,
            Reads::Sendfile => Self::Sendfile,
            Reads::Mmap => Self::Mmap,
        }
    }
}

/// The tape server and its virtual library. The library is made with the facility, or when the host joins: changes of `drives`,
/// `slots`, `volumes` and `prefix` do not alter it afterwards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tape {
    /// Number of drives.
    pub drives: u16,
    /// Number of slots.
    pub slots: u16,
    /// Number of cartridges; their labels are the prefix and a number from 0001 on.
    pub volumes: u16,
    /// Prefix of the labels, one or two of A-Z 0-9. Labels must be unique in the facility.
    pub prefix: String,
    /// Capacity of a cartridge.
    pub volume_size: Size,
    /// Length of data blocks on tape, between 80B and 1MiB.
    pub block: Size,
    /// How long the virtual library takes to load a cartridge; real drives need about 15 s.
    pub load_time: Span,
}

/// The worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Batch {
    /// CPU slots; 0: as many as the host has processors.
    pub cpus: u32,
    /// Memory for jobs; `0B`: all memory of the host.
    pub memory: Size,
    /// Run jobs on the head's host although the head demands tokens. Jobs of users that the host does not know then run beside
    /// the facility's key and catalogue.
    pub beside_head: bool,
    /// Lowest uid as which jobs run, where bpd runs as root; lower ones belong to the system.
    pub uid_min: u32,
    /// Uids for jobs of users that the host does not know, as "60000-60099". Each running job has one of its own. Empty: this
    /// worker does not run jobs of such users.
    pub slot_uids: String,
    /// Run the jobs of all users as the user that bpd runs as, where that is not root. Each job can then read and change
    /// everything that this user can, including jobs and tokens of others.
    pub run_others_as_me: bool,
    /// Most processes and threads of a job.
    pub processes: u64,
    /// Most bytes in the scratch and temporary directories of a job, and the size of its largest file.
    pub scratch: Size,
    /// Most bytes that a job may print to standard output, and to standard error.
    pub output: Size,
    /// Bytes of standard output and of standard error that `bp log` shows later, at most 512KiB: all of it, or the beginning and
    /// the end.
    pub log: Size,
}

/// Where this host connects to when a client asks for it: the other end of third-party copies, redirects, keys of issuers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reach {
    /// Networks that are allowed although they are refused by default: loopback, link-local and the addresses of this host. Two
    /// facilities on one host need `["127.0.0.0/8"]`. Every user who may copy files can then reach the servers there.
    pub allow: Vec<Network>,
}

impl Reach {
    /// The rule that every connection obeys which a client asks for.
    #[must_use]
    pub fn rule(&self) -> ReachRule {
        ReachRule::guarded(&self.allow)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "backplane".to_owned(),
            catalogue: String::new(),
            catalogue_password: PathBuf::new(),
            cache: Size(0),
            take_over_after: Span(Millis::from_seconds(15)),
            host: Host::default(),
            doors: Doors::default(),
            tls: Tls::default(),
            tokens: Tokens::default(),
            disk: Disk::default(),
            trash: Trash::default(),
            tape: Tape::default(),
            batch: Batch::default(),
            reach: Reach::default(),
            audit: AuditConfig::default(),
            issuers: Vec::new(),
        }
    }
}

impl Default for Doors {
    fn default() -> Self {
        Self {
            bind: IpAddr::from([127, 0, 0, 1]),
            names: Vec::new(),
            root_port: 1094,
            http_port: 8094,
            https_port: 8443,
            require_token: false,
            root_tls: RootTls::Offered,
            http_makes_parents: false,
            recall_wait: Span(Millis::from_seconds(12 * 3600)),
            unproven_max: UNPROVEN_SESSIONS_MAX,
            unproven_per_address_max: UNPROVEN_SESSIONS_PER_ADDRESS_MAX,
            prove_within: Span(Millis(unproven::PROOF_DEADLINE.as_millis() as i64)),
        }
    }
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            pool: "main".to_owned(),
            size: Size(0),
            reserve: Size(256 << 20),
            direct: false,
            reads: Reads::Automatic,
            adopt: Vec::new(),
        }
    }
}

impl Default for Tape {
    fn default() -> Self {
        let block = Size(u64::from(base::limits::TAPE_BLOCK_BYTES));
        Self {
            drives: 2,
            slots: 16,
            volumes: 8,
            prefix: "BP".to_owned(),
            volume_size: Size(16 << 30),
            block,
            load_time: Span(Millis(0)),
        }
    }
}

impl Tape {
    fn check(&self) -> Result<()> {
        let refuse = |what: String, hint: &str| Err(Failure::invalid(what).hint(hint));
        if !(80..=1 << 20).contains(&self.block.0) {
            return refuse(
                format!("tape.block = {} is not between 80B and 1MiB", self.block),
                "256KiB is usual",
            );
        }
        if self.volumes > self.slots {
            let what = format!("tape.volumes = {} do not fit {} slots", self.volumes, self.slots);
            return refuse(what, "raise tape.slots");
        }
        let is_label = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
        if !(1..=2).contains(&self.prefix.len()) || !self.prefix.chars().all(is_label) {
            let what = format!("tape.prefix = {:?} is not one or two of A-Z 0-9", self.prefix);
            return refuse(what, "BP is usual: labels have six characters, four of them a number");
        }
        if self.volume_size.0 < 1 << 20 {
            return refuse(
                format!("tape.volume_size = {} is below 1MiB", self.volume_size),
                "labels alone need some of it",
            );
        }
        Ok(())
    }
}

impl Default for Batch {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            cpus: 0,
            memory: Size(0),
            beside_head: false,
            uid_min: 1000,
            slot_uids: String::new(),
            run_others_as_me: false,
            processes: limits.processes,
            scratch: Size(limits.scratch_bytes),
            output: Size(limits.output_bytes),
            log: Size(256 << 10),
        }
    }
}

/// Fewest processes that a job can do with: a shell that starts a program that starts another.
const PROCESSES_MIN: u64 = 8;
/// Least that is kept of what a job prints: a message and its trace.
const LOG_BYTES_MIN: u64 = 4 << 10;
/// Slot users of one worker: each is one job that runs, and each is looked up at the start.
const SLOTS_MAX: u32 = 1000;
/// The least uid of a slot user: those below belong to the system and to people.
const SLOT_UID_MIN: u32 = 1000;
/// The uid that stands for everybody without a name, and those behind it that have a meaning.
const OVERFLOW_UIDS: RangeInclusive<u32> = 65_534..=65_535;

impl Batch {
    /// Uids for jobs of users that the host does not know.
    pub fn slots(&self) -> Result<Option<RangeInclusive<u32>>> {
        let text = self.slot_uids.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let bad = |why: &str| {
            Failure::invalid(format!("batch.slot_uids = {text:?} {why}"))
                .hint("name a range of uids that nobody on this host has: slot_uids = \"60000-60099\"")
        };
        let number = |digits: &str| digits.trim().parse::<u32>().ok();
        let ends = text.split_once('-').and_then(|(first, last)| Some((number(first)?, number(last)?)));
        let (first, last) = ends.ok_or_else(|| bad("is not a range"))?;
        if first > last || last - first >= SLOTS_MAX {
            return Err(bad("is empty or too long"));
        }
        let is_special = OVERFLOW_UIDS.clone().any(|uid| (first..=last).contains(&uid)) || last == u32::MAX;
        if first < SLOT_UID_MIN || is_special {
            return Err(bad("has uids that belong to the system"));
        }
        Ok(Some(first..=last))
    }

    fn check(&self) -> Result<()> {
        self.slots()?;
        let refuse = |what: String, hint: &str| Err(Failure::invalid(what).hint(hint));
        if self.uid_min == 0 {
            return refuse("batch.uid_min = 0 lets jobs run as root".to_owned(), "1000 is usual");
        }
        if self.processes < PROCESSES_MIN {
            let what = format!("batch.processes = {} is below {PROCESSES_MIN}", self.processes);
            return refuse(what, "4096 is the default");
        }
        if self.scratch.0 < 1 << 20 || self.output.0 < 1 << 16 {
            let what = format!("batch.scratch = {} and batch.output = {}", self.scratch, self.output);
            return refuse(what, "they are 1MiB and 64KiB at least");
        }
        if !(LOG_BYTES_MIN..=JOB_TEXT_BYTES_MAX as u64).contains(&self.log.0) {
            let what = format!(
                "batch.log = {} is not between 4KiB and {}",
                self.log,
                Size(JOB_TEXT_BYTES_MAX as u64)
            );
            return refuse(what, "256KiB is the default; what must not be lost belongs into an output file");
        }
        Ok(())
    }
}

impl Config {
    /// Reads the configuration of the facility in `directory`.
    pub fn read(directory: &Path) -> Result<Self> {
        let file = directory.join(FILE);
        let text = std::fs::read_to_string(&file).map_err(|cause| {
            let hint = format!("`bp create {}` makes a facility there", directory.display());
            Failure::io(format!("read {}", file.display()), &cause).hint(hint)
        })?;
        Self::parse(&text).map_err(|failure| failure.during(file.display()))
    }

    /// Reads the text of a configuration file.
    pub fn parse(text: &str) -> Result<Self> {
        let config: Self = toml::from_str(text).map_err(|cause| {
            Failure::invalid(cause.to_string().trim_end().to_owned())
                .hint("`bpd config` shows every key with its default")
        })?;
        config.check()?;
        Ok(config)
    }

    /// Refuses values that cannot work together.
    pub fn check(&self) -> Result<()> {
        let refuse = |what: String, hint: &str| Err(Failure::invalid(what).hint(hint));
        if self.host.roles.contains(&Role::Head) != self.host.head.is_empty() {
            let what = format!("host.head = {:?} does not fit host.roles", self.host.head);
            return refuse(what, "a host has the role head, or host.head names the head");
        }
        // A disk server away from the head gives nothing without a capability.
        let is_guarded =
            !self.host.head.is_empty() || self.doors.require_token && self.doors.root_tls != RootTls::Offered;
        if !self.doors.bind.is_loopback() && !is_guarded {
            let what = format!("doors.bind = {} is not a loopback address", self.doors.bind);
            return refuse(
                what,
                "set doors.require_token = true and doors.root_tls = \"login\", or use 127.0.0.1",
            );
        }
        let doors = &self.doors;
        if doors.unproven_per_address_max == 0 || doors.unproven_max < doors.unproven_per_address_max {
            let what = format!(
                "doors.unproven_max = {} and doors.unproven_per_address_max = {} let nobody in",
                doors.unproven_max, doors.unproven_per_address_max
            );
            return refuse(what, "both are 1 at least, and the first is the larger");
        }
        if doors.prove_within.0 < Millis::from_seconds(1) {
            let what = format!("doors.prove_within = {} is too short", doors.prove_within);
            return refuse(what, "clients need some round trips to log in: 30s is usual, 1s the least");
        }
        catalogue::check(self)?;
        if self.tls.certificate.as_os_str().is_empty() != self.tls.key.as_os_str().is_empty() {
            let what = "tls.certificate and tls.key belong together".to_owned();
            return refuse(what, "give both, or none to use the facility's own");
        }
        self.tokens.check()?;
        let pool = Pool { name: self.disk.pool.clone(), ..Pool::default() };
        if pool.check().is_err() {
            let what = format!("disk.pool = {:?} is not a name", self.disk.pool);
            return refuse(what, "use 1 to 64 of a-z A-Z 0-9 . - _");
        }
        if let Some(relative) = self.disk.adopt.iter().find(|directory| !directory.is_absolute()) {
            return refuse(format!("disk.adopt names {}", relative.display()), "name absolute paths");
        }
        self.tape.check()?;
        if self.reach.allow.len() > NETWORKS_MAX {
            let what =
                format!("reach.allow has {} networks, more than {NETWORKS_MAX}", self.reach.allow.len());
            return refuse(what, "name larger networks");
        }
        self.batch.check()?;
        self.audit.check()?;
        issuers::check(&self.issuers)
    }

    /// The name of this host in the facility.
    #[must_use]
    pub fn host_name(&self) -> String {
        if !self.host.name.is_empty() {
            return self.host.name.clone();
        }
        let own = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
        if own.is_empty() { "localhost".to_owned() } else { own }
    }

    /// Authorities that vouch for other servers, if they are not those that the system knows; `directory` is the facility's.
    pub fn trust(&self, directory: &Path) -> Option<PathBuf> {
        let trust = &self.tls.trust;
        (!trust.as_os_str().is_empty()).then(|| directory.join(trust))
    }

    /// `host:port` by which others reach what listens on `address`.
    #[must_use]
    pub fn reachable(&self, address: SocketAddr) -> String {
        let port = address.port();
        match &*self.host.address {
            "" if address.ip().is_unspecified() => format!("{}:{port}", self.host_name()),
            "" => address.to_string(),
            given => format!("{given}:{port}"),
        }
    }

    /// The text of a configuration file.
    #[must_use]
    pub fn text(&self) -> String {
        toml::to_string(self).expect("plain values always serialise")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let config = Config::default();
        assert_eq!(Config::parse(&config.text()).unwrap(), config);
        assert_eq!(Config::parse("").unwrap(), config);
    }

    #[test]
    fn guarded_doors_may_be_open_to_the_world() {
        let text = "[doors]\nbind = \"0.0.0.0\"\nrequire_token = true\nroot_tls = \"login\"\n";
        assert_eq!(Config::parse(text).unwrap().doors.root_tls, RootTls::Login);
    }

    #[test]
    fn unknown_keys_and_bad_values_are_named() {
        for (text, word) in [
            ("[disk]\nsise = \"1GiB\"\n", "sise"),
            ("[disk]\nsize = \"1 elephant\"\n", "elephant"),
            ("[doors]\nbind = \"0.0.0.0\"\n", "0.0.0.0"),
            ("[doors]\nbind = \"0.0.0.0\"\nrequire_token = true\n", "0.0.0.0"),
            ("[doors]\nroot_tls = \"sometimes\"\n", "sometimes"),
            ("catalogue = \"postgresql://ada:pass@db/cat\"\n", "password"),
            ("catalogue = \"/var/lib/cat\"\n", "catalogue"),
            ("catalogue_password = \"/etc/pw\"\n", "catalogue_password"),
            ("cache = \"100KiB\"\n", "cache"),
            ("[batch]\nuid_min = 0\n", "uid_min"),
            ("[batch]\nslot_uids = \"60000\"\n", "is not a range"),
            ("[batch]\nslot_uids = \"60009-60000\"\n", "is empty"),
            ("[batch]\nslot_uids = \"0-99\"\n", "belong to the system"),
            ("[batch]\nslot_uids = \"65500-65600\"\n", "belong to the system"),
            ("[batch]\nslot_uids = \"1-4294967295\"\n", "too long"),
            ("[batch]\nprocesses = 1\n", "batch.processes"),
            ("[batch]\nscratch = \"1KiB\"\n", "batch.scratch"),
            ("take_over_after = \"1s\"\n", "take_over_after"),
            ("[doors]\nunproven_max = 1\n", "unproven_max"),
            ("[doors]\nprove_within = \"10ms\"\n", "prove_within"),
            ("[tls]\nkey = \"/etc/key.pem\"\n", "tls.certificate"),
            ("[disk]\nadopt = [\"data/old\"]\n", "disk.adopt"),
            ("[tokens]\nlifetime_max = \"10m\"\n", "tokens.lifetime_max"),
            ("[tokens]\nlifetime_max = \"3650d\"\n", "tokens.lifetime_max"),
            ("[tape]\nvolumes = 9\nslots = 3\n", "tape.volumes"),
            ("[tape]\nblock = \"8B\"\n", "tape.block"),
            ("[tape]\nprefix = \"bp\"\n", "tape.prefix"),
            ("[tape]\nprefix = \"ABC\"\n", "tape.prefix"),
            ("[reach]\nallow = [\"loopback\"]\n", "loopback"),
        ] {
            let failure = Config::parse(text).unwrap_err();
            assert!(failure.what.contains(word), "{failure}");
            assert!(failure.hint.is_some());
        }
    }
}
