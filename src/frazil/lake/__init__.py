"""Iceberg tables: the catalog, table creation, schema evolution, data files and commits."""
