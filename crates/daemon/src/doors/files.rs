//! Opens files for the doors of the head's process: the head names the replica, and its disk server opens it.

use crate::hosts::presence::Prober;
use base::{Clock, ErrorKind, Failure, FilePath, Millis, Result, Timestamp, TwoGenerationCache};
use disk::{
    remote::{objects::PeerClient, redirect::RedirectTarget, threads::with_peers},
    serve::{
        local_objects::{Objects, is_outdated},
        open_file::{ReadFile, Reservation, Sink, Source, WriteFile},
        traffic::Traffic,
    },
};
use head::{Head, Principal};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use tracing::debug;
use wire::{
    auth::capability::{self, Access, Cap, CapKeys, Content, Times, WHOLE},
    control::{
        AVOIDED_LEN_MAX, AvoidServers, Avoided, DiskServer, Disposition, Entry, FileState, GetEntry,
        OpenRead, OpenWrite, ReadGrant, ReadObject, Stat, WriteGrant,
    },
};

/// Times an open is repeated because its object was removed between the head's answer and the disk's.
const STALE_OPENS_MAX: usize = 5;

/// Half of the grants that are kept: the files that a busy hour opens again and again.
const GRANTS_KEPT: usize = 1 << 14;

/// How long a writer waits for one before it that is on its way out: a connection that ended is noticed a moment later.
const WRITER_PATIENCE: Duration = Duration::from_secs(2);

/// How often it asks.
const WRITER_PAUSE: Duration = Duration::from_millis(25);

/// How long a client may open again what it was sent to: a session that broke is taken up within that time.
const READ_LIFETIME: Millis = Millis::from_seconds(3600);

/// The result of an open.
pub enum Opened<F> {
    /// The object is on this host.
    Here(F),
    /// Another disk server has it, or is to make it.
    Redirect(RedirectTarget),
}

/// Opens files for the doors beside the head.
pub struct Files {
    /// `None` on a host that knows no names.
    names: Option<Names>,
    objects: Arc<Objects>,
    peers: PeerClient,
    clock: Clock,
    recall_wait: Millis,
    /// Grants by user and path, with the version of the namespace at which they were right.
    grants: TwoGenerationCache<String, (u64, Arc<ReadObject>)>,
    /// Asks hosts whether they are there; only beside the head.
    prober: Option<Prober>,
}

/// Who knows the names, and what proves to disk servers that it has been asked.
struct Names {
    head: Head,
    keys: CapKeys,
}

/// What a kept answer is found by. A name cannot hold a NUL.
pub fn answer_key(who: &Principal, path: &FilePath) -> String {
    let rank = if who.is_operator { "*" } else { "" };
    let mut key = [rank, &who.name, "\0", path.as_str()].concat();
    for group in &who.groups {
        key.push('\0');
        key.push_str(group);
    }
    key
}

impl Files {
    /// Opens files where `head` says, here from `objects`; `keys` sign what other disk servers are shown.
    pub fn new(head: Head, objects: Arc<Objects>, keys: CapKeys, clock: Clock, recall_wait: Millis) -> Self {
        let grants = TwoGenerationCache::new(GRANTS_KEPT);
        Self {
            names: Some(Names { head, keys }),
            objects,
            peers: PeerClient::new(None),
            clock,
            recall_wait,
            grants,
            prober: None,
        }
    }

    /// Says how other disk servers are spoken to.
    #[must_use]
    pub fn with_peer_client(self, peers: PeerClient) -> Self {
        Self { peers, ..self }
    }

    /// Asks hosts whether they are there.
    #[must_use]
    pub(crate) fn with_prober(self, prober: Prober) -> Self {
        Self { prober: Some(prober), ..self }
    }

    /// The prober of silent hosts; only beside the head.
    pub(crate) fn prober(&self) -> Option<&Prober> {
        self.prober.as_ref()
    }

