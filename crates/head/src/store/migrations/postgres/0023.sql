-- What was removed and is kept for a while. Its node has the directory 0, which nobody can name, and a name of its own there.
CREATE TABLE trash (
    file    BIGINT PRIMARY KEY,
    path    TEXT COLLATE "C" NOT NULL,                -- where it was
    removed BIGINT NOT NULL,
    remover TEXT COLLATE "C" NOT NULL,
    why     TEXT COLLATE "C" NOT NULL                 -- 'removed', 'overwritten', 'replaced'
);
CREATE INDEX trash_removed ON trash (removed, file);
CREATE INDEX trash_path ON trash (path);

-- Which number labels on tape and coded cells have of this content, if not that of the file: it was another file's before.
ALTER TABLE node ADD COLUMN label BIGINT NOT NULL DEFAULT 0;

ALTER TABLE census ADD COLUMN trash_files BIGINT NOT NULL DEFAULT 0;
ALTER TABLE census ADD COLUMN trash_bytes BIGINT NOT NULL DEFAULT 0;  -- of these on disk
