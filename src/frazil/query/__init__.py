"""Queries over topics: they see the rows in the table and those still in the log together, at one cut."""
