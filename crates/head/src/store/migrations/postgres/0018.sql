-- Pieces that were found while a lost catalogue is made anew, of contents that too few were found of so far.
CREATE TABLE stray (
    object     BIGINT PRIMARY KEY,
    partition  TEXT COLLATE "C" NOT NULL,
    file       BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    size       BIGINT NOT NULL,
    described  TEXT COLLATE "C" NOT NULL  -- JSON: as it describes itself
);
CREATE INDEX stray_content ON stray (file, generation);
CREATE INDEX stray_partition ON stray (partition);
