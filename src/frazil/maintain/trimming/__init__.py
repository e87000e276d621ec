"""Trimming: deletes the segments of the log that no table needs any more."""
