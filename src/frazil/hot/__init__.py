"""The newest records of the log in memory, to be found by key or by offset in well under a millisecond."""
