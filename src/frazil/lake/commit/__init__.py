"""Commits data files and offsets in one atomic update of the table, exactly once."""
