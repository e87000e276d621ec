"""Reads the data files of tables."""
