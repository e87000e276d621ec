"""The schema and the layout of a table, and how it follows its topic."""
