"""Loads files into topics: reads them as record batches, and appends these."""
