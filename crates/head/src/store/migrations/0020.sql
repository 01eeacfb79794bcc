-- Pieces that were found while a lost catalogue is made anew, of contents that too few were found of so far.
CREATE TABLE stray (
    object     INTEGER PRIMARY KEY,
    partition  TEXT NOT NULL,
    file       INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    size       INTEGER NOT NULL,
    described  TEXT NOT NULL              -- JSON: as it describes itself
) STRICT;
CREATE INDEX stray_content ON stray (file, generation);
CREATE INDEX stray_partition ON stray (partition);
