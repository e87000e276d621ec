"""Spark: found or fetched, started and stopped, with its settings, its JVM and its Python workers."""
