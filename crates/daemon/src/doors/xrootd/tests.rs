//! Our own client at the real doors: what one door says of a user is what the other says.

mod live;

use super::{RootDoor, Settings};
use crate::{
    access::identity::Authenticator,
    boot::facility::FacilityHandle,
    doors::{
        files::Files,
        http::{self, HttpDoor},
    },
    facility::{config::Config, link::Link},
    metrics::DoorCounters,
};
use base::{Clock, ErrorKind, FilePath, Millis, Timestamp, limits::CONNECTIONS_MAX};
use client::{
    Bearer, Control,
    xrd::{CreateOptions, File, FileSystem, Options, XrdUrl},
};
use disk::{
    serve::local_objects::Objects,
    upkeep::janitor::{Janitor, ServerRegistration},
};
use head::{Head, Principal};
use net::{listener::Listener, shutdown::Shutdown};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;
use wire::{
    auth::token::{Claims, TokenKey},
    control::{DiskServer, Disposition, JobSpec, Mkdir, OpenWrite, Resources, SetMode, Stat, Submit},
};

const OWNER: &str = "operator_of_the_facility";
const USER: &str = "maria_goeppert_mayer";
/// Begins with the same eight bytes.
const OTHER: &str = "maria_go";
const NOW: Timestamp = Timestamp(1_700_000_000_000);

/// Both doors of a facility with a disk and no other rooms.
struct Doors {
    root: XrdUrl,
    http: String,
    head: Head,
    objects: Arc<Objects>,
    facility: String,
    tokens: TokenKey,
    shutdown: Shutdown,
    runtime: Runtime,
    _directory: tempfile::TempDir,
}

impl Doors {
    fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("facility");
        crate::facility::private_files::make_files_private();
        crate::boot::facility::create(&home, &Config::default(), OWNER, Timestamp(1)).unwrap();
        let handle = FacilityHandle::take(&home).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let shutdown = Shutdown::new();
        let Served { root, http, head, objects, facility } = runtime.block_on(serve(&handle, &shutdown));
        Self {
            root: format!("root://{root}//").parse().unwrap(),
            http: format!("http://{http}"),
            head,
            objects,
            facility,
            tokens: handle.key.tokens(),
            shutdown,
            runtime,
            _directory: directory,
        }
    }

    fn names(&self, user: &str) -> FileSystem {
        FileSystem::new(&self.root, &options(user))
    }

    fn control(&self, user: &str) -> Control {
        Control::new(&self.http, user)
    }

    fn token(&self, user: &str, is_of_job: bool) -> String {
        self.tokens.sign(&Claims {
            issuer: self.facility.clone(),
            subject: user.to_owned(),
            audience: Vec::new(),
            id: String::new(),
            issued: NOW,
            starts: NOW,
            expires: NOW + Millis(1000),
            scopes: None,
            groups: Vec::new(),
            is_of_job,
            host: None,
        })
    }

    fn owner_of(&self, path: &FilePath) -> String {
        self.control(OWNER).call(&Stat { path: path.clone() }).unwrap().entry.owner
    }
}

impl Drop for Doors {
    fn drop(&mut self) {
        self.shutdown.tell();
    }
}

struct Served {
    root: SocketAddr,
    http: SocketAddr,
    head: Head,
    objects: Arc<Objects>,
    facility: String,
}

