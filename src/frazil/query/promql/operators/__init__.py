"""Evaluates aggregations and binary operators."""