    /// Opens nothing by name: for a disk server away from the head.
    pub fn without_names(objects: Arc<Objects>, clock: Clock) -> Self {
        let grants = TwoGenerationCache::new(1);
        let peers = PeerClient::new(None);
        Self { names: None, objects, peers, clock, recall_wait: Millis(0), grants, prober: None }
    }

    /// The head.
    pub fn head(&self) -> Result<&Head> {
        Ok(&self.names()?.head)
    }

    fn names(&self) -> Result<&Names> {
        self.names
            .as_ref()
            .ok_or_else(|| Failure::unsupported("this host does not serve the namespace; ask the head"))
    }

    /// The objects of this host.
    pub fn objects(&self) -> &Arc<Objects> {
        &self.objects
    }

    /// Opens a file for reading; waits for its recall if it is nearline.
    pub async fn open_read(
        &self,
        who: &Principal,
        path: &FilePath,
        door: Arc<Traffic>,
    ) -> Result<Opened<ReadFile>> {
        let mut last = None;
        for _ in 0..STALE_OPENS_MAX {
            let version = self.head()?.namespace_version();
            let call = OpenRead { path: path.clone() };
            let grant = match self.head()?.call_waiting(who, call, self.recall_wait).await? {
                ReadGrant::Online(grant) => Arc::new(grant),
                ReadGrant::Recalling { .. } => return Err(Box::pin(self.still_nearline(who, path)).await),
            };
            let opened = match &grant.server {
                Some(server) => self.redirect_read(who, &grant, server).map(Opened::Redirect),
                None => {
                    let read =
                        Box::pin(self.objects.read(&who.name, Arc::clone(&grant), Arc::clone(&door))).await;
                    read.map(Opened::Here)
                }
            };
            match opened {
                Ok(opened) => {
                    self.grants.insert(answer_key(who, path), (version, grant));
                    return Ok(opened);
                }
                Err(failure) if failure.kind == ErrorKind::NotFound => last = Some(failure),
                Err(failure) => return Err(failure),
            }
        }
        Err(last.unwrap_or_else(|| Failure::internal(format!("{path} cannot be opened"))))
    }

    /// What is said to whoever has waited long enough for a recall.
    async fn still_nearline(&self, who: &Principal, path: &FilePath) -> Failure {
        let stat = async { self.head()?.call(who, Stat { path: path.clone() }).await };
        let (state, waits) = match stat.await {
            Ok(info) if info.entry.state.is_some_and(FileState::is_online) => ("used by a mount", info.waits),
            Ok(info) => ("nearline", info.waits),
            Err(failure) => ("nearline", Some(failure.what)),
        };
        let waits = waits.unwrap_or_else(|| "nothing is in the way any more".to_owned());
        Failure::timeout(format!("{path} is still {state}: {waits}"))
            .hint(format!("`bp why {path}` shows what it waits for; open it again later"))
    }

    /// Opens a file for reading if the head has said lately where it is and nothing has changed since, or is free to say it
    /// on this thread. May wait for disks, for nothing else.
    pub fn open_read_now(
        &self,
        who: &Principal,
        path: &FilePath,
        door: &Arc<Traffic>,
    ) -> Option<Result<Opened<ReadFile>>> {
        let grant = match self.kept_grant(who, path) {
            Some(grant) => {
                self.objects.opened(grant.object);
                grant
            }
            None => match self.grant_here(who, path)? {
                Ok(grant) => grant,
                Err(failure) => return Some(Err(failure)),
            },
        };
        if let Some(server) = &grant.server {
            return Some(self.redirect_read(who, &grant, server).map(Opened::Redirect));
        }
        self.objects.read_now(&who.name, grant, door).map(|file| Ok(Opened::Here(file)))
    }

    fn kept_grant(&self, who: &Principal, path: &FilePath) -> Option<Arc<ReadObject>> {
        let (version, grant) = self.grants.get(answer_key(who, path).as_str())?;
        (version == self.head().ok()?.namespace_version()).then_some(grant)
    }

