"""Runs one process: its parts, which of them a role has, and how they start and stop."""
