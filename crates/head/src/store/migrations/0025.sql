-- What was removed and is kept for a while. Its node has the directory 0, which nobody can name, and a name of its own there.
CREATE TABLE trash (
    file    INTEGER PRIMARY KEY,
    path    TEXT NOT NULL,                -- where it was
    removed INTEGER NOT NULL,
    remover TEXT NOT NULL,
    why     TEXT NOT NULL                 -- 'removed', 'overwritten', 'replaced'
) STRICT;
CREATE INDEX trash_removed ON trash (removed, file);
CREATE INDEX trash_path ON trash (path);

-- Which number labels on tape and coded cells have of this content, if not that of the file: it was another file's before.
ALTER TABLE node ADD COLUMN label INTEGER NOT NULL DEFAULT 0;

ALTER TABLE census ADD COLUMN trash_files INTEGER NOT NULL DEFAULT 0;
ALTER TABLE census ADD COLUMN trash_bytes INTEGER NOT NULL DEFAULT 0;  -- of these on disk
