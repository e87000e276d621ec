"""Moves sealed segments of the log into Iceberg tables, with Spark."""
