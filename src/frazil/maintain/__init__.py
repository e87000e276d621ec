"""Maintains tables and log while they are written and read: compaction, expiry, retention, trimming and more."""
