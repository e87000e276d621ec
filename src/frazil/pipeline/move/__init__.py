"""Movers: streaming queries of Spark that move ranges of the log into tables."""
