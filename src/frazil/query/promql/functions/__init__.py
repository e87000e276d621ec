"""Evaluates functions over vectors and ranges."""
