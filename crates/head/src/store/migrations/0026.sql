-- When the content changed where it came from, if whoever stored it said so. What decides between contents is `modified`.
ALTER TABLE node ADD COLUMN source_modified INTEGER;
