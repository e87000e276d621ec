"""Reads the messages of a topic by offset, from memory, segments or table."""
