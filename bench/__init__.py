"""Measures remote file I/O beside the servers and clients that others use: ``make bench-rfio``."""
