-- Which content a file has: the number of the first object that had it; 0 is not known.
ALTER TABLE node ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;

-- Whether what is found on disks is taken into a restored catalogue.
ALTER TABLE restored ADD COLUMN recovering INTEGER NOT NULL DEFAULT 0;
