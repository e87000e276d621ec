"""The movers: streaming queries that move ranges of the log into tables."""
