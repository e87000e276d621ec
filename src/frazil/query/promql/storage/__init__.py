"""Finds the samples of series in table and log."""
