"""Maintenance of tables and log.

compaction, expiry, retention, trimming and more, while they are written and read.
"""
