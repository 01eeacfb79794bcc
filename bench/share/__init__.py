"""Measures the shared file system through two mounts, beside a local file system and GlusterFS."""
