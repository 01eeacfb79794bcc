//! A head with a small catalogue and a disk in memory, for tests of sessions and the room.

use crate::{
    copier::Disk,
    session::{Head, LabelStyle},
};
use base::{
    Checksums, ErrorKind, Failure, FileId, Millis, RequestId, Result, SessionId, Timestamp, Vid, rng::Rng,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::Duration,
};
use wire::{
    control::{
        AppendPoint, ArchiveFile, ArchivedCopy, Blame, Call, EndTapeSession, FilesArchived, FilesFound,
        FoundFile, RecallFile, RequestFailed, TapeSession, TapeWork, VerifyFile, VolumeSurveyed,
    },
    media::label::LabelDate,
};

/// Longest that a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn vid(number: u32) -> Vid {
    format!("BP{number:04}").parse().unwrap()
}

pub(crate) fn today() -> LabelDate {
    LabelDate::new(2026, 325).unwrap()
}

pub(crate) fn style(block_bytes: u32) -> LabelStyle {
    LabelStyle { site: "lab".to_owned(), host: "tape01".to_owned(), block_bytes, today }
}

/// What happened, in order: the name of a call and its content.
pub(crate) type Log = Vec<(&'static str, Value)>;

#[derive(Default)]
pub(crate) struct Catalogue {
    pub(crate) orders: VecDeque<TapeSession>,
    pub(crate) log: Log,
    pub(crate) append: Option<AppendPoint>,
    /// Sessions that append.
    appends: BTreeSet<Option<u64>>,
    /// Copies that the head has acknowledged, by request.
    pub(crate) copies: BTreeMap<u64, ArchivedCopy>,
    /// What surveys have found, and where the last one ended: `Some(None)` is a blank medium.
    pub(crate) found: Vec<FoundFile>,
    #[allow(clippy::option_option, reason = "whether it was told, and what")]
    pub(crate) surveyed: Option<Option<AppendPoint>>,
    /// Calls that are refused, with this, so many times.
    pub(crate) refusals: BTreeMap<&'static str, (Failure, u32)>,
}

/// A head that does what the real one does with its catalogue. Clones are the same head.
#[derive(Clone, Default)]
pub(crate) struct FakeHead(Arc<(Mutex<Catalogue>, Condvar)>);

impl FakeHead {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Catalogue> {
        self.0.0.lock().unwrap()
    }

    /// Waits until the log is as wanted.
    pub(crate) fn wait(&self, is_there: impl Fn(&Catalogue) -> bool) {
        let catalogue = self.lock();
        let waited = self.0.1.wait_timeout_while(catalogue, PATIENCE, |catalogue| !is_there(catalogue));
        let (catalogue, timeout) = waited.unwrap();
        assert!(!timeout.timed_out(), "did not come; the log is {:?}", catalogue.log);
    }

    /// How often a call was made.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.lock().log.iter().filter(|(call, _)| *call == name).count()
    }

    /// How the last session ended.
    pub(crate) fn trouble(&self) -> Option<(Blame, Failure)> {
        let log = self.lock();
        let (_, end) = log.log.iter().rev().find(|(call, _)| *call == EndTapeSession::NAME).unwrap();
        serde_json::from_value::<EndTapeSession>(end.clone()).unwrap().trouble
    }

    /// Files that were reported as failed, and who was blamed.
    pub(crate) fn failed(&self) -> Vec<(u64, Blame, ErrorKind)> {
        let log = self.lock();
        let failed = log.log.iter().filter(|(call, _)| *call == RequestFailed::NAME);
        let failed = failed.map(|(_, value)| serde_json::from_value::<RequestFailed>(value.clone()).unwrap());
        failed.map(|failed| (failed.request.0, failed.blame, failed.failure.kind)).collect()
    }
}

impl Head for FakeHead {
    fn call<C: Call>(&self, call: &C, _: Millis) -> Result<C::Reply> {
        let value = serde_json::to_value(call).unwrap();
        let mut catalogue = self.lock();
        if let Some((failure, times)) = catalogue.refusals.get_mut(C::NAME)
            && *times > 0
        {
            *times -= 1;
            return Err(failure.clone());
        }
        let reply = catalogue.answer(C::NAME, &value);
        catalogue.log.push((C::NAME, value));
        self.0.1.notify_all();
        Ok(serde_json::from_value(reply?).unwrap())
    }
}

