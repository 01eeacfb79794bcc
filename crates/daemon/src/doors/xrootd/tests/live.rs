//! Files that change in place, with the real head, disk server and client.

use super::{Doors, OWNER, options, path};
use base::{ErrorKind, FileId, Millis, Result, Timestamp};
use client::xrd::{File, XrdUrl};
use head::{Apply, Principal};
use share::{ClientId, Generation, Mode, RequestId};
use wire::control::{
    AskGrant, CommitNode, EvictMount, FileState, MakeNode, NodeKind, OpenMount, OpenNode, OpenRead,
    ReadGrant, ReturnGrant, ShareGrant, Stat,
};

/// How long the lease of an evicted mount and what is under way at the disk server may take.
const WAIT: Millis = Millis::from_seconds(60);

impl Doors {
    fn ask<C: Apply>(&self, call: C) -> Result<C::Reply> {
        self.runtime.block_on(self.head.call(&Principal::operator(OWNER), call))
    }

    fn mount(&self) -> ClientId {
        self.ask(OpenMount { path: path("/"), host: "h:/mnt".into() }).unwrap().client
    }

    fn make(&self, client: ClientId) -> FileId {
        let (name, kind) = ("f".to_owned(), NodeKind::File);
        let make = MakeNode {
            client,
            parent: FileId(1),
            name,
            kind,
            mode: 0o644,
            is_opened: true,
            target: String::new(),
            grant: None,
        };
        self.ask(make).unwrap().entry.unwrap().id
    }

    /// A grant, as soon as fences that are on their way allow it.
    fn grant(&self, client: ClientId, request: u64, file: FileId, mode: Mode) -> ShareGrant {
        let answer = self.wait_for(AskGrant { client, request: RequestId(request), file, mode });
        answer.grant.unwrap_or_else(|| panic!("{:?}", answer.waits))
    }

    fn wait_for<C: Apply>(&self, call: C) -> C::Reply {
        let head = &self.head;
        self.runtime.block_on(head.call_waiting(&Principal::operator(OWNER), call, WAIT)).unwrap()
    }

    fn commit(&self, client: ClientId, file: FileId, generation: Generation, size: u64) {
        self.ask(CommitNode { client, file, generation, size, modified: Timestamp(9) }).unwrap();
    }
}

/// Where the only object of a grant is.
fn url(grant: &ShareGrant) -> XrdUrl {
    grant.layout.objects().next().unwrap().url.parse().unwrap()
}

fn update(grant: &ShareGrant) -> Result<File> {
    File::open_update(&url(grant), &options(OWNER))
}

fn content(file: &File) -> Vec<u8> {
    let mut buffer = vec![0; 100];
    let count = file.read_at(0, &mut buffer).unwrap();
    assert_eq!(file.stat().unwrap().size, count as u64);
    buffer.truncate(count);
    buffer
}

fn read(url: &XrdUrl) -> Vec<u8> {
    let file = File::open_read(url, &options(OWNER)).unwrap();
    let found = content(&file);
    file.close().unwrap();
    found
}

#[test]
fn a_file_is_written_in_place_and_sealed_when_a_door_wants_it() {
    let doors = Doors::open();
    let client = doors.mount();
    let file = doors.make(client);
    let grant = doors.grant(client, 1, file, Mode::Write);
    let live = update(&grant).unwrap();
    live.write_at(0, b"0123456789").unwrap();
    live.write_at(2, b"xy").unwrap();
    live.truncate(6).unwrap();
    live.sync().unwrap();
    assert_eq!(content(&live), b"01xy45");
    doors.commit(client, file, grant.generation, 6);
    live.close().unwrap();
    let back = ReturnGrant {
        client,
        file,
        generation: grant.generation,
        commit: None,
        closed: None,
        fenced: Vec::new(),
        is_unused: false,
        is_complete: true,
    };
    doors.ask(back).unwrap();
    let reader = doors.grant(client, 2, file, Mode::Read);
    assert_eq!(read(&url(&reader)), b"01xy45");
    // Whoever comes back with the old right is told so, and not sent to the name.
    let late = update(&grant).unwrap();
    assert_eq!(late.write_at(0, b"late").unwrap_err().kind, ErrorKind::Locked);
    drop(late);
    assert!(matches!(doors.wait_for(OpenRead { path: path("/f") }), ReadGrant::Online(_)));
    assert_eq!(read(&doors.root.with_path(path("/f"))), b"01xy45");
    assert_eq!(doors.ask(Stat { path: path("/f") }).unwrap().entry.state, Some(FileState::Online));
    assert_eq!(update(&grant).err().map(|failure| failure.kind), Some(ErrorKind::Locked));
    let again = doors.grant(client, 3, file, Mode::Write);
    let live = update(&again).unwrap();
    live.write_at(0, b"copy").unwrap();
    live.sync().unwrap();
    assert_eq!(content(&live), b"copy45");
}

#[test]
fn what_an_evicted_mount_has_on_its_way_is_refused() {
    let doors = Doors::open();
    let (frozen, other) = (doors.mount(), doors.mount());
    let file = doors.make(frozen);
    doors
        .ask(OpenNode { client: other, file, is_read: true, is_write: true, is_run: false, grant: None })
        .unwrap();
    let grant = doors.grant(frozen, 1, file, Mode::Write);
    let stale = update(&grant).unwrap();
    stale.write_at(0, b"synced").unwrap();
    stale.sync().unwrap();
    doors.commit(frozen, file, grant.generation, 6);
    doors.ask(EvictMount { client: frozen }).unwrap();
    // What it has cached counts as long as its lease. A clock that steps does not shorten that.
    let grant = doors.grant(other, 1, file, Mode::Write);
    for refused in [stale.write_at(0, b"stale"), stale.truncate(0), stale.sync()] {
        assert_eq!(refused.unwrap_err().kind, ErrorKind::Locked);
    }
    let live = update(&grant).unwrap();
    live.write_at(0, b"S").unwrap();
    assert_eq!(content(&live), b"Synced");
}
