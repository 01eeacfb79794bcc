-- Times at which this catalogue went back to an older state. As long as one is not settled, disk servers delete nothing.
CREATE TABLE restored (
    epoch   INTEGER PRIMARY KEY,          -- 1, 2, 3, …
    noticed INTEGER NOT NULL,
    taken   INTEGER,                      -- when the backup was made, if it was restored from one
    reason  TEXT NOT NULL,
    settled INTEGER                       -- when an operator said that all is well
) STRICT;

-- Starts of the head by number. An older copy of this catalogue that was started has others.
CREATE TABLE head_start (
    incarnation INTEGER PRIMARY KEY,
    at          INTEGER NOT NULL,
    tick        INTEGER NOT NULL DEFAULT 0 -- grows now and then as long as the catalogue changes
) STRICT;

-- The active head, and who is to follow it.
CREATE TABLE head_now (
    only_row    INTEGER PRIMARY KEY CHECK (only_row = 1),
    incarnation INTEGER NOT NULL,
    host        TEXT NOT NULL,
    root        TEXT NOT NULL,            -- its doors, host:port
    https       TEXT NOT NULL,
    beat        INTEGER NOT NULL,         -- when it was heard last, by the clock of the database
    successor   TEXT                      -- the standby that an operator ordered to take over
) STRICT;