async fn serve(handle: &FacilityHandle, shutdown: &Shutdown) -> Served {
    let listen = async || Listener::bind(([127, 0, 0, 1], 0).into(), CONNECTIONS_MAX).await.unwrap();
    let (root, http) = (listen().await, listen().await);
    let addresses = (root.address().unwrap(), http.address().unwrap());
    let begun = Instant::now();
    let clock: Clock = Arc::new(move || NOW + Millis(begun.elapsed().as_millis() as i64));
    let server =
        DiskServer { name: "here".to_owned(), root: addresses.0.to_string(), https: addresses.1.to_string() };
    let core = handle.open_head(server.clone(), clock()).unwrap();
    let id = core.facility().id.clone();
    let (head, _thread) = Head::start(core, Arc::clone(&clock)).unwrap();
    let partition = Arc::new(handle.open_partition(&id).unwrap());
    let (keys, link) = (handle.key.caps(), disk::port::Head::new(Link::Local(head.clone())));
    let partitions = vec![Arc::clone(&partition)];
    let own = wire::auth::capability::ServerKeys::of_head(&keys, &server.name);
    let objects = Arc::new(Objects::new(link.clone(), partitions, own, Arc::clone(&clock), shutdown.child()));
    let registration =
        ServerRegistration { server, boot: 1, pool: handle.config.disk.pool.clone(), is_direct: false };
    let peers = disk::remote::objects::PeerClient::new(None);
    let copier = disk::upkeep::copier::Copier::new(&link, &peers, &partition, &objects, &clock);
    let janitor = Janitor::new(link, registration, partition, &objects);
    janitor.register().await.unwrap();
    shutdown.spawn("live", janitor.live_keeper(&copier, &clock).keep(shutdown.token()));
    let counters = Arc::new(DoorCounters::default());
    let authenticator = Authenticator::new(handle.key.tokens(), &id, OWNER, false, Arc::clone(&clock));
    let files = Arc::new(Files::new(head.clone(), Arc::clone(&objects), keys, clock, Millis(0)));
    let settings = Settings { facility: "test".to_owned(), ..Settings::default() };
    let door = RootDoor::new(Arc::clone(&files), settings, authenticator.clone(), Arc::clone(&counters));
    net::xrd::serve(Arc::new(door), root, shutdown);
    let door = HttpDoor::new(files, handle.key.clone(), OWNER, counters, shutdown.token())
        .with_authenticator(authenticator);
    http::serve(Arc::new(door), http, None, shutdown).unwrap();
    Served { root: addresses.0, http: addresses.1, head, objects, facility: id }
}

fn options(user: &str) -> Options {
    Options { username: user.to_owned(), ..Options::default() }
}

fn path(text: &str) -> FilePath {
    text.parse().unwrap()
}

#[test]
fn a_long_name_is_the_same_at_both_doors() {
    let doors = Doors::open();
    let everybody = SetMode { path: FilePath::root(), mode: 0o777 };
    doors.control(OWNER).call(&everybody).unwrap();
    doors.control(USER).call(&Mkdir { path: path("/http"), mode: 0o700, parents: false }).unwrap();
    doors.names(USER).mkdir(&path("/http/root"), 0o700, false).unwrap();
    let url = doors.root.with_path(path("/http/root/f"));
    let file = File::create(&url, &options(USER), CreateOptions::default()).unwrap();
    let mut writer = file.writer();
    writer.write_all(b"bytes").unwrap();
    writer.finish().unwrap();
    file.close().unwrap();
    for made in ["/http", "/http/root", "/http/root/f"] {
        assert_eq!(doors.owner_of(&path(made)), USER, "{made}");
    }
}

#[test]
fn names_that_begin_alike_are_not_mixed_up() {
    let doors = Doors::open();
    doors.control(OWNER).call(&SetMode { path: FilePath::root(), mode: 0o777 }).unwrap();
    doors.names(USER).mkdir(&path("/d"), 0o700, false).unwrap();
    let refused = doors.names(OTHER).mkdir(&path("/d/e"), 0o700, false);
    assert_eq!(refused.unwrap_err().kind, ErrorKind::Permission);
    assert_eq!(doors.names(&OWNER[..9]).list(&path("/d")).unwrap_err().kind, ErrorKind::Permission);
}

#[test]
fn a_name_that_is_not_ascii_is_not_taken_for_the_owner() {
    let doors = Doors::open();
    let body = r#"{"path":"/d"}"#;
    let mut socket = TcpStream::connect(doors.http.trim_start_matches("http://")).unwrap();
    let head = format!(
        "POST /api/v1/mkdir HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n{}: schrödinger\r\n\r\n{body}",
        body.len(),
        wire::control::USER_HEADER
    );
    socket.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains("user schrödinger may not change /d"), "{answer}");
}

