//! Adoption on a partition: makes files that lie on its file system objects, and tells the head, which gives them names.
//!
//! Each pass goes through the whole tree: what was adopted before is known again, so nothing need be remembered of a pass that
//! was interrupted. A file is ours when the head has said that it is durable; only then its old name is touched.

use crate::{
    Partition,
    object::{
        adopt::{Likeness, Parted, modified},
        walk::{Found, Step, Walk},
    },
    port::Head,
    serve::local_objects::Writing,
    upkeep::{scan::Pace, users::Users},
};
use base::{Clock, ErrorKind, Failure, FileId, FilePath, Millis, ObjectId, Result};
use net::{blocking, shutdown::Token};
use std::{
    collections::VecDeque,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tracing::{info, warn};
use wire::{
    control::{
        AdoptedContent, AdoptedFile, AdoptionOrder, AdoptionPlace, Amount, BeginAdopted, EndAdopted,
        FoundEntry, LEFT_ALONE_PAGE, LeftAlone, NextAdoption, NodeKind, ReportAdoption, ScanPace,
        WithdrawAdopted,
    },
    media::object::{Holder, Label, ObjectInfo},
};

/// How long a question for work is held back; a stop does not wait for the answer.
const WAIT: Millis = Millis::from_seconds(30);
/// Pause after something did not work.
const PAUSE: Duration = Duration::from_secs(5);
/// The head is told at least this often.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Files that are adopted together; as many names are shown as being written.
const BATCH_LEN: usize = 64;
/// Bytes after which no further file is added to a batch.
const BATCH_BYTES: u64 = 1 << 30;
/// Files that are read at a time: more would only move the heads of the disk about.
const READERS: u64 = 2;
/// The same for small ones, which wait for the disk to sync them: those that wait together are synced together.
const READERS_OF_SMALL: u64 = 16;
/// Mean size of the files of a batch up to which they are small.
const SMALL_BYTES: u64 = 256 << 10;
/// Most files that are looked at in a second.
const FILES_PER_S: u64 = 10_000;

/// Adopts files for one partition when the head says so.
pub struct Adopter {
    pub(crate) head: Head,
    pub(crate) partition: Arc<Partition>,
    pub(crate) writing: Writing,
    pub(crate) boot: u64,
    /// Directories below which the configuration allows it.
    pub(crate) allowed: Arc<Vec<PathBuf>>,
    pub(crate) clock: Clock,
    pub(crate) token: Token,
}

/// A pass through a tree.
struct Pass<'a> {
    adopter: &'a Adopter,
    order: &'a AdoptionOrder,
    users: Users,
    total: Option<Amount>,
    seen: Amount,
    unowned: u64,
    left: Vec<LeftAlone>,
    told: Instant,
    /// Bytes read of files that are not through yet.
    reading: Arc<AtomicU64>,
    /// The head wants no more.
    is_halted: Arc<AtomicBool>,
}

/// Files that are adopted together.
#[derive(Default)]
struct Batch {
    files: Vec<Found>,
    bytes: u64,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.files.len() >= BATCH_LEN || self.bytes >= BATCH_BYTES
    }
}

/// Adds files to a batch until it is full or something else comes; yields that.
fn gather(mut walk: Walk, mut batch: Batch) -> (Walk, Batch, Option<Step>) {
    while !batch.is_full() {
        match walk.advance() {
            Some(Step::File(found)) => {
                batch.bytes += found.metadata.size();
                batch.files.push(found);
            }
            other => return (walk, batch, other),
        }
    }
    (walk, batch, None)
}

/// How a pass came to its end.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Done,
    /// Somebody stopped it, or the daemon stops.
    Stopped,
}

/// A file of a batch, and what the head says of it.
#[derive(Clone)]
struct Task {
    found: Found,
    path: FilePath,
    holder: Holder,
    place: AdoptionPlace,
}

/// Whose a file is, for its description. Nobody, if its owner is no user of this host: then it belongs to the owner of the facility.
fn holder(entry: &FoundEntry) -> Holder {
    let owner = entry.owner.clone().unwrap_or_default();
    Holder { group: entry.group.clone().unwrap_or_else(|| owner.clone()), owner, mode: entry.mode }
}

