-- Volumes whose files are copied to others.
CREATE TABLE repack (
    vid         TEXT COLLATE "C" PRIMARY KEY,
    owner       TEXT COLLATE "C" NOT NULL,
    reclaims    BIGINT NOT NULL,               -- whether the volume is written from its beginning afterwards
    started     BIGINT NOT NULL,
    finished    BIGINT,                        -- NULL: it goes on
    moved_files BIGINT NOT NULL DEFAULT 0,
    moved_bytes BIGINT NOT NULL DEFAULT 0
);
-- What a request is for: 'user', 'repack', or 'staged': for a repack that has recalled the file, too.
ALTER TABLE request ADD COLUMN purpose TEXT COLLATE "C" NOT NULL DEFAULT 'user';
CREATE INDEX request_purpose ON request (purpose) WHERE purpose <> 'user';
