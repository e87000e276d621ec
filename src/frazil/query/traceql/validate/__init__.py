"""Checks a tree: types, operators and limits, and what Tempo parses and then refuses."""