/// What a reader did with a file.
struct Outcome {
    task: Task,
    result: Result<Made>,
}

/// What became of a file.
enum Made {
    /// It is durable as an object.
    Object(ObjectInfo),
    /// It was adopted before, and is as it should be.
    Known,
    /// It is time to stop.
    Stopped,
}

impl Adopter {
    fn name(&self) -> String {
        self.partition.identity().partition.clone()
    }

    /// Does what the head wants until it is time to stop.
    pub async fn keep(self) {
        while !self.token.is_stopped() {
            let ask = NextAdoption { partition: self.name(), boot: self.boot };
            let orders = tokio::select! {
                () = self.token.stopped() => return,
                orders = self.head.call_waiting(ask, WAIT) => orders,
            };
            let outcome = match orders {
                Ok(orders) => match orders.order {
                    Some(order) => self.follow(&order).await,
                    None => continue,
                },
                // It registers in a moment.
                Err(failure) if failure.kind == ErrorKind::NotFound => {
                    self.pause().await;
                    continue;
                }
                Err(failure) => Err(failure),
            };
            if let Err(failure) = outcome {
                warn!(partition = self.name(), %failure, "adoption interrupted; it continues later");
                self.pause().await;
            }
        }
    }

    async fn pause(&self) {
        // Stopping ends the pause; running out of time is the usual way.
        let _ = tokio::time::timeout(PAUSE, self.token.stopped()).await;
    }

    async fn follow(&self, order: &AdoptionOrder) -> Result<()> {
        info!(
            partition = self.name(),
            adoption = order.adoption,
            directory = order.directory,
            "adoption started"
        );
        let mut pass = Pass {
            adopter: self,
            order,
            users: Users::of_this_host(),
            total: None,
            seen: Amount::default(),
            unowned: 0,
            left: Vec::new(),
            told: Instant::now(),
            reading: Arc::default(),
            is_halted: Arc::default(),
        };
        let (walk, root) = match self.walk(order).await {
            Ok(begun) => begun,
            Err(failure) => return pass.tell(false, Some((failure, true))).await.map(drop),
        };
        match pass.go_through(walk, root).await {
            Ok(End::Done) => pass.tell(true, None).await.map(drop),
            Ok(End::Stopped) => Ok(()),
            Err(failure) => {
                // What was done is told, if the head can hear it; the failure is what matters.
                let _ = pass.tell(false, Some((failure.clone(), false))).await;
                Err(failure)
            }
        }
    }

    async fn walk(&self, order: &AdoptionOrder) -> Result<(Walk, std::fs::Metadata)> {
        let (allowed, directory) = (Arc::clone(&self.allowed), PathBuf::from(&order.directory));
        let partition = self.partition.directory().to_owned();
        blocking(move || Walk::new(&allowed, &directory, &partition)).await
    }
}

