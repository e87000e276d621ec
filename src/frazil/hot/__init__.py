"""Keeps the newest records of the log in memory, where a lookup by key or offset takes well under a millisecond."""
