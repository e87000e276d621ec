"""Answers SQL over topics with DuckDB. Queries are read-only, have limits, and reach nothing but the topics."""
