//! Rows of drives, volumes and tape copies.

use crate::store::{
    Store, StoreResult,
    engine::Row,
    rows::{facility::ids::Sequence, requests::vid},
    word,
};
use base::{FileId, Timestamp, Vid};
use wire::{
    control::{AppendPoint, TapeMember, VolumeState},
    media::bundle,
};

/// A drive in the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DriveRow {
    pub(crate) name: String,
    /// Empty: it is in the head's own process.
    pub(crate) host: String,
    pub(crate) library: String,
    pub(crate) trouble: Option<String>,
    /// An operator has taken it out of use.
    pub(crate) is_down: bool,
}

/// A volume in the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeRow {
    pub(crate) vid: Vid,
    pub(crate) library: String,
    pub(crate) state: VolumeState,
    pub(crate) reason: Option<String>,
    pub(crate) capacity: u64,
    pub(crate) used: u64,
    pub(crate) append: AppendPoint,
    pub(crate) loads: u64,
    pub(crate) files: u64,
    pub(crate) live_bytes: u64,
    /// Before it became unread.
    pub(crate) was_full: bool,
    /// The library that has still to take in its cartridge; empty: none.
    pub(crate) expected_in: String,
    /// When all its files were compared with the catalogue last, or were written.
    pub(crate) verified: Timestamp,
    /// The next file of a verification that is ordered or under way; 0: there is none.
    pub(crate) verify_next: u32,
    /// Its tape pool; empty: none.
    pub(crate) pool: String,
}

/// A tape copy in the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopyRow {
    pub(crate) file: FileId,
    pub(crate) vid: Vid,
    pub(crate) fseq: u32,
    pub(crate) block: u64,
    pub(crate) size: u64,
    /// Where it lies in a bundle.
    pub(crate) member: Option<TapeMember>,
}

fn volume(row: &Row<'_>) -> StoreResult<VolumeRow> {
    Ok(VolumeRow {
        vid: vid(row, 0)?,
        library: row.get(1)?,
        state: word(row, 2)?,
        reason: row.get(3)?,
        capacity: row.get(4)?,
        used: row.get(5)?,
        append: AppendPoint { fseq: row.get(6)?, block: row.get(7)?, may_have_leftover: row.get(8)? },
        loads: row.get(9)?,
        files: row.get(10)?,
        live_bytes: row.get(11)?,
        was_full: row.get(12)?,
        expected_in: row.get(13)?,
        verified: Timestamp(row.get::<i64>(14)?.max(row.get(15)?)),
        verify_next: row.get(16)?,
        pool: row.get(17)?,
    })
}

/// Reads bundle and offset; bundle 0 is none.
fn member(row: &Row<'_>, column: usize) -> StoreResult<Option<TapeMember>> {
    let (number, offset) = (row.get::<u64>(column)?, row.get(column + 1)?);
    Ok((number != 0).then(|| TapeMember { bundle: bundle::label_of(number), offset }))
}

pub(in crate::store) const COPY: &str =
    "c.file, c.vid, c.fseq, c.block, c.size, c.bundle, c.member_offset FROM copy c";

pub(in crate::store) fn copy(row: &Row<'_>) -> StoreResult<CopyRow> {
    Ok(CopyRow {
        file: FileId(row.get(0)?),
        vid: vid(row, 1)?,
        fseq: row.get(2)?,
        block: row.get(3)?,
        size: row.get(4)?,
        member: member(row, 5)?,
    })
}

const VOLUME: &str =
    "v.vid, v.library, v.state, v.reason, v.capacity, v.used, v.next_fseq, v.end_block, v.leftover,
    v.loads, (SELECT count(*) FROM copy c WHERE c.vid = v.vid),
    (SELECT CAST(coalesce(sum(c.size), 0) AS BIGINT) FROM copy c WHERE c.vid = v.vid), v.was_full, v.expected_in,
    coalesce(v.verified, 0), (SELECT coalesce(max(c.created), 0) FROM copy c WHERE c.vid = v.vid), v.verify_next,
    v.pool
    FROM volume v";