impl Catalogue {
    fn answer(&mut self, name: &str, call: &Value) -> Result<Value> {
        match name {
            "next_tape_session" => return Ok(json!({ "session": self.orders.pop_front() })),
            "files_archived" => self.archived(serde_json::from_value(call.clone()).unwrap())?,
            "files_found" => self.note_found(serde_json::from_value(call.clone()).unwrap())?,
            "volume_surveyed" => {
                let surveyed: VolumeSurveyed = serde_json::from_value(call.clone()).unwrap();
                assert!(surveyed.end.is_none_or(|end| (end.fseq, end.block) == self.place()));
                self.surveyed = Some(surveyed.end);
                self.append = surveyed.end;
            }
            // Other sessions say nothing of what an append has left.
            "end_tape_session"
                if call["trouble"].is_null() && self.appends.contains(&call["session"].as_u64()) =>
            {
                if let Some(append) = &mut self.append {
                    append.may_have_leftover = false;
                }
            }
            _ => {}
        }
        Ok(json!({}))
    }

    fn archived(&mut self, archived: FilesArchived) -> Result<()> {
        let append = self.append.as_mut().unwrap();
        for copies in archived.copies.chunk_by(|one, next| one.fseq == next.fseq) {
            let copy = &copies[0];
            if (copy.fseq, copy.block) != (append.fseq, append.block) {
                return Err(Failure::corrupt("copy does not follow the catalogue's end"));
            }
            (append.fseq, append.block) = (copy.fseq + 1, copy.end_block);
            self.copies.extend(copies.iter().map(|copy| (copy.request.0, copy.clone())));
        }
        Ok(())
    }

    /// Where the next file goes, or lies.
    fn place(&self) -> (u32, u64) {
        self.append.map_or((1, 1), |append| (append.fseq, append.block))
    }

    fn note_found(&mut self, found: FilesFound) -> Result<()> {
        for files in found.files.chunk_by(|one, next| one.fseq == next.fseq) {
            let file = &files[0];
            if (file.fseq, file.block) != self.place() {
                return Err(Failure::corrupt("what was found does not follow the catalogue's end"));
            }
            let (fseq, block) = (file.fseq + 1, file.end_block);
            self.append = Some(AppendPoint { fseq, block, may_have_leftover: false });
            self.found.extend_from_slice(files);
        }
        Ok(())
    }

    /// The catalogue is lost.
    pub(crate) fn forget(&mut self) {
        (self.append, self.surveyed) = (None, None);
        self.found.clear();
        self.copies.clear();
    }

    /// Orders for a survey of what lies behind the known end.
    pub(crate) fn survey(&self, id: u64, bytes_max: u64) -> TapeSession {
        let (fseq, block) = self.place();
        let from = AppendPoint { fseq, block, may_have_leftover: false };
        TapeSession {
            id: SessionId(id),
            vid: vid(1),
            used_bytes: 0,
            work: TapeWork::Survey { from, bytes_max },
        }
    }

    /// Orders for an archive of these requests; as the real head does, the end is in doubt from now on.
    pub(crate) fn archive(&mut self, id: u64, disk: &MemoryDisk, requests: &[u64]) -> TapeSession {
        let start = AppendPoint { fseq: 1, block: 1, may_have_leftover: false };
        let append = self.append.get_or_insert(start);
        let orders = *append;
        append.may_have_leftover = true;
        self.appends.insert(Some(id));
        let files = requests.iter().map(|request| disk.archive_file(*request)).collect();
        TapeSession {
            id: SessionId(id),
            vid: vid(1),
            used_bytes: 0,
            work: TapeWork::Archive { append: orders, files },
        }
    }

    /// The same, as one bundle for each list of requests.
    pub(crate) fn archive_bundles(&mut self, id: u64, disk: &MemoryDisk, bundles: &[&[u64]]) -> TapeSession {
        let mut orders = self.archive(id, disk, &bundles.concat());
        if let TapeWork::Archive { files, .. } = &mut orders.work {
            let labels = bundles.iter().zip(1..).flat_map(|(bundle, number)| {
                bundle.iter().map(move |_| wire::media::bundle::label_of(number))
            });
            for (file, label) in files.iter_mut().zip(labels) {
                file.bundle = Some(label);
            }
        }
        orders
    }

