"""Schemas and layouts of tables: type conversion, merging of columns, partitioning and sort order."""
