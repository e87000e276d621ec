"""Trimming: which segments of the log no table needs any more."""
