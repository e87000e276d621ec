"""Remembers the tables of topics between scans: snapshots, and their files as arrays."""
