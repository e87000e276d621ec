"""Iceberg tables: their catalog, how they are made, how they follow their topics, and how rows reach them."""
