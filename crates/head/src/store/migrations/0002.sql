-- What users keep with files and directories. Rows have ids: values may be long.
CREATE TABLE attribute (
    id    INTEGER PRIMARY KEY,
    file  INTEGER NOT NULL,
    name  TEXT NOT NULL,
    value BLOB NOT NULL,
    UNIQUE (file, name)
) STRICT;