impl Pass<'_> {
    /// Counts, then adopts.
    async fn go_through(&mut self, mut walk: Walk, root: std::fs::Metadata) -> Result<End> {
        let (counted, _) = self.adopter.walk(self.order).await?;
        let token = self.adopter.token.clone();
        let Some(total) = blocking(move || Ok(count(counted, &token))).await? else {
            return Ok(End::Stopped);
        };
        self.total = Some(total);
        let entry = self.entry(&self.order.path.clone(), NodeKind::Directory, &root);
        match self.ask(vec![entry]).await?.pop() {
            Some(AdoptionPlace::Directory) => {}
            Some(AdoptionPlace::Refused(failure)) => {
                self.leave(Path::new(""), failure);
                return Ok(End::Done);
            }
            _ => return Ok(End::Stopped),
        }
        let mut batch = Batch::default();
        loop {
            let (next, step);
            (walk, next, step) = blocking(move || Ok(gather(walk, batch))).await?;
            batch = next;
            let is_over = step.is_none() && !batch.is_full();
            // The files of a directory are through before it can be empty.
            let is_due = step.is_none() || self.order.is_moving && matches!(step, Some(Step::Over(_)));
            if is_due && self.adopt(std::mem::take(&mut batch).files).await? == End::Stopped {
                return Ok(End::Stopped);
            }
            match step {
                Some(Step::Directory(found)) => match self.enter(&found).await? {
                    Some(true) => {}
                    Some(false) => walk.skip(),
                    None => return Ok(End::Stopped),
                },
                Some(Step::Over(found)) if self.order.is_moving => self.remove_if_empty(found).await?,
                Some(Step::Odd(path, failure)) => self.leave(&path, failure),
                Some(Step::Over(_) | Step::File(_)) => {}
                None if is_over => return Ok(End::Done),
                None => {}
            }
            if !self.tell_now_and_then().await? {
                return Ok(End::Stopped);
            }
        }
    }

    async fn remove_if_empty(&mut self, found: Found) -> Result<()> {
        let path = found.path.clone();
        if let Err(failure) = blocking(move || found.remove_if_empty()).await {
            self.leave(&path, failure);
        }
        Ok(())
    }

    /// Makes a directory in the facility. Whether to go into it; `None`: it is time to stop.
    async fn enter(&mut self, found: &Found) -> Result<Option<bool>> {
        let path = match self.path(&found.path) {
            Ok(path) => path,
            Err(failure) => {
                self.leave(&found.path, failure);
                return Ok(Some(false));
            }
        };
        let entry = self.entry(&path, NodeKind::Directory, &found.metadata);
        Ok(match self.ask(vec![entry]).await?.pop() {
            None => None,
            Some(AdoptionPlace::Refused(failure)) => {
                self.leave(&found.path, failure);
                Some(false)
            }
            Some(_) => Some(true),
        })
    }

    /// What something is to be called in the facility.
    fn path(&self, below: &Path) -> Result<FilePath> {
        let mut path = self.order.path.clone();
        for part in below {
            let name = part.to_str().ok_or_else(|| {
                Failure::invalid("its name is not UTF-8").hint("rename it, and adopt it again")
            })?;
            path = path.join(name).map_err(|failure| failure.hint("rename it, and adopt it again"))?;
        }
        Ok(path)
    }

    fn entry(&mut self, path: &FilePath, kind: NodeKind, metadata: &std::fs::Metadata) -> FoundEntry {
        let owner = self.users.user(metadata.uid());
        if owner.is_none() && kind == NodeKind::File {
            self.unowned += 1;
        }
        FoundEntry {
            path: path.clone(),
            kind,
            group: self.users.group(metadata.gid()),
            owner,
            mode: metadata.mode() & 0o7777,
            modified: modified(metadata),
        }
    }

    fn leave(&mut self, path: &Path, failure: Failure) {
        // People read it on their terminals.
        let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        let name: String = path.to_string_lossy().chars().map(shown).collect();
        let name = if name.is_empty() { ".".to_owned() } else { name };
        self.left.push(LeftAlone { name, failure });
    }

    /// Asks where entries go; nothing: it is time to stop.
    async fn ask(&self, entries: Vec<FoundEntry>) -> Result<Vec<AdoptionPlace>> {
        let asked = entries.len();
        let (partition, adoption) = (self.adopter.name(), self.order.adoption);
        let places = self.adopter.head.call(BeginAdopted { partition, adoption, entries }).await?.places;
        if !places.is_empty() && places.len() != asked {
            return Err(Failure::internal(format!(
                "the head has {} places for {asked} entries",
                places.len()
            )));
        }
        Ok(places)
    }

    /// Adopts some files.
    async fn adopt(&mut self, batch: Vec<Found>) -> Result<End> {
        let mut files = Vec::with_capacity(batch.len());
        for found in batch {
            match self.path(&found.path) {
                Ok(path) => files.push((found, path)),
                Err(failure) => self.pass_by(&found, failure),
            }
        }
        if files.is_empty() {
            return Ok(End::Done);
        }
        let mut entries = Vec::with_capacity(files.len());
        for (found, path) in &files {
            entries.push(self.entry(path, NodeKind::File, &found.metadata));
        }
        let holders: Vec<_> = entries.iter().map(holder).collect();
        let places = self.ask(entries).await?;
        if places.is_empty() {
            return Ok(End::Stopped);
        }
        let mut tasks = VecDeque::with_capacity(files.len());
        for (((found, path), holder), place) in files.into_iter().zip(holders).zip(places) {
            match place {
                AdoptionPlace::Refused(failure) => self.pass_by(&found, failure),
                AdoptionPlace::Directory => {
                    self.pass_by(&found, Failure::exists(format!("{path} is a directory")));
                }
                place => tasks.push_back(Task { found, path, holder, place }),
            }
        }
        let begun = Begun::new(&self.adopter.writing, &self.adopter.name(), &tasks);
        let outcomes = self.read(tasks).await?;
        let end = self.settle(outcomes).await;
        drop(begun);
        end
    }

    /// Counts a file that is left alone.
    fn pass_by(&mut self, found: &Found, failure: Failure) {
        self.seen.files += 1;
        self.seen.bytes += found.metadata.size();
        self.leave(&found.path, failure);
    }

    /// Reads all files of a batch, some at a time, and tells the head meanwhile how far it is.
    async fn read(&mut self, tasks: VecDeque<Task>) -> Result<Vec<Outcome>> {
        let count = readers_of(&tasks);
        let bytes_per_s = self.order.bytes_per_s;
        let pace = Pace::new(ScanPace { is_checksummed: true, objects_per_s: FILES_PER_S, bytes_per_s });
        let tasks = Arc::new(Mutex::new(tasks));
        let mut readers = tokio::task::JoinSet::new();
        for _ in 0..count {
            let reader = Reader {
                partition: Arc::clone(&self.adopter.partition),
                now: Arc::clone(&self.adopter.clock),
                token: self.adopter.token.clone(),
                pace: pace.share(count),
                is_moving: self.order.is_moving,
                reading: Arc::clone(&self.reading),
                is_halted: Arc::clone(&self.is_halted),
            };
            let tasks = Arc::clone(&tasks);
            readers.spawn_blocking(move || reader.work(&tasks));
        }
        let mut outcomes = Vec::new();
        loop {
            tokio::select! {
                done = readers.join_next() => match done {
                    None => break,
                    Some(done) => outcomes.extend(
                        done.map_err(|cause| Failure::internal(format!("a reader failed unexpectedly: {cause}")))?,
                    ),
                },
                () = tokio::time::sleep(REPORT_EVERY) => {
                    // A head that cannot be reached now is told later. What is being made must not be left behind.
                    if matches!(self.tell(false, None).await, Ok(false)) {
                        self.is_halted.store(true, Ordering::Relaxed);
                    }
                }
            }
        }
        self.reading.store(0, Ordering::Relaxed);
        Ok(outcomes)
    }

    /// Tells the head what is durable, then parts it from its old name.
    async fn settle(&mut self, outcomes: Vec<Outcome>) -> Result<End> {
        let (mut ends, mut made, mut end) = (Vec::new(), Vec::new(), End::Done);
        for Outcome { task, result } in outcomes {
            let object = match task.place {
                AdoptionPlace::Make { object, .. } => Some(object),
                _ => None,
            };
            let content = match &result {
                Ok(Made::Object(info)) => Some(AdoptedContent {
                    size: info.size,
                    checksums: info.checksums,
                    modified: modified(&task.found.metadata),
                }),
                _ => None,
            };
            if let Some(object) = object {
                ends.push(AdoptedFile { object, content });
            }
            match (result, object) {
                (Ok(Made::Object(_)), Some(object)) => made.push((task, object, ends.len() - 1)),
                (Ok(Made::Stopped), _) => end = End::Stopped,
                (Ok(_), _) => self.count(&task.found),
                (Err(failure), _) => self.pass_by(&task.found, failure),
            }
        }
        let (partition, adoption) = (self.adopter.name(), self.order.adoption);
        let refused = if ends.is_empty() {
            Vec::new()
        } else {
            self.adopter.head.insist(EndAdopted { partition, adoption, files: ends }).await?.refused
        };
        for (task, object, at) in made {
            match refused.get(at) {
                Some(None) => self.part(task, object).await?,
                Some(Some(failure)) => {
                    self.discard(object).await;
                    self.pass_by(&task.found, failure.clone());
                }
                None => return Err(Failure::internal("the head did not say what became of a file")),
            }
        }
        Ok(end)
    }

    fn count(&mut self, found: &Found) {
        self.seen.files += 1;
        self.seen.bytes += found.metadata.size();
    }

    /// What the head did not take goes again.
    async fn discard(&self, object: ObjectId) {
        let partition = Arc::clone(&self.adopter.partition);
        if let Err(failure) = blocking(move || partition.remove(object)).await {
            warn!(%object, %failure, "cannot delete an object whose adoption failed; retrying later");
        }
    }

    /// Parts a file that is ours from its old name.
    async fn part(&mut self, task: Task, object: ObjectId) -> Result<()> {
        let (partition, is_moving) = (Arc::clone(&self.adopter.partition), self.order.is_moving);
        let found = task.found.clone();
        match blocking(move || partition.part(object, &found, is_moving)).await {
            Ok(Parted::Well) => self.count(&task.found),
            Ok(Parted::Damaged) => {
                let (partition, adoption) = (self.adopter.name(), self.order.adoption);
                self.adopter.head.insist(WithdrawAdopted { partition, adoption, object }).await?;
                self.pass_by(
                    &task.found,
                    Failure::busy("it was written while it was adopted")
                        .hint("adopt it again when no program writes to it"),
                );
            }
            Err(failure) => self.pass_by(&task.found, failure),
        }
        Ok(())
    }

    /// Tells the head if that is due. Whether to go on.
    async fn tell_now_and_then(&mut self) -> Result<bool> {
        let is_due = self.told.elapsed() >= REPORT_EVERY || self.left.len() >= LEFT_ALONE_PAGE / 2;
        Ok(!self.adopter.token.is_stopped() && (!is_due || self.tell(false, None).await?))
    }

    /// Tells the head how far it is; trouble may be final. Whether to go on.
    async fn tell(&mut self, is_done: bool, trouble: Option<(Failure, bool)>) -> Result<bool> {
        let is_refused = trouble.as_ref().is_some_and(|(_, is_final)| *is_final);
        let mut trouble = trouble.map(|(failure, _)| failure);
        loop {
            let page: Vec<_> = self.left.iter().take(LEFT_ALONE_PAGE).cloned().collect();
            let (len, is_last) = (page.len(), page.len() == self.left.len());
            let reading = self.reading.load(Ordering::Relaxed);
            let report = ReportAdoption {
                partition: self.adopter.name(),
                adoption: self.order.adoption,
                total: self.total,
                seen: Amount { files: self.seen.files, bytes: self.seen.bytes + reading },
                unowned: self.unowned,
                left: page,
                is_done: is_done && is_last,
                trouble: trouble.take(),
                is_refused: is_refused && is_last,
            };
            let goes_on = self.adopter.head.call(report).await?.goes_on;
            self.left.drain(..len);
            self.told = Instant::now();
            if is_last || !goes_on {
                return Ok(goes_on);
            }
        }
    }
}