/// States in which a volume is not read: what lies only there may not leave the disks.
pub(in crate::store) const UNREADABLE: &str = "('suspect', 'broken', 'disabled', 'exported')";

/// Orders copies: those on volumes that a library has and that may be read come first.
pub(in crate::store) const READ_LAST: &str =
    "CASE WHEN v.state = 'broken' THEN 3 WHEN v.state IN ('suspect', 'disabled', 'exported') THEN 2
          WHEN v.library = '' THEN 1 ELSE 0 END";

/// A catalogue is older than it was: what was written to volumes since would be written over, and blank ones may not be.
pub(in crate::store) const DOUBT_VOLUMES: &str =
    "UPDATE volume SET state = CASE WHEN state = 'appendable' THEN 'full' ELSE 'suspect' END, reason = ?1
     WHERE state IN ('blank', 'appendable', 'unread')";

impl Store {
    /// Has nothing written to volumes until they were surveyed, or a person has said what they are.
    pub(crate) fn doubt_volumes(&self, reason: &str) -> StoreResult<()> {
        self.pending.borrow_mut().set_visible();
        self.run(DOUBT_VOLUMES, (reason,))
    }

    pub(crate) fn put_drive(&self, host: &str, library: &str, name: &str) -> StoreResult<()> {
        self.run(
            "INSERT INTO drive (name, library, host) VALUES (?1, ?2, ?3)
             ON CONFLICT (name) DO UPDATE SET library = ?2, host = ?3",
            (name, library, host),
        )
    }

    pub(crate) fn delete_drive(&self, name: &str) -> StoreResult<()> {
        self.run("DELETE FROM drive WHERE name = ?1", (name,))
    }

    pub(crate) fn drives(&self) -> StoreResult<Vec<DriveRow>> {
        self.all("SELECT name, library, trouble, host, is_down FROM drive ORDER BY name", (), |row| {
            Ok(DriveRow {
                name: row.get(0)?,
                library: row.get(1)?,
                trouble: row.get(2)?,
                host: row.get(3)?,
                is_down: row.get(4)?,
            })
        })
    }

    /// Takes a drive out of use, or puts it back; `is_down`: an operator wants it. False if there is no such drive.
    pub(crate) fn set_drive_trouble(
        &self,
        name: &str,
        trouble: Option<&str>,
        is_down: bool,
    ) -> StoreResult<bool> {
        let sql = "UPDATE drive SET trouble = ?2, is_down = ?3 WHERE name = ?1";
        Ok(self.run_counted(sql, (name, trouble, u8::from(is_down)))? > 0)
    }

    /// Adds a volume that nobody knew, as blank; a known one keeps everything but its place and size.
    pub(crate) fn put_volume(&self, library: &str, vid: &Vid, capacity: u64) -> StoreResult<()> {
        self.run(
            "INSERT INTO volume (vid, library, state, capacity) VALUES (?1, ?2, 'blank', ?3)
             ON CONFLICT (vid) DO UPDATE SET library = ?2, capacity = ?3",
            (vid.as_str(), library, capacity),
        )
    }

    /// Says in which library a volume is; empty: in none.
    pub(crate) fn set_library(&self, vid: &Vid, library: &str) -> StoreResult<()> {
        self.run("UPDATE volume SET library = ?2 WHERE vid = ?1", (vid.as_str(), library))
    }

    /// Says which library has still to take in the cartridge of a volume; empty: none.
    pub(crate) fn set_expected_in(&self, vid: &Vid, library: &str) -> StoreResult<()> {
        self.run("UPDATE volume SET expected_in = ?2 WHERE vid = ?1", (vid.as_str(), library))
    }

    pub(crate) fn volume(&self, vid: &Vid) -> StoreResult<Option<VolumeRow>> {
        self.maybe(&format!("SELECT {VOLUME} WHERE v.vid = ?1"), (vid.as_str(),), volume)
    }

    pub(crate) fn volumes(&self) -> StoreResult<Vec<VolumeRow>> {
        self.all(&format!("SELECT {VOLUME} ORDER BY v.vid"), (), volume)
    }

