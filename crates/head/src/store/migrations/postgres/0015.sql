-- Whether a file is online is answered by the index alone: a long listing asks for each of its entries.
DROP INDEX replica_file;
CREATE INDEX replica_file ON replica (file, state, needed, piece);
