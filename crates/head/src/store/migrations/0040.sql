-- Storage classes of directories, and what lacks copies by them.
CREATE TABLE storage_class (
    directory INTEGER PRIMARY KEY,
    document  TEXT NOT NULL               -- JSON
) STRICT;
CREATE TABLE missing_copy (
    file INTEGER PRIMARY KEY
) STRICT;
-- The next file that is compared with its class, in row 1; no row: all were.
CREATE TABLE copy_check (
    id        INTEGER PRIMARY KEY,
    next_file INTEGER NOT NULL
) STRICT;
-- The tape pool of a volume; empty: none.
ALTER TABLE volume ADD COLUMN pool TEXT NOT NULL DEFAULT '';
-- Drives that files of a group may have at the same time.
CREATE TABLE drive_quota (
    grp    TEXT NOT NULL,
    kind   TEXT NOT NULL,
    drives INTEGER NOT NULL,
    PRIMARY KEY (grp, kind)
) STRICT;
-- JSON: groups whose files a session writes or reads.
ALTER TABLE tape_session ADD COLUMN file_groups TEXT NOT NULL DEFAULT '[]';
