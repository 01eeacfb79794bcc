//! Disk server: partitions, objects, the data path.
