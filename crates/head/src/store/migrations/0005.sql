-- What users and groups may do in a directory and below it, beside what modes allow.
CREATE TABLE directory_grant (
    directory INTEGER NOT NULL,
    subject   TEXT NOT NULL,              -- user:NAME or group:NAME
    rights    TEXT NOT NULL,              -- r, w or rw
    giver     TEXT NOT NULL,
    made      INTEGER NOT NULL,
    PRIMARY KEY (directory, subject)
) STRICT, WITHOUT ROWID;
