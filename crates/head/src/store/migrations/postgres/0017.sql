-- By what a host said to be reached when it joined: its certificates say nothing else.
ALTER TABLE host ADD COLUMN reached TEXT COLLATE "C" NOT NULL DEFAULT '{"names":[],"addresses":[]}';   -- JSON