/// It would renew itself: each job has a token that is good for another half a day.
#[test]
fn the_token_of_a_job_makes_no_jobs() {
    let doors = Doors::open();
    doors.control(OWNER).call(&SetMode { path: FilePath::root(), mode: 0o777 }).unwrap();
    let spec = JobSpec {
        name: "again".to_owned(),
        command: vec!["true".to_owned()],
        resources: Resources { cpus: 1, memory_bytes: 0, wall: Millis::from_seconds(60) },
        ..JobSpec::default()
    };
    let control = |is_of_job| {
        let token = Bearer::new(doors.token(USER, is_of_job));
        Control::new(&doors.http, "whoever").with_token(token)
    };
    let refused = control(true).call(&Submit::new(spec.clone())).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Permission, "{refused}");
    assert!(refused.what.contains("cannot submit other jobs"), "{refused}");
    // All else that its owner may do it may, too.
    control(true).call(&Mkdir { path: path("/d"), mode: 0o700, parents: false }).unwrap();
    assert_eq!(doors.owner_of(&path("/d")), USER);
    let other = control(false).call(&Submit::new(spec));
    assert!(!other.is_err_and(|failure| failure.kind == ErrorKind::Permission));
}

/// Who leaves while what the file had is copied leaves nothing that keeps others away.
#[test]
fn an_update_that_is_cut_off_while_it_copies_is_given_back() {
    let doors = Doors::open();
    let url = doors.root.with_path(path("/f"));
    File::create(&url, &options(OWNER), CreateOptions::default()).unwrap().close().unwrap();
    let (disposition, mode) = (Disposition::Update, 0o644);
    let open = OpenWrite {
        path: path("/f"),
        mode,
        disposition,
        parents: false,
        expected_bytes: 0,
        source_modified: None,
    };
    let grant = doors.runtime.block_on(doors.head.call(&Principal::operator(OWNER), open)).unwrap();
    let ((begun, is_begun), (leave, has_left)) = (mpsc::channel(), mpsc::channel());
    let take = {
        let (objects, grant) = (Arc::clone(&doors.objects), grant.clone());
        move || {
            begun.send(()).unwrap();
            has_left.recv().unwrap();
            objects.reservation(&grant)
        }
    };
    let objects = Arc::clone(&doors.objects);
    let update =
        doors.runtime.spawn(async move { objects.write(&grant, take, Arc::default()).await.map(drop) });
    is_begun.recv().unwrap();
    update.abort();
    assert!(doors.runtime.block_on(update).unwrap_err().is_cancelled());
    leave.send(()).unwrap();
    let replace = CreateOptions { replace: true, ..CreateOptions::default() };
    let since = Instant::now();
    loop {
        match File::create(&url, &options(OWNER), replace) {
            Ok(file) => break file.close().unwrap(),
            Err(failure) => assert!(since.elapsed() < Duration::from_secs(20), "{failure}"),
        }
    }
}

#[test]
fn the_owner_with_a_long_name_may_do_everything_at_both_doors() {
    let doors = Doors::open();
    doors.names(OWNER).mkdir(&path("/d"), 0o000, false).unwrap();
    doors.names(OWNER).mkdir(&path("/d/e"), 0o755, false).unwrap();
    assert_eq!(doors.owner_of(&path("/d/e")), OWNER);
}

/// The server notices the end of a connection a moment after the client: who comes in between must not be refused.
#[test]
fn an_open_waits_for_a_writer_that_is_on_its_way_out() {
    let doors = Doors::open();
    let create = {
        let url = doors.root.with_path(path("/f"));
        let replace = CreateOptions { replace: true, ..CreateOptions::default() };
        move || File::create(&url, &options(OWNER), replace)
    };
    let first = create().unwrap();
    let (opened, next) = mpsc::channel();
    let second = thread::spawn(move || {
        let file = create();
        opened.send(()).unwrap();
        file.unwrap().close().unwrap();
    });
    let early = next.recv_timeout(Duration::from_millis(100));
    assert_eq!(early, Err(mpsc::RecvTimeoutError::Timeout), "the file has a writer");
    drop(first);
    second.join().unwrap();
    assert_eq!(doors.owner_of(&path("/f")), OWNER);
}
