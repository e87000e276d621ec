"""Retention: which rows of a table are past their limit, and how they leave it."""
