"""Retention: finds the rows of a table that are past their limit, and removes them."""
