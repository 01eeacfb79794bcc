-- Several files may lie in one tape file: the number of their bundle, and where in it the data of each begin. 0: it lies alone.
CREATE TABLE copy_new (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    file          INTEGER NOT NULL,
    vid           TEXT NOT NULL,
    fseq          INTEGER NOT NULL,
    block         INTEGER NOT NULL,
    size          INTEGER NOT NULL,
    created       INTEGER NOT NULL,
    bundle        INTEGER NOT NULL DEFAULT 0,
    member_offset INTEGER NOT NULL DEFAULT 0,
    UNIQUE (vid, fseq, member_offset)
) STRICT;
INSERT INTO copy_new (id, file, vid, fseq, block, size, created)
    SELECT id, file, vid, fseq, block, size, created FROM copy;
DROP TABLE copy;
ALTER TABLE copy_new RENAME TO copy;
CREATE INDEX copy_file ON copy (file);
