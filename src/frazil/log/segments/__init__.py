"""Segments: sealed Parquet objects, the index of them, and their deletion."""