/// How many readers a batch is worth.
fn readers_of(tasks: &VecDeque<Task>) -> u64 {
    let bytes: u64 = tasks.iter().map(|task| task.found.metadata.size()).sum();
    if bytes <= SMALL_BYTES * tasks.len() as u64 { READERS_OF_SMALL } else { READERS }
}

/// Counts all files; `None`: it is time to stop.
fn count(mut walk: Walk, token: &Token) -> Option<Amount> {
    let mut total = Amount::default();
    while let Some(step) = walk.advance() {
        if token.is_stopped() {
            return None;
        }
        if let Step::File(found) = step {
            total.files += 1;
            total.bytes += found.metadata.size();
        }
    }
    Some(total)
}

/// Objects that are being made: the head is told that somebody is about it, until this is dropped.
struct Begun {
    writing: Writing,
    partition: String,
    objects: Vec<ObjectId>,
}

impl Begun {
    fn new(writing: &Writing, partition: &str, tasks: &VecDeque<Task>) -> Self {
        let object = |task: &Task| match task.place {
            AdoptionPlace::Make { object, .. } => Some(object),
            _ => None,
        };
        let objects: Vec<_> = tasks.iter().filter_map(object).collect();
        for object in &objects {
            writing.begin(partition, *object);
        }
        Self { writing: writing.clone(), partition: partition.to_owned(), objects }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        for object in &self.objects {
            self.writing.end(&self.partition, *object);
        }
    }
}

