-- What operators say of hosts: where they stand.
CREATE TABLE host_label (
    host  TEXT COLLATE "C" NOT NULL,
    name  TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (host, name)
);
