"""Evaluates a tree over matrices of series and steps."""
