-- What operators say of hosts: where they stand.
CREATE TABLE host_label (
    host  TEXT NOT NULL,
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (host, name)
) STRICT, WITHOUT ROWID;
