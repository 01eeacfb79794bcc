-- Pieces of coded files. What has no parity is all of its file.
ALTER TABLE replica ADD COLUMN parity  INTEGER;                    -- pieces that may be lost
ALTER TABLE replica ADD COLUMN needed  INTEGER NOT NULL DEFAULT 1; -- different pieces that give the file
ALTER TABLE replica ADD COLUMN piece   INTEGER NOT NULL DEFAULT 0; -- which one
ALTER TABLE replica ADD COLUMN cell    INTEGER;                    -- bytes of a full cell
ALTER TABLE replica ADD COLUMN adler32 INTEGER;                    -- of the piece, once it was made
ALTER TABLE replica ADD COLUMN crc32c  INTEGER;
CREATE INDEX replica_coded ON replica (partition) WHERE parity IS NOT NULL;