    /// Where a file is on disk, if the head can say it on this thread.
    fn grant_here(&self, who: &Principal, path: &FilePath) -> Option<Result<Arc<ReadObject>>> {
        let head = self.head().ok()?;
        let version = head.namespace_version();
        match head.call_inline(who, OpenRead { path: path.clone() })? {
            Ok(ReadGrant::Online(grant)) => {
                let grant = Arc::new(grant);
                self.grants.insert(answer_key(who, path), (version, Arc::clone(&grant)));
                Some(Ok(grant))
            }
            // Its recall has to be waited for.
            Ok(ReadGrant::Recalling { .. }) => None,
            Err(failure) => Some(Err(failure)),
        }
    }

    /// Has servers avoided to which a client says that it was sent in vain.
    pub(crate) async fn avoid(&self, who: &Principal, path: &FilePath, tried: &str, is_write: bool) {
        let hosts = tried.split(',').filter(|host| !host.is_empty()).take(AVOIDED_LEN_MAX);
        let call = AvoidServers { hosts: hosts.map(str::to_owned).collect(), path: path.clone(), is_write };
        let avoided = async { self.head()?.call(who, call).await };
        match (avoided.await, &self.prober) {
            // They are silent as soon as it is known, and not only avoided for a while.
            (Ok(Avoided { servers }), Some(prober)) => servers.into_iter().for_each(|host| prober.look(host)),
            (Ok(_), None) => {}
            // A hint: without it the open goes on as if there was none.
            (Err(failure), _) => {
                debug!(%failure, "could not tell the head which servers the client cannot reach; they are not avoided");
            }
        }
    }

    fn redirect_read(
        &self,
        who: &Principal,
        grant: &Arc<ReadObject>,
        server: &DiskServer,
    ) -> Result<RedirectTarget> {
        let cap = Cap {
            access: if grant.is_piece { Access::Gather } else { Access::Read },
            partition: grant.partition.clone(),
            object: grant.object,
            file: grant.file,
            generation: grant.fence,
            holder: None,
            range: WHOLE,
            content: Some(Content { size: grant.size, checksums: grant.checksums }),
            user: who.name.clone(),
            expires: (self.clock)() + READ_LIFETIME,
            piece: None,
            times: Some(Times::of(grant.modified, grant.source_modified)),
        };
        Ok(RedirectTarget { object: Some(Arc::clone(grant)), ..self.signed((server, grant.joined), &cap)? })
    }

    /// Describes a file once it has sums: one that is changed in place is sealed before. An open waits for that.
    pub async fn sealed_entry(&self, who: &Principal, path: &FilePath, door: Arc<Traffic>) -> Result<Entry> {
        let get = GetEntry { path: path.clone() };
        let entry = self.head()?.call(who, get.clone()).await?;
        if entry.state != Some(FileState::Live) {
            return Ok(entry);
        }
        drop(self.open_read(who, path, door).await?);
        self.head()?.call(who, get).await
    }

    /// Opens a file for reading through this process, wherever its object is.
    pub async fn read_through(
        &self,
        who: &Principal,
        path: &FilePath,
        door: Arc<Traffic>,
    ) -> Result<ReadFile> {
        let mut last = None;
        for _ in 0..STALE_OPENS_MAX {
            let target = match self.open_read(who, path, Arc::clone(&door)).await? {
                Opened::Here(file) => return Ok(file),
                Opened::Redirect(target) => target,
            };
            let (peers, remote, grant) = (self.peers.clone(), path.clone(), target.object.clone());
            let grant =
                grant.ok_or_else(|| Failure::internal(format!("{path} was opened without an object")))?;
            match with_peers(move || peers.read(&target, &remote)).await {
                Ok(file) => {
                    // Its disk server puts what is read on the bill.
                    let meter = self.objects.meter("", grant.object, door);
                    return Ok(ReadFile::new(Source::Remote(file), grant, meter));
                }
                // It has moved since, or somebody has lost a right: the head is asked once more.
                Err(failure) if is_outdated(&failure) => last = Some(failure),
                Err(failure) => return Err(failure),
            }
        }
        Err(last.unwrap_or_else(|| Failure::internal(format!("{path} cannot be opened"))))
    }

