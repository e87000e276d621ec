"""Writes rows to data files: partitioned, sorted, as Parquet and with statistics."""
