"""Decodes records from bytes into rows with columns. The pipeline, readers and lookups share these functions."""