    /// Opens a file for writing. It becomes the file's content when it is committed, not before.
    pub async fn open_write(
        &self,
        who: &Principal,
        open: OpenWrite,
        door: Arc<Traffic>,
    ) -> Result<Opened<WriteFile>> {
        let (grant, reservation) = self.reserve(who, open).await?;
        if let Some(server) = &grant.server {
            // Whoever is sent there is known by the capability; a reservation that nobody begins is given up.
            reservation.keep();
            return self.redirect_write(who, &grant, server).map(Opened::Redirect);
        }
        self.objects.write(&grant, move || reservation, door).await.map(Opened::Here)
    }

    /// Opens a file for writing through this process, wherever its object will be.
    pub async fn write_through(
        &self,
        who: &Principal,
        open: OpenWrite,
        door: Arc<Traffic>,
    ) -> Result<WriteFile> {
        let (grant, reservation) = self.reserve(who, open).await?;
        let Some(server) = &grant.server else {
            return self.objects.write(&grant, move || reservation, door).await;
        };
        let (target, peers) = (self.redirect_write(who, &grant, server)?, self.peers.clone());
        let label = grant.label();
        let sink = with_peers(move || peers.write(&target, &grant)).await?;
        reservation.keep();
        Ok(WriteFile::new(Sink::Remote(Arc::new(sink)), label, &self.clock, door))
    }

    fn redirect_write(
        &self,
        who: &Principal,
        grant: &WriteGrant,
        server: &DiskServer,
    ) -> Result<RedirectTarget> {
        let cap = Cap {
            access: Access::Write,
            partition: grant.partition.clone(),
            object: grant.object,
            file: grant.file,
            generation: grant.object.0,
            holder: None,
            range: WHOLE,
            content: None,
            user: who.name.clone(),
            expires: (self.clock)() + capability::OPEN_LIFETIME,
            piece: None,
            times: None,
        };
        self.signed((server, grant.joined), &cap)
    }

    fn signed(&self, (server, joined): (&DiskServer, Timestamp), cap: &Cap) -> Result<RedirectTarget> {
        let signed = self.names()?.keys.sign((&server.name, joined), cap);
        Ok(RedirectTarget { server: server.clone(), signed, object: None })
    }

    /// Asks the head in a task of its own: a client that leaves before the answer must not keep what it was granted.
    async fn reserve(&self, who: &Principal, open: OpenWrite) -> Result<(WriteGrant, Reservation)> {
        let (head, objects, who) = (self.head()?.clone(), Arc::clone(&self.objects), who.clone());
        let asked = self.objects.tasks().spawn("open for writing", async move {
            let grant = granted(&head, &who, open).await?;
            let reservation = objects.reservation(&grant);
            Ok((grant, reservation))
        });
        asked.await.map_err(|cause| Failure::internal(format!("an open failed unexpectedly: {cause}")))?
    }
}

/// Asks for an object to write; while somebody else writes the file, for a moment again and again.
///
/// An update is refused at once: after a write that was given up it would be for an hour.
async fn granted(head: &Head, who: &Principal, open: OpenWrite) -> Result<WriteGrant> {
    let deadline = Instant::now() + WRITER_PATIENCE;
    loop {
        match head.call(who, open.clone()).await {
            Err(failure)
                if matches!(failure.kind, ErrorKind::Busy | ErrorKind::Locked)
                    && open.disposition != Disposition::Update
                    && Instant::now() < deadline =>
            {
                sleep(WRITER_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}
