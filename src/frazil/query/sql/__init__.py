"""SQL over topics, on DuckDB: read-only, within limits, and with nothing in reach but the topics."""
