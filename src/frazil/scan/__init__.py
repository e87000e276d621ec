"""Reads the rows of a topic by offset from its table and its log, each row exactly once."""