    /// Orders for a recall of these requests.
    pub(crate) fn recall(&self, id: u64, disk: &MemoryDisk, requests: &[u64]) -> TapeSession {
        let file = |request: &u64| {
            let ArchivedCopy { fseq, block, member, .. } = self.copies[request];
            let ArchiveFile { request, file, path, size, checksums, .. } = disk.archive_file(*request);
            let sink = format!("sink{request}");
            RecallFile { request, file, path, fseq, block, size, checksums, sink, member }
        };
        let files = requests.iter().map(file).collect();
        TapeSession { id: SessionId(id), vid: vid(1), used_bytes: 0, work: TapeWork::Recall { files } }
    }
}

impl Catalogue {
    /// Orders for a verification of what these requests have written.
    pub(crate) fn verify(&self, id: u64, disk: &MemoryDisk, requests: &[u64]) -> TapeSession {
        let file = |request: &u64| {
            let ArchivedCopy { fseq, block, member, .. } = self.copies[request];
            let ArchiveFile { file, size, checksums, .. } = disk.archive_file(*request);
            VerifyFile { file, fseq, block, size, checksums, member }
        };
        let files = requests.iter().map(file).collect();
        TapeSession { id: SessionId(id), vid: vid(1), used_bytes: 0, work: TapeWork::Verify { files } }
    }
}

pub(crate) fn label_orders(id: u64) -> TapeSession {
    TapeSession { id: SessionId(id), vid: vid(1), used_bytes: 0, work: TapeWork::Label }
}

/// Objects by URL. Clones are the same disk.
#[derive(Clone, Default)]
pub(crate) struct MemoryDisk(Arc<Mutex<Contents>>);

#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) objects: BTreeMap<String, Vec<u8>>,
    /// What the catalogue believes of `sourceN`, if it is not what lies there.
    pub(crate) believed: BTreeMap<u64, Vec<u8>>,
    /// URLs that cannot be opened.
    pub(crate) gone: BTreeSet<String>,
}

impl MemoryDisk {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap()
    }

    /// Puts a file of random bytes at `sourceN`.
    pub(crate) fn put(&self, request: u64, size: usize) {
        let mut rng = Rng::new(request);
        let data = (0..size).map(|_| rng.next_u64() as u8).collect();
        self.lock().objects.insert(format!("source{request}"), data);
    }

    pub(crate) fn archive_file(&self, request: u64) -> ArchiveFile {
        let source = format!("source{request}");
        let disk = self.lock();
        let data = disk.believed.get(&request).unwrap_or_else(|| &disk.objects[&source]);
        let path = format!("/f{request}").parse().unwrap();
        let (size, checksums) = (data.len() as u64, Checksums::of(data));
        ArchiveFile {
            request: RequestId(request),
            file: FileId(request + 100),
            path,
            size,
            checksums,
            source,
            modified: Timestamp(1_700_000_000_000),
            bundle: None,
        }
    }

    /// Whether `sinkN` holds what `sourceN` does.
    pub(crate) fn is_recalled(&self, request: u64) -> bool {
        let disk = self.lock();
        disk.objects.get(&format!("sink{request}")) == Some(&disk.objects[&format!("source{request}")])
    }

    fn open(&self, url: &str) -> Result<()> {
        if self.lock().gone.contains(url) {
            return Err(Failure::unavailable(format!("disk server of {url} is gone")));
        }
        Ok(())
    }
}

impl Disk for MemoryDisk {
    fn read(&self, url: &str, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.open(url)?;
        let data = self.lock().objects[url].clone();
        data.chunks(1000).try_for_each(sink)
    }

    fn write(&self, url: &str, next: &mut dyn FnMut() -> Result<Option<Vec<u8>>>) -> Result<()> {
        self.open(url)?;
        let mut data = Vec::new();
        while let Some(piece) = next()? {
            data.extend_from_slice(&piece);
        }
        self.lock().objects.insert(url.to_owned(), data);
        Ok(())
    }
}
