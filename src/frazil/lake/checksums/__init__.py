"""Checksums of data files: they are written, verified on every read, and name the damaged file."""
