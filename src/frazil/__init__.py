"""Frazil: streams become Apache Iceberg tables exactly once, readable from the first millisecond."""

__version__ = "0.1.0"
