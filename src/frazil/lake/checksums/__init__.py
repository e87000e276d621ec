"""Checksums of data files: they are written with each file and verified on every read."""
