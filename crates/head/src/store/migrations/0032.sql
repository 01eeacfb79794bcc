-- Nodes that are neither file nor directory have kind 'file' and the type bits of POSIX in their mode.
-- Where symbolic links lead, and which devices special files are.
CREATE TABLE link (
    file     INTEGER PRIMARY KEY,
    target   TEXT NOT NULL
) STRICT;
