-- Rules for files that are changed in place, of directories and files.
CREATE TABLE layout (
    file     BIGINT PRIMARY KEY,
    document TEXT NOT NULL               -- JSON
);
