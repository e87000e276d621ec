"""Compaction: merges many small data files into few large ones."""
