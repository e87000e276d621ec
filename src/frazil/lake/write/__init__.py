"""Rows become data files: split by partition, sorted, written as Parquet, with statistics."""