/// Reads files one after the other, at a pace.
struct Reader {
    partition: Arc<Partition>,
    now: Clock,
    token: Token,
    pace: Pace,
    is_moving: bool,
    reading: Arc<AtomicU64>,
    is_halted: Arc<AtomicBool>,
}

impl Reader {
    fn is_stopped(&self) -> bool {
        self.token.is_stopped() || self.is_halted.load(Ordering::Relaxed)
    }

    fn work(&self, tasks: &Mutex<VecDeque<Task>>) -> Vec<Outcome> {
        let mut pace = self.pace.clone();
        let mut outcomes = Vec::new();
        loop {
            let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(task) = task else { return outcomes };
            pace.begin();
            let result = self.one(&task, &mut pace);
            // What was read of it counts with the file from now on.
            outcomes.push(Outcome { task, result });
        }
    }

    fn one(&self, task: &Task, pace: &mut Pace) -> Result<Made> {
        let paced = |bytes| {
            self.reading.fetch_add(bytes, Ordering::Relaxed);
            pace.rest_unless(1, bytes, || self.is_stopped())
        };
        match task.place {
            AdoptionPlace::Make { object, file } => self.make(task, (object, file), paced),
            AdoptionPlace::Known { object, size, modified } => {
                self.check(task, (object, size, modified), paced)
            }
            AdoptionPlace::Directory | AdoptionPlace::Refused(_) => Ok(Made::Known),
        }
    }

