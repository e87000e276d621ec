"""Looks up single rows by key or offset, in segments and table."""
