-- Times at which this catalogue went back to an older state. As long as one is not settled, disk servers delete nothing.
CREATE TABLE restored (
    epoch   BIGINT PRIMARY KEY,           -- 1, 2, 3, …
    noticed BIGINT NOT NULL,
    taken   BIGINT,                       -- when the backup was made, if it was restored from one
    reason  TEXT COLLATE "C" NOT NULL,
    settled BIGINT                        -- when an operator said that all is well
);

-- Starts of the head by number. An older copy of this catalogue that was started has others.
CREATE TABLE head_start (
    incarnation BIGINT PRIMARY KEY,
    at          BIGINT NOT NULL,
    tick        BIGINT NOT NULL DEFAULT 0 -- grows now and then as long as the catalogue changes
);

-- The active head, and who is to follow it.
CREATE TABLE head_now (
    only_row    BIGINT PRIMARY KEY CHECK (only_row = 1),
    incarnation BIGINT NOT NULL,
    host        TEXT COLLATE "C" NOT NULL,
    root        TEXT COLLATE "C" NOT NULL,            -- its doors, host:port
    https       TEXT COLLATE "C" NOT NULL,
    beat        BIGINT NOT NULL,          -- when it was heard last, by the clock of the database
    successor   TEXT COLLATE "C"                      -- the standby that an operator ordered to take over
);
