-- A row with `hard_link` is a further name of that node, and nothing else; it has the type bits of a symbolic link.
ALTER TABLE node ADD COLUMN hard_link INTEGER NOT NULL DEFAULT 0;
CREATE INDEX node_hard_link ON node (hard_link) WHERE hard_link <> 0;
ALTER TABLE node ADD COLUMN further_links INTEGER NOT NULL DEFAULT 0;   -- rows that are further names of it; of a directory: directories in it
ALTER TABLE node ADD COLUMN accessed INTEGER;                           -- ns; NULL: as the time of its content
ALTER TABLE node ADD COLUMN changed INTEGER;                            -- ns; NULL: as the time of its content
ALTER TABLE node ADD COLUMN modified_nanos INTEGER NOT NULL DEFAULT 0;  -- beyond the milliseconds of the time of its content
UPDATE node SET further_links =
    (SELECT count(*) FROM node AS below WHERE below.parent = node.id AND below.kind = 'directory' AND below.id <> 1)
WHERE kind = 'directory';