    /// The state of each volume and its library, for those who need not know how full it is: that is a sum of its copies.
    pub(crate) fn volume_places(&self) -> StoreResult<Vec<(Vid, VolumeState, String)>> {
        self.all("SELECT vid, state, library FROM volume", (), |row| {
            Ok((vid(row, 0)?, word(row, 1)?, row.get(2)?))
        })
    }

    pub(crate) fn set_volume_state(
        &self,
        vid: &Vid,
        state: VolumeState,
        reason: Option<&str>,
    ) -> StoreResult<bool> {
        // A suspect volume is read last: what people are told of its files changes.
        self.pending.borrow_mut().set_visible();
        let changed = self.run_counted(
            "UPDATE volume SET state = ?2, reason = ?3 WHERE vid = ?1",
            (vid.as_str(), state.as_word(), reason),
        )?;
        Ok(changed > 0)
    }

    /// A volume is to be surveyed from its end on. What lies there is not known until then, and not written over.
    pub(crate) fn set_unread(&self, vid: &Vid, was_full: bool, reason: &str) -> StoreResult<()> {
        self.set_volume_state(vid, VolumeState::Unread, Some(reason))?;
        self.set_leftover(vid, false)?;
        self.run("UPDATE volume SET was_full = ?2 WHERE vid = ?1", (vid.as_str(), was_full))
    }

    /// Moves the end of the data of a volume.
    pub(crate) fn set_append_point(&self, vid: &Vid, fseq: u32, block: u64, used: u64) -> StoreResult<()> {
        self.run(
            "UPDATE volume SET next_fseq = ?2, end_block = ?3, used = ?4 WHERE vid = ?1",
            (vid.as_str(), fseq, block, used),
        )
    }

    pub(crate) fn set_leftover(&self, vid: &Vid, leftover: bool) -> StoreResult<()> {
        self.run("UPDATE volume SET leftover = ?2 WHERE vid = ?1", (vid.as_str(), leftover))
    }

    pub(crate) fn count_loads(&self, vid: &Vid, loads: u32) -> StoreResult<()> {
        self.run("UPDATE volume SET loads = loads + ?2 WHERE vid = ?1", (vid.as_str(), loads))
    }

    pub(crate) fn insert_copy(&self, copy: &CopyRow, now: Timestamp) -> StoreResult<()> {
        self.set_archived(copy.file, true)?;
        let id = self.next_id(Sequence::Copy)?;
        let (number, offset) = copy
            .member
            .map_or((0, 0), |member| (bundle::number_of(member.bundle).unwrap_or_default(), member.offset));
        self.run(
            "INSERT INTO copy (id, file, vid, fseq, block, size, created, bundle, member_offset)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            (id, copy.file.0, copy.vid.as_str(), copy.fseq, copy.block, copy.size, now.0, number, offset),
        )
    }

    /// What the labels of a new bundle call it.
    pub(crate) fn new_bundle(&self) -> StoreResult<FileId> {
        Ok(bundle::label_of(self.next_id(Sequence::Node)?))
    }

    /// Copies of a file, the one to read first: on volumes that may be read, oldest first.
    pub(crate) fn copies(&self, file: FileId) -> StoreResult<Vec<CopyRow>> {
        let sql = format!(
            "SELECT {COPY} JOIN volume v ON v.vid = c.vid WHERE c.file = ?1 ORDER BY {READ_LAST}, c.id"
        );
        self.all(&sql, (file.0,), copy)
    }

    /// Forgets the copies of a file; their bytes on the volumes are dead.
    pub(crate) fn delete_copies(&self, file: FileId) -> StoreResult<()> {
        self.set_archived(file, false)?;
        self.set_lacks_copies(file, false)?;
        self.forget_damage(file)?;
        self.run("DELETE FROM copy WHERE file = ?1", (file.0,))
    }

    /// Notes whether a file has copies, before that is stored as these: a file that is read in between would be
    /// remembered with what may not last.
    pub(in crate::store) fn set_archived(&self, file: FileId, is_archived: bool) -> StoreResult<()> {
        // A second copy changes what people are told, too.
        self.pending.borrow_mut().set_visible();
        self.change_node(file, |node| node.is_archived = is_archived).map(drop)
    }
}
