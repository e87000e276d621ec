"""Chooses rows: by tenant, by time and by a predicate."""
