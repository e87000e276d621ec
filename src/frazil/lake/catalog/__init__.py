"""The Iceberg catalog: its settings, its connection, its errors, and the same catalog for Spark."""