    fn make(
        &self,
        task: &Task,
        (object, file): (ObjectId, FileId),
        paced: impl FnMut(u64) -> bool,
    ) -> Result<Made> {
        if self.is_stopped() {
            return Ok(Made::Stopped);
        }
        let (path, holder) = (task.path.clone(), task.holder.clone());
        let label = Label { file, path, generation: object.0, holder, piece: None };
        let made = self.partition.adopt(&task.found, object, &label, (self.now)(), paced)?;
        Ok(made.map_or(Made::Stopped, Made::Object))
    }

    /// Looks whether a name that is taken is this very file, adopted before.
    fn check(
        &self,
        task: &Task,
        (object, size, at): (ObjectId, u64, base::Timestamp),
        paced: impl FnMut(u64) -> bool,
    ) -> Result<Made> {
        let (partition, found) = (&self.partition, &task.found);
        let other = || {
            Failure::exists(format!("{} exists, and is another file", task.path))
                .hint("keep the right one, and rename or remove the other")
        };
        let is_as_adopted = (found.metadata.size(), modified(&found.metadata)) == (size, at);
        match partition.likeness(object, found)? {
            Likeness::Same if !is_as_adopted => {
                return Err(Failure::corrupt(format!(
                    "it was changed at its original path after it was adopted: {} is damaged",
                    task.path
                ))
                .hint(format!(
                    "`bp scan start {} --checksum` shows all such files",
                    partition.identity().partition
                )));
            }
            Likeness::Same => {}
            Likeness::Twin if self.is_moving => match partition.has_content(object, found, paced)? {
                None => return Ok(Made::Stopped),
                Some(true) => {}
                Some(false) => return Err(other()),
            },
            Likeness::Twin => return Ok(Made::Known),
            Likeness::Other => return Err(other()),
        }
        match partition.part(object, found, self.is_moving)? {
            Parted::Well => Ok(Made::Known),
            Parted::Damaged => Err(Failure::corrupt(format!(
                "it was changed at its original path: {} is damaged",
                task.path
            ))),
        }
    }
}
